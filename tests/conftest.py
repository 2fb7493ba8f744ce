"""Helpers for tests of several packages: runs by the default CPU provider, and by the plain one."""

from __future__ import annotations

import pytest

import ort_py
from ort_py.discovery import CPU_ROLE
from ort_py.hooks.switches import BLOCK


@pytest.fixture(scope="session")
def stand_ins() -> str:
    """Names of the installed providers that may stand in for the CPU provider, separated by commas."""
    return ",".join(record.name for record in ort_py.get_provider_records() if record.stands_in_for == CPU_ROLE)


@pytest.fixture(params=["default", "plain"])
def cpu_runner(request: pytest.FixtureRequest, stand_ins: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The provider that fills the CPU role, in this process and its children.

    ``default``: whoever stands in for the CPU provider where the tests run, as for a user who has installed the same;
    ``plain``: the provider that completes, alone.
    """
    chosen: str = request.param
    if chosen == "plain":
        monkeypatch.setenv(BLOCK, stand_ins)
    return chosen
