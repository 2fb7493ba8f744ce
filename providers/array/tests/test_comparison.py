"""Comparison and logic: results are bool, NaN compares as IEEE says, strings can be equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .oracle import FLOATS, agree, bound, run, sample

_OPERATORS = ["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"]


@pytest.mark.parametrize("dtype", [*FLOATS, np.int8, np.int64, np.uint16], ids=str)
@pytest.mark.parametrize("op_type", _OPERATORS)
def test_comparisons(op_type: str, dtype: Any) -> None:
    """Each comparison broadcasts and gives bool for every kind of number."""
    agree(op_type, [sample((3, 4), dtype, 1), sample((4,), dtype, 2)])


@pytest.mark.parametrize("op_type", _OPERATORS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nan_compares_false(op_type: str, dtype: Any) -> None:
    """Nothing is equal to NaN, less or greater."""
    x = np.array([np.nan, 1]).astype(dtype)
    assert not run(op_type, [x, np.array([np.nan, np.nan]).astype(dtype)])[0].any()


def test_equal_strings() -> None:
    """Equal compares strings from opset 19 on, broadcasting too."""
    a, b = np.array([["a", "bc"], ["", "é"]], object), np.array(["a", "é"], object)
    (result,) = run("Equal", [a, b], opset=19)
    assert result.dtype == bool
    assert result.tolist() == [[True, False], [False, True]]


@pytest.mark.parametrize("op_type", ["And", "Or", "Xor"])
def test_logic(op_type: str) -> None:
    """Logical operators over all four pairs, broadcast."""
    agree(op_type, [np.array([[True], [False]]), np.array([True, False])])


def test_not() -> None:
    agree("Not", [np.array([True, False])])


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint32], ids=str)
@pytest.mark.parametrize("op_type", ["BitwiseAnd", "BitwiseOr", "BitwiseXor"])
def test_bitwise(op_type: str, dtype: Any) -> None:
    """Bitwise operators on signed and unsigned numbers."""
    agree(op_type, [sample((3, 4), dtype, 1, -100, 100), sample((4,), dtype, 2, -100, 100)])


def test_bitwise_not() -> None:
    agree("BitwiseNot", [np.array([0, 1, -2], np.int16)])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_is_nan(dtype: Any) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0]).astype(dtype)
    assert run("IsNaN", [x])[0].tolist() == [True, False, False, False]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("negative", [0, 1])
@pytest.mark.parametrize("positive", [0, 1])
def test_is_inf_looks_for_the_signs_asked_for(positive: int, negative: int, dtype: Any) -> None:
    """Both attributes choose, into a new array and into one that is given."""
    x = np.array([np.nan, np.inf, -np.inf, 0]).astype(dtype)
    expected = [False, bool(positive), bool(negative), False]
    _, kernel = bound("IsInf", [x], detect_positive=positive, detect_negative=negative)
    out = np.ones(4, bool)
    kernel(x, out)
    assert kernel(x).tolist() == expected
    assert out.tolist() == expected


@pytest.mark.parametrize("op_type", ["Equal", "Greater", "Less", "And", "Or", "Xor"])
def test_one_sided_broadcasting_in_version_1(op_type: str) -> None:
    """Before opset 7, `axis` says which axes of the first operand the second covers."""
    dtype = bool if op_type in ("And", "Or", "Xor") else np.int64 if op_type == "Equal" else np.float32
    a, b = sample((2, 3, 4), dtype, 1), sample((3,), dtype, 2)
    (result,) = run(op_type, [a, b], opset=6, broadcast=1, axis=1)
    np.testing.assert_array_equal(result, run(op_type, [a, b.reshape(3, 1)], opset=13)[0])
