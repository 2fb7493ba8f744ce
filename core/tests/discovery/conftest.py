"""Each test starts with no switch set and no provider installed."""

from __future__ import annotations

import os

import pytest

from .fakes import FakeInstallation


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("ORT_PY_"):
            monkeypatch.delenv(name)
    monkeypatch.setattr("ort_py.discovery.selection._logged", set())


@pytest.fixture
def installation(monkeypatch: pytest.MonkeyPatch) -> FakeInstallation:
    """Nothing is installed yet."""
    return FakeInstallation(monkeypatch)
