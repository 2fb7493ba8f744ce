"""Fixtures of the core's tests: of the installed providers they see only the one that completes.

What a test says of places, steps and threads must not depend on what else the environment has. Tests register the
providers they are about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import ort_py
from ort_py.contracts import ProviderFactory
from ort_py.discovery import CPU_ROLE, default_catalog
from ort_py.hooks.switches import BLOCK


@pytest.fixture(scope="session")
def other_providers() -> str:
    """Names of the installed providers but the CPU's, separated by commas."""
    return ",".join(name for name in ort_py.get_installed_providers() if name != CPU_ROLE)


@pytest.fixture(autouse=True)
def without_other_providers(other_providers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep them out of the process, and of those that a test starts."""
    monkeypatch.setenv(BLOCK, other_providers)


@pytest.fixture
def register() -> Iterator[Callable[[ProviderFactory], None]]:
    """Register a provider for the duration of the test."""

    def add(factory: ProviderFactory) -> None:
        ort_py.register_provider(factory)

    yield add
    default_catalog().reset()


@pytest.fixture(autouse=True)
def without_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove ort-py's environment variables for these tests."""
    for name in ("PROVIDERS", "STRICT", "COMPAT", "NUM_THREADS", "ALLOW_PROVIDERS"):
        monkeypatch.delenv(f"ORT_PY_{name}", raising=False)
