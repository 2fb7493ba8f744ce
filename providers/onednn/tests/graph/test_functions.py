"""Chains of functions: what is left of their ends where a result is rounded."""

from __future__ import annotations

import numpy as np
import pytest

from ort_py_onednn.binding.constants import Binary, Eltwise
from ort_py_onednn.binding.primitive import Function
from ort_py_onednn.graph.functions import before_bytes, constant_operand, linear, merged, rounded
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


@pytest.mark.parametrize(
    ("chain", "left"),
    [
        ([linear(2.0), linear(3.0)], [linear(6.0)]),
        ([linear(0.5), linear(0.25)], [linear(0.125)]),
        ([linear(-1.0), linear(2.0, 5.0)], [linear(-2.0, 5.0)]),
        ([linear(3.0, 5.0), linear(-1.0)], [linear(-3.0, -5.0)]),
        ([linear(1.0)], []),
    ],
)
def test_factors_are_merged(chain: list[Function], left: list[Function]) -> None:
    """Functions merge if both make numbers larger, or both smaller; a change of sign is exact."""
    assert merged(chain) == left


@pytest.mark.parametrize(
    "chain",
    [
        [linear(3e38), linear(1 / 3e38)],
        [linear(1e-40), linear(1e38)],
        [linear(1e-30), linear(1e-30)],
        [linear(1.0, 12582912.0), linear(1.0, -12582912.0)],
        [linear(1.0, 1.0), linear(1.0, 2.0)],
        [linear(100.0), linear(1.0, 12582912.0)],
    ],
)
def test_chains_that_round_or_overflow_stay(chain: list[Function]) -> None:
    """Unless the caller says that it does not matter."""
    assert merged(chain) == chain
    assert len(merged(chain, freely=True)) < 2


def test_only_divisions_by_powers_of_two_are_products() -> None:
    """21 / 7 is 3; 21 times the reciprocal is less."""
    assert constant_operand(Binary.DIV, 4.0, first=False) == linear(0.25)
    assert constant_operand(Binary.DIV, 7.0, first=False) is None
    assert constant_operand(Binary.DIV, 2.0**-140, first=False) is None


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        (linear(3.0, 20.0), linear(0.25, -4.0), linear(0.75, 1.0)),
        (linear(1.0, 1e20), linear(1.0, -1e20), None),
        (linear(1.0, 12582912.0), linear(0.5), None),
        (linear(1e30), linear(1e-30), None),
        (linear(1e-30), linear(1e30), None),
        (linear(1e-30), linear(1e-10), None),
    ],
)
def test_functions_before_bytes(first: Function, second: Function, both: Function | None) -> None:
    """They are one where no rounding, overflow or underflow in between decides about a byte."""
    assert before_bytes(first, second) == both
