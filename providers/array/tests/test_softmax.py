"""Softmax and its relatives: axes, flattening before opset 13, stability, blocks of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py.errors import InvalidArgument

from .oracle import FLOATS, agree, bound, run, sample

_OPERATORS = ["Softmax", "LogSoftmax", "Hardmax"]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("axis", [-1, 0, 1, 2])
@pytest.mark.parametrize("op_type", _OPERATORS)
def test_along_an_axis(op_type: str, axis: int, dtype: Any) -> None:
    """Version 13 looks along one axis, by default the last."""
    attributes: dict[str, Any] = {} if axis == -1 else {"axis": axis}
    agree(op_type, [sample((2, 3, 4), dtype, 1)], **attributes)


@pytest.mark.parametrize("opset", [7, 11])
@pytest.mark.parametrize("axis", [None, 0, 1, 2, 3, -1])
@pytest.mark.parametrize("op_type", _OPERATORS)
def test_flattening_before_opset_13(op_type: str, axis: int | None, opset: int) -> None:
    """Older versions see a matrix: the axes before `axis` (default 1) by all others."""
    x = sample((2, 3, 4), np.float32, 1)
    first = 1 if axis is None else axis % 3 if axis < 3 else 3
    rows = int(np.prod(x.shape[:first]))
    (result,) = run(op_type, [x], opset=opset, **({} if axis is None else {"axis": axis}))
    (expected,) = run(op_type, [x.reshape(rows, -1)], opset=13, axis=1)
    np.testing.assert_allclose(result, expected.reshape(x.shape), rtol=1e-6)


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax"])
def test_large_numbers_do_not_overflow(op_type: str) -> None:
    """The greatest element is taken out first, and LogSoftmax takes no logarithm of what has underflowed."""
    # The reference does, and gives minus infinity; so the expectation is written out.
    x = np.array([[1e4, 1e4 - 1, -1e4]])
    expected = x - 1e4 - np.log(1 + np.exp(-1))
    (result,) = run(op_type, [x.astype(np.float32)])
    np.testing.assert_allclose(result, np.exp(expected) if op_type == "Softmax" else expected, rtol=1e-6)


@pytest.mark.parametrize("op_type", _OPERATORS)
@pytest.mark.parametrize("shape", [(0, 3), (3, 0)], ids=str)
def test_empty_tensors(op_type: str, shape: Any) -> None:
    """No elements, no work, the same shape."""
    assert run(op_type, [np.zeros(shape, np.float32)])[0].shape == shape


@pytest.mark.parametrize("op_type", _OPERATORS)
def test_many_rows_are_computed_in_blocks(op_type: str) -> None:
    """A large tensor gives the same as its rows one by one, also written over itself."""
    x = sample((900, 130), np.float32, 1)
    _, kernel = bound(op_type, [x])
    expected = np.concatenate([kernel(x[row : row + 1]) for row in range(len(x))])
    np.testing.assert_allclose(kernel(x), expected, rtol=1e-6)
    np.testing.assert_allclose(kernel(x, x), expected, rtol=1e-6)


@pytest.mark.parametrize("op_type", _OPERATORS)
def test_scalar(op_type: str) -> None:
    """A scalar is one row of one element."""
    assert run(op_type, [np.array(3.0, np.float32)])[0].tolist() == (0.0 if op_type == "LogSoftmax" else 1.0)


def test_hardmax_takes_the_first_of_equals() -> None:
    assert run("Hardmax", [np.array([[2.0, 2.0, 1.0]], np.float32)])[0].tolist() == [[1, 0, 0]]


@pytest.mark.parametrize("opset", [11, 13])
def test_axis_out_of_range(opset: int) -> None:
    """An axis that does not exist is refused with the range there is."""
    with pytest.raises(InvalidArgument, match=r"Axis 4 is out of range for rank 2"):
        run("Softmax", [np.zeros((2, 2), np.float32)], opset=opset, axis=4)
