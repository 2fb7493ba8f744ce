"""Growth checks: memory that each call leaves behind is a leak."""

from __future__ import annotations

import pytest

from ort_py_kit.suites import growth
from ort_py_kit.suites.base import Problem


def _keep(calls: int) -> None:
    """Measure a function that keeps 1,000 bytes in each of its first calls."""
    kept: list[bytes] = []

    def call() -> None:
        if len(kept) < calls:
            kept.append(bytes(1000))

    growth._flat(call, 60, 200, 1 << 18, "run")


def test_memory_that_is_kept_for_a_while_is_no_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread may work for the session in its first moments."""
    monkeypatch.setattr(growth, "_PAUSES", (0, 0, 0, 0.001, 0.002))
    _keep(200)


def test_memory_that_is_kept_by_each_call_is_a_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "_PAUSES", (0, 0, 0, 0.001, 0.002))
    with pytest.raises(Problem, match=r"each run leaves 10\d\d bytes of Python objects"):
        _keep(1_000_000)
