"""The explanation of a selection: each provider that was considered, in rank order, with the reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ort_py.contracts import Availability
from ort_py.devices import DeviceClass
from ort_py.discovery import CPU_ROLE, select_providers
from ort_py.discovery.explanation import SelectionExplanation, explained
from ort_py.discovery.fallback_record import FallbackRecord
from ort_py.errors import ProviderFallbackWarning

from .fakes import FakeFactory, FakeInstallation

GPU, FAST, BROKEN, ABSENT = (f"{kind}ExecutionProvider" for kind in ("Gpu", "FastCpu", "Broken", "Absent"))


@pytest.fixture
def zoo(installation: FakeInstallation) -> FakeInstallation:
    """A CPU provider, a stand-in for it, an accelerator, one without its device and a broken one."""
    installation.add_cpu()
    installation.add(FakeFactory(FAST, rank=5, stands_in_for=CPU_ROLE))
    installation.add(FakeFactory(GPU, device_class=DeviceClass.GPU, rank=7))
    no_device = Availability(False, "no device found", "plug one in")
    installation.add(FakeFactory(ABSENT, available=no_device, device_class=DeviceClass.NPU))
    installation.add(FakeFactory(BROKEN, available=RuntimeError("driver says no")))
    return installation


def explain(zoo: FakeInstallation, *providers: Any, strict: str = "", **settings: Any) -> SelectionExplanation:
    """Select and explain."""
    catalog = zoo.catalog()
    pinned = settings.get("pin_plain_cpu", False)
    selection = select_providers(list(providers) or None, catalog=catalog, strict=strict, pin_plain_cpu=pinned)
    return explained(
        catalog.records(),
        selection,
        source="a test",
        named=not selection.automatic,
        strict=strict,
        compat=False,
        pin_plain_cpu=pinned,
        fallbacks=settings.get("fallbacks", ()),
    )


def test_an_automatic_choice_is_in_rank_order(zoo: FakeInstallation) -> None:
    """Taken ones first, by class and rank; the others with what is wrong with them, and the fix."""
    found = explain(zoo)
    assert found.mode == "automatic"
    assert found.taken == [GPU, FAST, CPU_ROLE]
    assert [one.place for one in found.considered] == [1, 2, 3, 0, 0]
    why = {one.name: one.why for one in found.considered}
    assert why[GPU] == "usable here, and the choice was left to ort-py"
    assert why[FAST].startswith(f"fills the role of {CPU_ROLE}")
    assert why[ABSENT] == "it is unavailable: no device found"
    assert "driver says no" in why[BROKEN]
    assert next(one.fix for one in found.considered if one.name == ABSENT) == "plug one in"


def test_the_answer_is_the_same_every_time(zoo: FakeInstallation) -> None:
    """Two catalogues of one installation give one text."""
    assert str(explain(zoo)) == str(explain(zoo))


def test_what_was_not_asked_for_says_so(zoo: FakeInstallation) -> None:
    """A list is a preference; strict mode makes it a requirement."""
    found = explain(zoo, GPU)
    why = {one.name: one.why for one in found.considered}
    assert found.mode == "preferred"
    assert why[GPU] == "asked for by name"
    assert why[CPU_ROLE] == "not requested: it runs the nodes that the other providers do not run"
    assert explain(zoo, GPU, strict="node").mode == "required"
    alone = {one.name: one.why for one in explain(zoo, GPU, strict="node").considered}
    assert alone[CPU_ROLE] == "it was not asked for"


def test_what_is_skipped_or_not_installed_is_there(zoo: FakeInstallation) -> None:
    """Also names that nothing here has."""
    with pytest.warns(ProviderFallbackWarning):
        found = explain(zoo, "CUDAExecutionProvider", ABSENT, CPU_ROLE)
    last = found.considered[-1]
    assert (last.name, last.state, last.taken) == ("CUDAExecutionProvider", "not installed", False)
    assert not next(one for one in found.considered if one.name == ABSENT).taken


def test_a_pinned_cpu_is_a_reason(zoo: FakeInstallation) -> None:
    """Nothing stands in for it then."""
    found = explain(zoo, CPU_ROLE, pin_plain_cpu=True)
    assert found.taken == [CPU_ROLE]
    assert "pin_cpu reserves the role" in next(one.why for one in found.considered if one.name == FAST)


def test_a_provider_that_could_not_be_created_is_not_taken(zoo: FakeInstallation) -> None:
    """It was selected; the session's fallback says what happened."""
    found = explain(zoo, fallbacks=[FallbackRecord("initialisation", GPU, "out of handles")])
    assert found.taken == [FAST, CPU_ROLE]
    assert next(one.why for one in found.considered if one.name == GPU) == "out of handles"


def test_text_and_data_say_the_same(zoo: FakeInstallation) -> None:
    """A line for each provider, its place in front; JSON has all fields."""
    found = explain(zoo)
    lines = str(found).splitlines()
    assert lines[0] == "automatic, by a test"
    assert lines[1].startswith(f" 1. {GPU} (gpu, rank 7): ")
    assert "      what to do: plug one in" in lines
    data = json.loads(json.dumps(found.to_json()))
    assert data["taken"] == found.taken
    assert [one["name"] for one in data["considered"]] == [one.name for one in found.considered]
