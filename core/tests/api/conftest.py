"""Fixtures: providers that live as long as one test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import ort_py
from ort_py.contracts import ProviderFactory
from ort_py.discovery import default_catalog


@pytest.fixture
def register() -> Iterator[Callable[[ProviderFactory], None]]:
    """Register a provider for the duration of the test."""

    def add(factory: ProviderFactory) -> None:
        ort_py.register_provider(factory)

    yield add
    default_catalog().reset()


@pytest.fixture(autouse=True)
def without_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the developer's environment says about ort-py, these tests see nothing of it."""
    for name in ("PROVIDERS", "STRICT", "COMPAT", "NUM_THREADS", "ALLOW_PROVIDERS"):
        monkeypatch.delenv(f"ORT_PY_{name}", raising=False)
