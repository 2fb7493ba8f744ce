"""ScatterElements, ScatterND, Scatter: replacing, reducing, versions, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py.errors import InvalidArgument

from .oracle import BF16, FLOATS, agree, bound, i64, run, sample

_REDUCTIONS = ["none", "add", "mul", "min", "max"]


@pytest.mark.parametrize("dtype", [*FLOATS, np.int8, np.int64, np.bool_, object], ids=str)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_elements_are_replaced(axis: int, dtype: Any) -> None:
    """Each update goes to its index, in a copy, for every element type."""
    x, updates = np.zeros((3, 4)).astype(dtype), np.ones((2, 3)).astype(dtype)
    indices = np.array([[0, 1, -1], [-1, 0, 1]])
    (result,) = run("ScatterElements", [x, indices, updates], axis=axis)
    reached = (slice(None), slice(3)) if axis == 0 else (slice(2), slice(None))  # the others end where the indices do
    expected = x.copy()
    np.put_along_axis(expected[reached], indices, updates, axis)
    np.testing.assert_array_equal(result, expected)
    assert (x == np.zeros((3, 4)).astype(dtype)).all()


@pytest.mark.parametrize("dtype", [*FLOATS, np.int32], ids=str)
@pytest.mark.parametrize("reduction", _REDUCTIONS[1:])
def test_element_reductions(reduction: str, dtype: Any) -> None:
    """All updates of one element count."""
    x, updates = sample((4, 3), dtype, 1, 1, 3), sample((3, 2), dtype, 2, 1, 3)
    agree("ScatterElements", [x, np.array([[1, 1], [1, 0], [3, 1]]), updates], reduction=reduction)


@pytest.mark.parametrize("opset", [11, 13, 16, 18])
def test_versions(opset: int) -> None:
    """Replacing is the same in all versions."""
    inputs = [sample((3, 3), np.float32), np.array([[1, 0, 2]]), np.ones((1, 3), np.float32)]
    agree("ScatterElements", inputs, opset=opset)
    agree("ScatterND", [inputs[0], np.array([[1], [2]]), np.ones((2, 3), np.float32)], opset=opset)


def test_scatter_is_the_old_name() -> None:
    inputs = [np.zeros((2, 2), np.float32), np.array([[1, 0]]), np.ones((1, 2), np.float32)]
    assert run("Scatter", inputs, opset=9)[0].tolist() == [[0, 1], [1, 0]]


def test_nothing_to_scatter() -> None:
    x = np.ones((2, 2), np.float32)
    (result,) = run("ScatterElements", [x, np.zeros((0, 2), np.int64), np.zeros((0, 2), np.float32)])
    np.testing.assert_array_equal(result, x)
    assert not np.shares_memory(result, x)
    assert run("ScatterND", [x, np.zeros((0, 1), np.int64), np.zeros((0, 2), np.float32)])[0].tolist() == x.tolist()


@pytest.mark.parametrize("dtype", [np.float32, BF16, np.int64, object], ids=str)
@pytest.mark.parametrize("indices", [[[0], [-1]], [[0, 1], [1, -1]], [[[1], [0]]]], ids=str)
def test_slices_are_replaced(indices: Any, dtype: Any) -> None:
    """Tuples of one or two indices name rows or elements."""
    x, index = np.arange(6).reshape(2, 3).astype(dtype), np.array(indices)
    shape = (*index.shape[:-1], *x.shape[index.shape[-1] :])
    updates = (np.arange(int(np.prod(shape))) + 10).reshape(shape).astype(dtype)
    (result,) = run("ScatterND", [x, index, updates])
    expected = x.copy()
    expected[tuple(np.moveaxis(index, -1, 0))] = updates
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("dtype", [*FLOATS, np.int32], ids=str)
@pytest.mark.parametrize("reduction", _REDUCTIONS[1:])
def test_slice_reductions(reduction: str, dtype: Any) -> None:
    x, updates = sample((3, 2), dtype, 1, 1, 3), sample((3, 2), dtype, 2, 1, 3)
    agree("ScatterND", [x, np.array([[1], [1], [0]]), updates], reduction=reduction)


@pytest.mark.parametrize("reduction", _REDUCTIONS)
@pytest.mark.parametrize("place", [0, 2, -1, -3])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_one_place_along_the_axis(axis: int, place: int, reduction: str) -> None:
    """Indices that are one number name a block, which ends in the other axes where the indices do."""
    shape = [2, 2, 2]
    shape[axis] = 1
    x, updates = sample((3, 3, 3), np.float32, 1, 1, 3), sample(shape, np.float32, 2, 1, 3)
    agree("ScatterElements", [x, np.full(shape, place), updates], axis=axis, reduction=reduction)


def test_one_place_of_narrow_floats() -> None:
    """A block is added to in float32 and rounded once."""
    x, updates = sample((2, 3), np.float16, 1), sample((1, 3), np.float16, 2)
    agree("ScatterElements", [x, np.ones((1, 3), np.int64), updates], reduction="add")


def test_repeated_places_are_no_block() -> None:
    """One number that occurs twice along the axis counts twice."""
    inputs = [np.zeros((3, 2), np.float32), np.ones((2, 2), np.int64), np.ones((2, 2), np.float32)]
    assert run("ScatterElements", inputs, reduction="add")[0].tolist() == [[0, 0], [2, 2], [0, 0]]


@pytest.mark.parametrize("dtype", [np.float32, np.float16], ids=str)
@pytest.mark.parametrize("reduction", _REDUCTIONS)
def test_data_in_another_order_of_axes(reduction: str, dtype: Any) -> None:
    """Updates reach the result where the data comes from a transpose."""
    x, rows = sample((4, 2, 3), dtype, 1, 1, 3).transpose(2, 1, 0), np.array([[1], [2]])
    indices = np.array([[[0, 2, 1, 2]]])
    updates = sample((1, 1, 4), dtype, 2, 1, 3)
    agree("ScatterElements", [x, indices, updates], reduction=reduction)
    agree("ScatterND", [x, rows, sample((2, 2, 4), dtype, 3, 1, 3)], reduction=reduction)


@pytest.mark.parametrize("dtype", [np.float32, np.float16], ids=str)
@pytest.mark.parametrize("reduction", _REDUCTIONS)
def test_data_that_nobody_reads_again_is_written_to(reduction: str, dtype: Any) -> None:
    """The result may be the data's own array: in it, the same is found as in a new one."""
    x, updates = sample((3, 2), dtype, 1, 1, 3), sample((1, 2), dtype, 2, 1, 3)
    cases = [("ScatterElements", np.array([[2, 0]]), updates), ("ScatterElements", np.array([[2, 2]]), updates)]
    for op_type, indices, given in [*cases, ("ScatterND", np.array([[1]]), updates)]:
        definition, kernel = bound(op_type, [x, indices, given], reduction=reduction)
        assert definition.out
        assert (0, 0) in definition.inplace
        expected, data = kernel(x, indices, given), x.copy()
        assert kernel(data, indices, given, data) is data
        np.testing.assert_array_equal(data, expected)


def test_narrow_floats_add_wide() -> None:
    """Four thousand ones added to one float16 element are 4,000."""
    inputs = [np.zeros(1, np.float16), np.zeros(4000, np.int64), np.ones(4000, np.float16)]
    assert run("ScatterElements", inputs, reduction="add")[0].tolist() == [4000]


@pytest.mark.parametrize(
    ("op_type", "indices", "updates", "message"),
    [
        ("ScatterElements", [[0, 2]], [[1.0, 1]], "Index 2 is out of range for axis of size 2"),
        ("ScatterElements", [[2]], [[1.0]], "Index 2 is out of range for axis of size 2"),
        ("ScatterElements", [[-3, -3]], [[1.0, 1]], "Index -3 is out of range for axis of size 2"),
        ("ScatterElements", [[0, 0]], [[1.0]], "one shape"),
        ("ScatterElements", [[0, 0, 0, 0]], [[1.0, 1, 1, 1]], "do not fit the data"),
        ("ScatterND", [[0, 3]], [1.0], "Index 3 is out of range for axis 1 of size 3"),
        ("ScatterND", [[0]], [1.0], r"The updates must have the shape \(1, 3\)"),
    ],
)
def test_bad_updates(op_type: str, indices: Any, updates: Any, message: str) -> None:
    """Indices outside and shapes that do not fit are refused."""
    with pytest.raises(InvalidArgument, match=message):
        run(op_type, [np.zeros((2, 3)), np.array(indices), np.array(updates)])


@pytest.mark.parametrize("op_type", ["ScatterElements", "ScatterND"])
def test_unknown_reduction(op_type: str) -> None:
    updates = np.ones(1) if op_type == "ScatterElements" else np.array(1.0)
    inputs = [np.zeros(2), i64(0), updates]
    with pytest.raises(InvalidArgument, match="unknown reduction 'mean'") as caught:
        run(op_type, inputs, reduction="mean")
    assert "none, add, mul, min, max" in str(caught.value)
