"""Chains of functions: what is left of their ends where a result is rounded."""

from __future__ import annotations

import numpy as np
import pytest

from ort_py_onednn.binding.constants import Eltwise
from ort_py_onednn.binding.primitive import Function
from ort_py_onednn.graph.functions import linear, rounded
from ort_py_onednn.graph.operation import Chain

ROUND = Function(Eltwise.ROUND)


def _clip(low: float, high: float) -> Function:
    return Function(Eltwise.CLIP_V2, low, high)


@pytest.mark.parametrize(
    ("chain", "left"),
    [
        ([ROUND], []),
        ([linear(2.0), ROUND, _clip(-9, 300)], [linear(2.0)]),
        ([ROUND, _clip(-9, 200), _clip(3, 300)], [_clip(3, 200)]),
        ([_clip(20, 30), _clip(1, 7)], [_clip(7, 7)]),
        ([_clip(0, np.inf), _clip(-np.inf, 127)], [_clip(0, 127)]),
    ],
)
def test_ends_that_come_to_the_same(chain: Chain, left: Chain) -> None:
    """A rounding before the last one goes, and clips to whole numbers are one, or none beyond the limits."""
    assert rounded(chain, 0, 255) == left


@pytest.mark.parametrize("chain", [[_clip(0.5, 9)], [ROUND, linear(0.5)], [ROUND, _clip(-3, 7), linear(3.0)]])
def test_ends_that_matter(chain: Chain) -> None:
    """A clip to a fraction stays, and so does a rounding whose result is scaled."""
    assert rounded(chain, 0, 255) == chain
