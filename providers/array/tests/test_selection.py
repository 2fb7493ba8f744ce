"""Where, NonZero, Compress, Trilu, ReverseSequence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py.errors import InvalidArgument

from .oracle import BF16, FLOATS, agree, i64, run, sample

_TYPES = [*FLOATS, np.int8, np.bool_, np.complex64, object]


@pytest.mark.parametrize("dtype", _TYPES, ids=str)
@pytest.mark.parametrize(
    "shapes", [((2, 3), (2, 3), (2, 3)), ((2, 1), (3,), ()), ((), (), ()), ((0, 1), (1, 3), (3,))], ids=str
)
def test_where(shapes: Any, dtype: Any) -> None:
    """All three inputs broadcast; every element type keeps itself."""
    condition = np.asarray(sample(shapes[0], np.float32, 1) > 0)
    x, y = np.ones(shapes[1]).astype(dtype), np.zeros(shapes[2]).astype(dtype)
    for opset in (9, 16):
        (result,) = run("Where", [condition, x, y], opset=opset)
        assert result.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(
            result, np.where(condition, np.ones(shapes[1]), np.zeros(shapes[2])).astype(dtype)
        )


@pytest.mark.parametrize("dtype", [np.float32, BF16, np.int64, np.bool_], ids=str)
def test_non_zero(dtype: Any) -> None:
    """One row per axis, one column per element."""
    agree("NonZero", [np.array([[1, 0, 2], [0, 0, 3]]).astype(dtype)])


def test_non_zero_of_strings_and_scalars() -> None:
    """Empty strings are zero; a scalar has no axes but may be counted."""
    assert run("NonZero", [np.array(["", "a"], object)])[0].tolist() == [[1]]
    assert run("NonZero", [np.array(5.0)])[0].shape == (0, 1)
    assert run("NonZero", [np.array(0.0)])[0].shape == (0, 0)


@pytest.mark.parametrize("dtype", _TYPES, ids=str)
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_compress(axis: int | None, dtype: Any) -> None:
    """Slices or elements whose condition holds; a short condition leaves the rest out."""
    x = np.arange(6).reshape(2, 3).astype(dtype)
    condition = np.array([False, True])
    (result,) = run("Compress", [x, condition], **({} if axis is None else {"axis": axis}))
    np.testing.assert_array_equal(result, np.compress(condition, x, axis=axis))


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_compress_by_a_longer_condition(axis: int | None) -> None:
    """What is behind the end of the axis is no obstacle if nothing is chosen there, as in `numpy.compress`."""
    agree("Compress", [np.arange(6).reshape(2, 3), np.array([False, True, *[False] * 5])], axis=axis)


@pytest.mark.parametrize("shape", [(3,), (1, 2)], ids=str)
def test_condition_that_does_not_fit(shape: tuple[int, ...]) -> None:
    """It has rank 1 and chooses nothing behind the end of the axis; onnxruntime reads what it can."""
    with pytest.raises(InvalidArgument, match="does not fit an axis of 2 elements"):
        run("Compress", [np.zeros((2, 3)), np.ones(shape, bool)], axis=0)


@pytest.mark.parametrize("dtype", [np.float32, BF16, np.int64, np.bool_], ids=str)
@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("k", [None, 0, 1, -1, 9])
def test_trilu(k: int | None, upper: int, dtype: Any) -> None:
    """Either triangle from any diagonal, of a stack of matrices."""
    x = np.ones((2, 3, 4)).astype(dtype)
    expected = (np.triu if upper else np.tril)(np.ones((2, 3, 4)), k or 0)
    (result,) = run("Trilu", [x, *([] if k is None else [np.array(k)])], upper=upper)
    np.testing.assert_array_equal(result.astype(float), expected)
    assert result.dtype == np.dtype(dtype)


def test_trilu_needs_matrices() -> None:
    with pytest.raises(InvalidArgument, match="Trilu needs matrices"):
        run("Trilu", [np.zeros(3)])


@pytest.mark.parametrize(("batch", "time"), [(0, 1), (1, 0)])
def test_reverse_sequence(batch: int, time: int) -> None:
    """Each entry up to its length, either axis first, with further axes."""
    x = sample((3, 3, 2), np.float32, 1)
    agree("ReverseSequence", [x, i64(1, 2, 3)], batch_axis=batch, time_axis=time, opset=10)


def test_reverse_sequence_lengths() -> None:
    with pytest.raises(InvalidArgument, match="ReverseSequence with batch axis 1 and time axis 0"):
        run("ReverseSequence", [np.zeros((2, 3)), i64(1, 1)])


@pytest.mark.parametrize("length", [-1, 4, -(2**63), 2**63 - 1])
def test_reverse_sequence_needs_lengths_within_the_time_axis(length: int) -> None:
    with pytest.raises(InvalidArgument, match="do not suit 3 steps"):
        run("ReverseSequence", [np.zeros((3, 2)), i64(1, length)])
