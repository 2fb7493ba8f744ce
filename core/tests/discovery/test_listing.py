"""Three questions, three calls."""

from __future__ import annotations

import pytest

from ort_py.contracts import Availability
from ort_py.devices import DeviceClass
from ort_py.discovery import (
    KNOWN_PROVIDERS,
    get_all_providers,
    get_available_providers,
    get_installed_providers,
    get_provider_records,
    register_provider,
)

from .fakes import FakeFactory, FakeInstallation


@pytest.fixture(autouse=True)
def _three_installed(installation: FakeInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    installation.add_cpu()
    installation.add(FakeFactory("ZGpuExecutionProvider", device_class=DeviceClass.GPU))
    installation.add(FakeFactory("AbsentExecutionProvider", available=Availability(False, "no device")))
    catalog = installation.catalog()
    monkeypatch.setattr("ort_py.discovery.listing.default_catalog", lambda: catalog)


def test_installed() -> None:
    assert get_installed_providers() == ["AbsentExecutionProvider", "CPUExecutionProvider", "ZGpuExecutionProvider"]


def test_available() -> None:
    """Those that work here, in automatic order."""
    assert get_available_providers() == ["ZGpuExecutionProvider", "CPUExecutionProvider"]


def test_all() -> None:
    """onnxruntime's names, ours, and CPU last."""
    names = get_all_providers()
    assert names[-1] == "CPUExecutionProvider"
    assert names[-3:-1] == ["AbsentExecutionProvider", "ZGpuExecutionProvider"]
    assert set(KNOWN_PROVIDERS) <= set(names)
    assert len(names) == len(set(names))


def test_records_hold_the_reasons() -> None:
    reasons = {record.name: record.reason for record in get_provider_records()}
    assert reasons["AbsentExecutionProvider"] == "no device"


def test_registered_providers_are_listed() -> None:
    """A provider registered by a program counts as installed."""
    register_provider(FakeFactory("MineExecutionProvider"))
    assert "MineExecutionProvider" in get_available_providers()
    assert "MineExecutionProvider" in get_all_providers()
