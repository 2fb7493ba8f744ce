"""Roots, exponentials, circular functions and Erf against the reference and against Python's math module."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from .oracle import BF16, FLOATS, agree, run, sample

_RANGES = {
    **dict.fromkeys(["Sqrt", "Log", "Reciprocal"], (0.1, 9.0)),
    **dict.fromkeys(["Asin", "Acos", "Atanh"], (-0.9, 0.9)),
    **dict.fromkeys(["Exp", "Sin", "Cos", "Tan", "Atan", "Sinh", "Cosh", "Asinh", "Tanh", "Erf"], (-1.5, 1.5)),
    **dict.fromkeys(["Floor", "Ceil", "Round", "Sign"], (-5.0, 5.0)),
    "Acosh": (1.1, 5.0),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", [(2, 5), (), (0, 3)], ids=str)
@pytest.mark.parametrize("op_type", sorted(_RANGES))
def test_functions(op_type: str, shape: Any, dtype: Any) -> None:
    """Each function agrees with the reference for arrays, scalars and empty arrays, in the input's type."""
    if op_type == "Erf" and dtype == np.float64:
        pytest.skip("the reference computes erf in float32; test_erf_is_exact_to_rounding covers float64")
    agree(op_type, [sample(shape, dtype, 1, *_RANGES[op_type])])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_round_goes_to_even(dtype: Any) -> None:
    """Halves are rounded to the even neighbour."""
    x = np.array([0.5, 1.5, 2.5, -0.5, -2.5]).astype(dtype)
    assert run("Round", [x])[0].astype(float).tolist() == [0, 2, 2, 0, -2]


@pytest.mark.parametrize(("op_type", "function"), [("Floor", np.floor), ("Ceil", np.ceil), ("Round", np.rint)])
def test_all_numbers_of_float16_are_rounded_to_whole_ones(op_type: str, function: Any) -> None:
    """The result is that of float64, with the signs of zeroes; infinities and NaN stay."""
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    (found,) = run(op_type, [x])
    wanted = function(x.astype(np.float64))
    assert found.dtype == np.float16
    np.testing.assert_array_equal(found.astype(np.float64), wanted)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


@pytest.mark.parametrize(("dtype", "error"), [(np.float32, 2.4e-7), (np.float64, 6e-16)])
def test_erf_is_exact_to_rounding(dtype: Any, error: float) -> None:
    """Relative error over tiny, common and saturated arguments, against math.erf."""
    x = np.concatenate([np.linspace(-7, 7, 20011), np.logspace(-30, 0, 2001), [50.0, 1e30]]).astype(dtype)
    expected = np.array([math.erf(value) for value in x.tolist()])
    np.testing.assert_allclose(run("Erf", [x])[0].astype(np.float64), expected, rtol=error, atol=0)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_erf_of_special_values(dtype: Any) -> None:
    """Infinities saturate, zeros keep their sign, NaN stays NaN."""
    (result,) = run("Erf", [np.array([np.inf, -np.inf, 0.0, -0.0, np.nan]).astype(dtype)])
    values = result.astype(np.float64)
    assert values[:4].tolist() == [1, -1, 0, 0]
    assert np.signbit(values[3])
    assert np.isnan(values[4])


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64])
def test_erf_of_integers(dtype: Any) -> None:
    """Version 9 allowed them: float32's result, cut off, which is not 0 only where that is 1."""
    info = np.iinfo(dtype)
    x = np.array([0, 1, 3, 4, 5, 100, info.max, info.min, *([] if info.min == 0 else [-1, -3, -4, -5])], dtype)
    (y,) = run("Erf", [x], opset=9)
    assert y.dtype == dtype
    assert y.tolist() == [int(np.float32(math.erf(value))) for value in x.tolist()]
    agree("Erf", [x], opset=9)


def test_erf_of_a_large_strided_tensor() -> None:
    """A transposed tensor and its contiguous copy, which is cut into blocks, give the same."""
    x = sample((300, 257), np.float32, 1)
    np.testing.assert_array_equal(run("Erf", [x.T])[0], run("Erf", [np.ascontiguousarray(x.T)])[0])


def test_bfloat16_is_rounded_once() -> None:
    """A bfloat16 result is the float64 value's nearest neighbour, or the next one at a tie's edge."""
    x = sample((500,), BF16, 1)
    expected = np.array([math.erf(value) for value in x.astype(float).tolist()]).astype(BF16)
    assert np.mean(run("Erf", [x])[0] == expected) > 0.99
