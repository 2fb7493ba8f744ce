"""NaN and infinities are where NumPy's kernels have them, wherever one stands in an input."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from providers.xnnpack.tests.cases import CASES, Case
from providers.xnnpack.tests.models import open_session, run_plain

Array = np.ndarray[Any, Any]
_PLACES = 24
"""Most elements of an input that are tried; they are spread evenly."""


def _spoiled(case: Case) -> Iterator[dict[str, Array]]:
    """The feeds with NaN or an infinity in one place."""
    plain = case.feeds()
    for name, array in plain.items():
        for number, place in enumerate(np.linspace(0, array.size - 1, min(array.size, _PLACES)).astype(int)):
            changed = array.copy()
            changed.reshape(-1)[place] = (np.nan, np.inf, -np.inf)[number % 3]
            yield plain | {name: changed}


def _kinds(array: Array) -> Array:
    """A mark for each element: 1 and -1 for infinities, 2 for NaN, 0 for numbers."""
    return np.where(np.isnan(array), 2, np.where(np.isinf(array), np.sign(array), 0)).astype(int)


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_lost(name: str) -> None:
    """By XNNPACK where it keeps them, by NumPy's kernels in runs that are declined."""
    case = CASES[name]
    data = case.model()
    with open_session(data) as session:
        for feeds in _spoiled(case):
            (found,), (wanted,) = session.run(None, feeds), run_plain(data, feeds)
            np.testing.assert_array_equal(_kinds(found), _kinds(wanted))
        assert not session.fallback_report
