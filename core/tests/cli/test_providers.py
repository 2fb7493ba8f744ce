"""``ort-py providers``: installed, usable, and why not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

import ort_py
from core.tests.cli.conftest import Call
from ort_py.contracts import Availability, IExecutionProvider, ProviderFactory, SessionContext
from ort_py.discovery import default_catalog


class Factory(ProviderFactory):
    """A provider that is not usable here, or whose probe raises."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    @property
    def name(self) -> str:
        return "LameExecutionProvider"

    def probe(self) -> Availability:
        if self._error is not None:
            raise self._error
        return Availability(False, "there is no device", "plug one in")

    def create(self, options: Mapping[str, Any], context: SessionContext) -> IExecutionProvider:
        raise NotImplementedError


@pytest.fixture(autouse=True)
def fresh_catalogue() -> Iterator[None]:
    """Each test sees what is installed and what it registers itself."""
    default_catalog().reset()
    yield
    default_catalog().reset()


def test_installed_provider_is_listed_with_its_state(call: Call) -> None:
    """Name, state, distribution and device of the CPU provider."""
    outcome = call("providers")
    assert outcome.code == 0
    row = next(line for line in outcome.out.splitlines() if line.startswith("CPUExecutionProvider"))
    assert row.split()[1:3] == ["available", "ort-py-cpu"]
    assert row.split()[-1] == "cpu:0"


def test_unusable_provider_says_why_and_what_to_do(call: Call) -> None:
    """Reason and fix stand below the table; the exit code is 0, because listing worked."""
    ort_py.register_provider(Factory())
    outcome = call("providers")
    assert outcome.code == 0
    assert "LameExecutionProvider: there is no device\n  what to do: plug one in" in outcome.out


def test_broken_provider_shows_its_exception(call: Call) -> None:
    """A probe that raises is a state, not a crash."""
    ort_py.register_provider(Factory(OSError("libmissing.so")))
    report = call("providers", "--json").report
    (record,) = [record for record in report["providers"] if record["name"] == "LameExecutionProvider"]
    assert record["state"] == "broken"
    assert record["exception"] == "OSError('libmissing.so')"


def test_providers_that_are_not_installed_are_known(call: Call) -> None:
    """The list shows the command that installs them."""
    assert "pip install ort-py-cuda" in call("providers").out
    report = call("providers", "--json").report
    (record,) = [record for record in report["providers"] if record["name"] == "CUDAExecutionProvider"]
    assert record == {"name": "CUDAExecutionProvider", "state": "not installed", "fix": "pip install ort-py-cuda"}


def test_providers_without_a_package_are_told_so(call: Call) -> None:
    """pip could not find a package for a provider that only browsers have."""
    text = call("providers").out
    assert "WebNNExecutionProvider" in text.partition("known to onnxruntime, not provided by ort-py")[2]
    report = call("providers", "--json").report
    (record,) = [record for record in report["providers"] if record["name"] == "WebNNExecutionProvider"]
    assert record["fix"] == "No distribution of ort-py provides it; name another provider."


def test_installed_probes_nothing(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """--installed reads metadata: a probe that would raise is not called."""
    monkeypatch.delenv("ORT_PY_BLOCK_PROVIDERS")
    ort_py.register_provider(Factory(OSError("libmissing.so")))
    report = call("providers", "--installed", "--json").report
    assert {record["state"] for record in report["providers"]} == {"installed"}
    assert {record["name"] for record in report["providers"]} >= {"CPUExecutionProvider", "LameExecutionProvider"}


def test_blocked_provider_says_by_what(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """A switch in the environment is named as the reason."""
    monkeypatch.setenv("ORT_PY_BLOCK_PROVIDERS", "CPUExecutionProvider")
    outcome = call("providers")
    assert "ORT_PY_BLOCK_PROVIDERS=CPUExecutionProvider" in outcome.out
