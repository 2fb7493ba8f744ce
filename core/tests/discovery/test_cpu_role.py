"""At most one native engine fills the CPU role of a session, whatever is installed and whoever is asked for."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from ort_py.contracts import Availability, OptionSpec, SessionContext
from ort_py.devices import DeviceClass
from ort_py.discovery import CPU_ROLE, Origin, Selection, create_instances, select_providers
from ort_py.discovery.explanation import explained
from ort_py.errors import InvalidArgument, OptionError, ProviderFallbackWarning, ProviderNotAvailableError

from .fakes import FakeFactory, FakeInstallation

BEST, SECOND, THIRD, GPU, SEVERAL = (f"{name}ExecutionProvider" for name in ("Best", "Second", "Third", "Gpu", "Many"))
CONTEXT = SessionContext()


def _engine(name: str, rank: int, **answers: Any) -> FakeFactory:
    return FakeFactory(name, rank=rank, stands_in_for=CPU_ROLE, **answers)


@pytest.fixture
def engines(installation: FakeInstallation) -> FakeInstallation:
    """A machine with three engines for the CPU, a GPU, and a provider of several devices whose default is the CPU."""
    installation.add_cpu(rank=-1000)
    installation.add(_engine(THIRD, 10))
    installation.add(_engine(BEST, 30))
    installation.add(_engine(SECOND, 20))
    installation.add(
        _engine(
            SEVERAL,
            5,
            options=[OptionSpec("device", str, "CPU")],
            fills_role=lambda options: bool(options["device"] == "CPU"),
        )
    )
    installation.add(FakeFactory(GPU, device_class=DeviceClass.GPU))
    return installation


def _select(installation: FakeInstallation, *providers: Any, **settings: Any) -> Selection:
    return select_providers(list(providers) or None, catalog=installation.catalog(), **settings)


def _names(selection: Selection) -> list[str]:
    return [one.record.name for one in selection.selected]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ([], [GPU, BEST, CPU_ROLE]),
        ([CPU_ROLE], [BEST, CPU_ROLE]),
        ([GPU], [GPU, BEST, CPU_ROLE]),
        ([GPU, CPU_ROLE], [GPU, BEST, CPU_ROLE]),
        ([CPU_ROLE, GPU], [BEST, CPU_ROLE, GPU]),
        ([BEST], [BEST, CPU_ROLE]),
        ([THIRD], [THIRD, CPU_ROLE]),
        ([THIRD, CPU_ROLE], [THIRD, CPU_ROLE]),
        ([CPU_ROLE, THIRD], [CPU_ROLE, THIRD]),
        ([THIRD, GPU, CPU_ROLE], [THIRD, GPU, CPU_ROLE]),
        ([THIRD, SECOND], [THIRD, SECOND, CPU_ROLE]),
        ([f"pkg-{THIRD.lower()}:{THIRD}", CPU_ROLE], [THIRD, CPU_ROLE]),
        ([SEVERAL], [SEVERAL, CPU_ROLE]),
        ([(SEVERAL, {"device": "CPU"}), CPU_ROLE], [SEVERAL, CPU_ROLE]),
        ([(SEVERAL, {"device": "NPU"})], [SEVERAL, BEST, CPU_ROLE]),
        ([(SEVERAL, {"device": "NPU"}), CPU_ROLE], [SEVERAL, BEST, CPU_ROLE]),
        ([(SEVERAL, {"device": "NPU"}), THIRD], [SEVERAL, THIRD, CPU_ROLE]),
    ],
    ids=str,
)
def test_who_fills_the_role(engines: FakeInstallation, asked: Sequence[Any], expected: Sequence[str]) -> None:
    """Without a choice, the best ranked engine fills it; otherwise the named ones do, and no other."""
    assert _names(_select(engines, *asked)) == expected


def test_the_order_of_installation_makes_no_difference(installation: FakeInstallation) -> None:
    installation.add_cpu()
    for name in ("CExecutionProvider", "AExecutionProvider", "BExecutionProvider"):
        installation.add(_engine(name, 1))
    for entries in itertools.permutations(list(installation.entries)):
        installation.entries = list(entries)
        assert _names(_select(installation)) == ["AExecutionProvider", CPU_ROLE]


def test_a_named_engine_that_cannot_be_used_leaves_the_role_open(installation: FakeInstallation) -> None:
    """It is skipped with a warning, and the role is filled as if it had not been named."""
    installation.add_cpu()
    installation.add(_engine(BEST, 30))
    installation.add(_engine(SECOND, 20, available=Availability(False, "its library is missing")))
    with pytest.warns(ProviderFallbackWarning, match=SECOND):
        assert _names(_select(installation, SECOND, CPU_ROLE)) == [BEST, CPU_ROLE]


def test_nothing_is_in_reserve_where_plain_cpu_is_pinned(engines: FakeInstallation) -> None:
    """The role stays empty then, even if an engine cannot be created."""
    selection = _select(engines, GPU, pin_plain_cpu=True)
    assert (_names(selection), selection.cpu_engines, selection.reserve) == ([GPU, CPU_ROLE], (), ())


def test_strict_node_completes_with_nobody(engines: FakeInstallation) -> None:
    """An engine does not join a session that forbids completion."""
    assert _names(_select(engines, GPU, strict="node")) == [GPU]


def test_the_reserve_is_told_by_rank(engines: FakeInstallation) -> None:
    """The result lists the engine in the role and those that would follow; `beside` lets one of these share it."""
    selection = _select(engines)
    assert selection.cpu_engines == (BEST,)
    assert [one.record.name for one in selection.reserve] == [SECOND, THIRD, SEVERAL]
    assert [one.record.name for one in _select(engines, SECOND).reserve] == [BEST, THIRD, SEVERAL]
    shared = _select(engines, beside=[THIRD])
    assert _names(shared) == [GPU, BEST, THIRD, CPU_ROLE]
    assert shared.cpu_engines == (BEST, THIRD)


def test_the_explanation_says_who_fills_the_role(engines: FakeInstallation) -> None:
    """For each engine that is left out."""
    selection = _select(engines, SECOND, CPU_ROLE)
    told = explained(
        engines.catalog().records(),
        selection,
        source="a test",
        named=True,
        strict="",
        compat=False,
        pin_plain_cpu=False,
    )
    for name in (BEST, THIRD, SEVERAL):
        (why,) = [one.why for one in told.considered if one.name == name]
        assert f"{SECOND} fills the role of {CPU_ROLE}; a session has one native CPU engine" in why
    (why,) = [one.why for one in told.considered if one.name == GPU]
    assert why == "it was not asked for"


def test_an_option_that_is_wrong_is_still_an_error(engines: FakeInstallation) -> None:
    """Whether a provider fills the role is asked with checked options only."""
    with pytest.raises(OptionError, match="devic"):
        _select(engines, (SEVERAL, {"devic": "NPU"}))


def test_a_factory_that_does_not_answer_fills_the_role(
    installation: FakeInstallation, caplog: pytest.LogCaptureFixture
) -> None:
    """Two engines would be worse than none beside it; the exception is logged."""
    installation.add_cpu()
    installation.add(_engine(BEST, 30))
    installation.add(_engine(SECOND, 20, fills_role=RuntimeError("no idea")))
    assert _names(_select(installation, SECOND)) == [SECOND, CPU_ROLE]
    assert "fills_role() of SecondExecutionProvider raised RuntimeError: no idea" in caplog.text


# -- engines that cannot be created ------------------------------------------------------------------------------


@pytest.fixture
def failing(installation: FakeInstallation) -> FakeInstallation:
    """The best engine cannot be created, and neither can the second."""
    installation.add_cpu()
    installation.add(_engine(BEST, 30, created=RuntimeError("no context")))
    installation.add(_engine(SECOND, 20, created=RuntimeError("no memory")))
    installation.add(_engine(THIRD, 10))
    installation.add(FakeFactory(GPU, device_class=DeviceClass.GPU))
    return installation


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ([], [GPU, THIRD, CPU_ROLE]),
        ([CPU_ROLE], [THIRD, CPU_ROLE]),
        ([GPU], [GPU, THIRD, CPU_ROLE]),
        ([BEST, GPU, CPU_ROLE], [GPU, THIRD, CPU_ROLE]),
        ([BEST, THIRD], [THIRD, CPU_ROLE]),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::ort_py.errors.ProviderFallbackWarning")
def test_the_next_one_fills_the_role(failing: FakeInstallation, asked: Sequence[str], expected: Sequence[str]) -> None:
    """The first of the reserve that can be created, before the provider that completes; the failures are on record."""
    selection = _select(failing, *asked)
    instances = create_instances(selection.selected, CONTEXT, reserve=selection.reserve)
    assert [provider.name for provider in instances.providers] == expected
    assert BEST in {record.provider for record in instances.fallbacks}
    joined = selection.joined_by(instances.joined)
    assert set(expected) <= set(_names(joined))
    assert not {one.record.name for one in joined.reserve} & set(expected)


def test_one_named_alone_is_not_replaced(failing: FakeInstallation) -> None:
    """A provider that only completes others does not answer a request."""
    selection = _select(failing, BEST)
    with pytest.raises(ProviderNotAvailableError, match="no context"):
        create_instances(selection.selected, CONTEXT, reserve=selection.reserve)


def test_strict_mode_replaces_nobody(failing: FakeInstallation) -> None:
    """A provider that cannot be created is an error there."""
    selection = _select(failing, CPU_ROLE, strict="provider")
    with pytest.raises(ProviderNotAvailableError, match="no context"):
        create_instances(selection.selected, CONTEXT, strict="provider", reserve=selection.reserve)


def test_an_engine_that_lives_is_enough(installation: FakeInstallation) -> None:
    """If one of two named engines cannot be created, the other fills the role, and no third one joins."""
    installation.add_cpu()
    installation.add(_engine(BEST, 30))
    installation.add(_engine(SECOND, 20, created=RuntimeError("no memory")))
    installation.add(_engine(THIRD, 10))
    selection = _select(installation, SECOND, THIRD)
    with pytest.warns(ProviderFallbackWarning, match=SECOND):
        instances = create_instances(selection.selected, CONTEXT, reserve=selection.reserve)
    assert [provider.name for provider in instances.providers] == [THIRD, CPU_ROLE]


def test_a_provider_of_another_device_is_not_replaced_by_an_engine(installation: FakeInstallation) -> None:
    """The role is filled already; what failed did not fill it."""
    installation.add_cpu()
    installation.add(FakeFactory(GPU, device_class=DeviceClass.GPU, created=InvalidArgument("no such device")))
    installation.add(_engine(BEST, 30))
    installation.add(_engine(SECOND, 20))
    selection = _select(installation)
    assert [one.origin for one in selection.selected][1:] == [Origin.STAND_IN, Origin.AUTOMATIC]
    instances = create_instances(selection.selected, CONTEXT, reserve=selection.reserve)
    assert [provider.name for provider in instances.providers] == [BEST, CPU_ROLE]


@pytest.fixture
def assistant(engines: FakeInstallation) -> FakeInstallation:
    """The same machine with an engine that assists others."""
    options = [OptionSpec("little", bool, False)]
    engines.add(_engine("AidExecutionProvider", 1, options=options, assisting={"little": True}))
    return engines


@pytest.mark.parametrize(
    ("asked", "expected", "little"),
    [
        ([], [GPU, BEST, "AidExecutionProvider", CPU_ROLE], True),
        ([CPU_ROLE], [BEST, "AidExecutionProvider", CPU_ROLE], True),
        ([THIRD], [THIRD, "AidExecutionProvider", CPU_ROLE], True),
        (["AidExecutionProvider"], ["AidExecutionProvider", CPU_ROLE], False),
        ([CPU_ROLE, "AidExecutionProvider"], [CPU_ROLE, "AidExecutionProvider"], False),
    ],
)
def test_one_may_assist_another(
    assistant: FakeInstallation, asked: list[str], expected: list[str], little: bool
) -> None:
    """It comes behind the one that fills the role, with its own options; named, it is an engine as any."""
    selection = _select(assistant, *asked)
    assert _names(selection) == expected
    (aid,) = (one for one in selection.selected if one.record.name == "AidExecutionProvider")
    assert aid.options == {"little": little}
    assert "AidExecutionProvider" not in [one.record.name for one in selection.reserve]


def test_an_assistant_that_fails_assists_nobody(engines: FakeInstallation) -> None:
    engines.add(_engine("AidExecutionProvider", 1, assisting=RuntimeError("no")))
    assert "AidExecutionProvider" not in _names(_select(engines))


def test_plain_cpu_has_no_assistant(assistant: FakeInstallation) -> None:
    assert _names(_select(assistant, CPU_ROLE, pin_plain_cpu=True)) == [CPU_ROLE]
