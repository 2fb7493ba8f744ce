"""Measurement of the difference of two values."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ort_py.dtypes import DataType
from ort_py.inspection.comparison import measuring
from ort_py.inspection.comparison.measuring import deviation, summary_of

F = np.float32


def test_equal_values_agree() -> None:
    """The content may be numbers, NaN at the same places, or infinities of the same sign."""
    value = np.array([1, np.nan, np.inf, -np.inf, 0], F)
    found = deviation(value, value.copy())
    assert (found.agrees, found.beyond, found.absolute, str(found)) == (True, 0, 0.0, "equal")


def test_neighbours_are_one_ulp_apart() -> None:
    one = np.array([1, 2], F)
    found = deviation(one, np.nextafter(one, F(9)))
    assert (found.agrees, found.ulp, found.max_ulp) == (True, 1, 1)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_ulps_are_counted_across_zero(dtype: Any) -> None:
    """From the smallest negative number to the smallest positive one there are two."""
    smallest = np.array([1], f"u{np.dtype(dtype).itemsize}").view(dtype)
    found = deviation(-smallest, smallest)
    assert found.max_ulp == 2


def test_ulps_of_doubles_do_not_overflow() -> None:
    largest = np.finfo(np.float64).max
    assert deviation(np.array([-largest]), np.array([largest])).max_ulp == 2 * 0x7FEFFFFFFFFFFFFF


def test_the_worst_element_is_named() -> None:
    """Its place, both numbers, and how large the error is beside what is tolerated."""
    a = np.ones((2, 3), F)
    b = a.copy()
    b[1, 2] = 1.5
    found = deviation(a, b)
    assert (found.reason, found.beyond, found.elements, found.index) == ("values", 1, 6, (1, 2))
    assert (found.expected, found.found, found.absolute, found.relative) == ("1.0", "1.5", 0.5, 0.5)
    assert found.excess == pytest.approx(0.5 / (1e-4 + 1e-5))
    assert "1 of 6 elements beyond the tolerance; worst at [1, 2]: 1.0 in a, 1.5 in b" in str(found)


def test_small_errors_beside_large_numbers_agree() -> None:
    """The absolute tolerance is a part of the largest number: such an error is that of a sum of numbers of its size."""
    a = np.array([1000, 0.0], F)
    assert deviation(a, a + np.array([0, 1e-3], F)).agrees
    assert not deviation(a, a + np.array([0, 2e-2], F)).agrees


def test_small_numbers_are_compared_too() -> None:
    """Nothing is swallowed by an absolute tolerance that is larger than all there is."""
    a = np.full(4, 1e-7, F)
    assert not deviation(a, a * 2).agrees


@pytest.mark.parametrize("side", ["a", "b"])
def test_nan_on_one_side(side: str) -> None:
    """Is counted for the side that has it."""
    a, b = np.array([1, 2, 3], F), np.array([1, 2, 3], F)
    (a if side == "a" else b)[1] = np.nan
    found = deviation(a, b)
    assert (found.reason, found.nan_only_a, found.nan_only_b) == ("nan", int(side == "a"), int(side == "b"))
    assert (found.index, found.ulp) == ((1,), None)
    assert f"1 NaN in {side} only" in str(found)


def test_infinities_of_two_signs() -> None:
    found = deviation(np.array([np.inf, 1], F), np.array([-np.inf, 1], F))
    assert (found.reason, found.infinite_only_a, found.infinite_only_b) == ("infinity", 1, 1)
    assert found.excess == math.inf


def test_integers_must_be_equal() -> None:
    a, b = np.array([3, 4], np.uint8), np.array([3, 5], np.uint8)
    found = deviation(a, b)
    assert (found.agrees, found.beyond, found.excess, found.max_ulp) == (False, 1, math.inf, None)
    assert deviation(a, b, {DataType.UINT8: (0.0, 1.0)}).agrees


def test_large_integers_are_not_rounded() -> None:
    """Two neighbours that float64 cannot tell apart."""
    big = np.array([2**62], np.int64)
    assert not deviation(big, big + 1).agrees


@pytest.mark.parametrize(
    ("a", "b", "reason", "text"),
    [
        (np.zeros(2, F), np.zeros(2), "type", "element type float in a, double in b"),
        (np.zeros(2, F), np.zeros((1, 2), F), "shape", "shape [2] in a, [1, 2] in b"),
        (np.zeros(2, F), None, "kind", "an array in a, nothing in b"),
        ([np.zeros(2, F)], [], "kind", "a sequence of 1 in a, a sequence of 0 in b"),
        ({"k": 1.0}, {"l": 1.0}, "kind", "a map of 1 in a, a map of 1 in b"),
    ],
)
def test_other_forms(a: Any, b: Any, reason: str, text: str) -> None:
    found = deviation(a, b)
    assert (found.agrees, found.reason, str(found)) == (False, reason, text)


def test_texts() -> None:
    a, b = np.array([["x", "y"]], object), np.array([["x", "z"]], object)
    assert deviation(a, a).agrees
    found = deviation(a, b)
    assert (found.beyond, found.index, found.expected, found.found) == (1, (0, 1), "'y'", "'z'")


def test_sequences_tell_of_their_worst_part() -> None:
    a = [np.zeros(2, F), np.ones(2, F)]
    found = deviation(a, [a[0], a[1] * 2])
    assert (found.agrees, found.part) == (False, "[1]")
    assert str(found).startswith("at [1]: 2 of 2 elements")
    assert deviation(a, a).agrees


def test_maps_hold_float32() -> None:
    """Python returns the float32 values as float; the tolerance is that of float32."""
    assert deviation({"k": 1.0}, {"k": 1.00001}).agrees
    assert deviation({"k": 1.0}, {"k": 1.1}).part == "['k']"


def test_empty_arrays_and_nothing_agree() -> None:
    """There is nothing that could differ."""
    assert deviation(np.zeros((0, 3), F), np.zeros((0, 3), F)).agrees
    assert deviation(None, None).agrees


def test_blocks_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts add up and the worst element is that of all blocks."""
    monkeypatch.setattr(measuring, "_BLOCK", 4)
    a = np.arange(1, 11, dtype=F)
    b = a.copy()
    b[[1, 6, 9]] += np.array([0.5, 3, 1], F)
    found = deviation(a, b)
    assert (found.beyond, found.index, found.absolute) == (3, (6,), 3.0)
    assert (summary_of("a", a).minimum, summary_of("a", a).maximum) == (1.0, 10.0)


def test_complex_numbers() -> None:
    """Errors are distances in the plane."""
    a = np.array([3 + 4j], np.complex64)
    assert deviation(a, a + np.complex64(1e-6)).agrees
    assert deviation(a, a + np.complex64(3 + 4j)).relative == pytest.approx(1.0)
    assert summary_of("a", a).maximum == 5.0


def test_a_summary() -> None:
    """Type, shape, range of the finite numbers, and what is not finite."""
    value = np.array([[1, -2], [np.nan, np.inf]], F)
    assert str(summary_of("x", value)) == "x: float[2, 2] in [-2, 1], 1 NaN, 1 infinite"
    assert str(summary_of("x", np.array(["a"], object))) == "x: string[1]"
    assert str(summary_of("x", [value])) == "x: no array"
