"""Copies of large arrays end with the time of a run."""

from __future__ import annotations

import numpy as np
import pytest

from ort_py.errors import LimitError
from ort_py.limits import checking_time, copying
from ort_py.limits.copying import contiguous_copy

pytestmark = pytest.mark.quick

X = np.arange(60).reshape(3, 4, 5).transpose(2, 0, 1)


@pytest.mark.parametrize("looked_at", [False, True])
def test_the_copy_is_equal_and_contiguous(monkeypatch: pytest.MonkeyPatch, looked_at: bool) -> None:
    """In parts or at once; text stays text."""
    monkeypatch.setattr(copying, "_AT_A_TIME", 4)
    looks: list[None] = []

    def check(ahead: float = 0.0) -> None:
        looks.append(None)

    for array in (X, X.astype(str).astype(object)):
        with checking_time(check if looked_at else None):
            made = contiguous_copy(array)
        np.testing.assert_array_equal(made, array)
        assert made.flags.c_contiguous
        assert not np.shares_memory(made, array)
    assert bool(looks) == looked_at


def test_the_rest_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check is asked before each part."""
    monkeypatch.setattr(copying, "_AT_A_TIME", 4)
    looks: list[None] = []

    def over(ahead: float = 0.0) -> None:
        looks.append(None)
        if len(looks) == 2:
            raise LimitError("over")

    with checking_time(over), pytest.raises(LimitError):
        contiguous_copy(X)
    assert len(looks) == 2
