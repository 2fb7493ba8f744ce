"""The comparison all tests rely on: it must fail where results differ."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from ort_py.dtypes import DataType, numpy_dtype
from ort_py_kit.tolerances import TOLERANCES, assert_close, tolerance_of


def test_equal_arrays_pass() -> None:
    assert_close(np.arange(6.0).reshape(2, 3), np.arange(6.0).reshape(2, 3))


@pytest.mark.parametrize("data_type", TOLERANCES, ids=lambda data_type: data_type.onnx_name)
def test_a_difference_beyond_the_table_fails(data_type: DataType) -> None:
    """A little more than the tolerance is too much, in every floating type."""
    dtype = numpy_dtype(data_type)
    rtol, atol = tolerance_of(dtype)
    expected = np.full(4, 8, dtype)
    wide = np.complex128 if dtype.kind == "c" else np.float64
    actual = (expected.astype(wide) * (1 + 3 * rtol) + 3 * atol).astype(dtype)
    with pytest.raises(AssertionError, match="out"):
        assert_close(actual, expected, context="out")


@pytest.mark.parametrize("dtype", ["int32", "bool", "uint8"])
def test_integers_must_be_equal(dtype: str) -> None:
    """Types outside the table tolerate nothing."""
    assert tolerance_of(np.dtype(dtype)) == (0.0, 0.0)
    with pytest.raises(AssertionError):
        assert_close(np.zeros(3, dtype), np.ones(3, dtype))


def test_strings_must_be_equal() -> None:
    with pytest.raises(AssertionError):
        assert_close(np.array(["a"], object), np.array(["b"], object))


def test_shapes_must_be_equal() -> None:
    """Broadcasting does not hide a missing axis."""
    with pytest.raises(AssertionError, match="shape"):
        assert_close(np.zeros((1, 3)), np.zeros(3))


def test_element_types_must_be_equal() -> None:
    """float64 where float32 is right is a difference."""
    with pytest.raises(AssertionError, match="double instead of float"):
        assert_close(np.zeros(3), np.zeros(3, np.float32))


def test_nan_in_the_same_place_is_close() -> None:
    assert_close(np.array([np.nan, 1.0]), np.array([np.nan, 1.0]))


def test_nan_where_a_number_is_expected_fails() -> None:
    with pytest.raises(AssertionError):
        assert_close(np.array([np.nan]), np.array([1.0]))


def test_low_precision_arrays_are_compared() -> None:
    """bfloat16 has a tolerance of its own."""
    one = np.ones(3, ml_dtypes.bfloat16)
    assert_close(one, one)
    with pytest.raises(AssertionError):
        assert_close(one * 2, one)


def test_sequences_are_compared_element_by_element() -> None:
    """A wrong element is named by its index."""
    with pytest.raises(AssertionError, match=r"out\[1\]"):
        assert_close([np.zeros(2), np.zeros(3)], [np.zeros(2), np.zeros(2)], context="out")


def test_sequences_of_other_lengths_fail() -> None:
    """A missing element is a difference."""
    with pytest.raises(AssertionError, match="1 elements instead of 2"):
        assert_close([np.zeros(2)], [np.zeros(2)] * 2)


def test_an_array_is_no_sequence() -> None:
    """Kinds of values are not confused."""
    with pytest.raises(AssertionError, match="instead of a sequence"):
        assert_close(np.zeros((2, 2)), [np.zeros(2)] * 2)


def test_maps_are_compared_by_key() -> None:
    """Keys and values of maps must agree."""
    with pytest.raises(AssertionError, match="keys"):
        assert_close({"a": 1.0}, {"b": 1.0})
    with pytest.raises(AssertionError, match="'a'"):
        assert_close({"a": 1.0}, {"a": 2.0})


def test_empty_optional_agrees_only_with_itself() -> None:
    """None is a value of its own."""
    assert_close(None, None)
    with pytest.raises(AssertionError, match="instead of None"):
        assert_close(np.zeros(1), None)
