"""Gather, GatherElements, GatherND: results, strings, negative indices, and indices that are not there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py.contracts.kernel import KernelContext
from ort_py.devices import Device
from ort_py.errors import InvalidArgument
from ort_py_array import gather as gathers
from ort_py_array.gather import gather
from ort_py_kit.kernel_runner import LocalKernelContext, make_node_spec

from .oracle import BF16, agree, i64, run, sample

_TYPES = [np.float32, BF16, np.bool_, object]
_WAYS = pytest.mark.parametrize("constants", [(), (1,)], ids=["fed", "constant"])


@_WAYS
@pytest.mark.parametrize("opset", [7, 11, 13])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("indices", [[0, 2], [[1], [-1]], 1, -2, []], ids=str)
def test_gather(indices: Any, axis: int, opset: int, constants: Any) -> None:
    """Scalars, vectors, matrices and no indices, from either end."""
    agree(
        "Gather",
        [sample((3, 3, 3), np.float32), np.array(indices, np.int64)],
        axis=axis,
        opset=opset,
        constants=constants,
    )


@_WAYS
@pytest.mark.parametrize("dtype", _TYPES, ids=str)
def test_gather_every_type(dtype: Any, constants: Any) -> None:
    """The result is an array of the data's type, also when it is a single string."""
    x = np.array([1, 0, 1]).astype(dtype)
    for indices in (np.array(1, np.int32), i64(1, 2)):
        (result,) = run("Gather", [x, indices], constants=constants)
        assert isinstance(result, np.ndarray)
        assert result.dtype == np.dtype(dtype)
        assert result.shape == indices.shape


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("index", [0, 2, -1, -3])
def test_a_single_constant_index_is_a_view(index: int, axis: int) -> None:
    """With an axis and without one; of an axis that is there, also where another one is empty."""
    x = sample((3, 3, 3), np.float32)
    for indices in (np.array(index), i64(index)):
        (result,) = run("Gather", [x, indices], axis=axis, constants=(1,))
        np.testing.assert_array_equal(result, x.take(indices, axis))
        assert np.shares_memory(result, x)
        (nothing,) = run("Gather", [np.zeros((3, 3, 3, 0)), indices], axis=axis % 3, constants=(1,))
        assert nothing.shape == (*np.zeros((3, 3, 3)).take(indices, axis).shape, 0)


@pytest.mark.parametrize("axis", [0, -2])
@pytest.mark.parametrize("index", [2, -3])
def test_a_single_constant_index_outside(index: int, axis: int) -> None:
    """A slice would be empty where an index is refused."""
    with pytest.raises(InvalidArgument, match=f"Index {index} is out of range for axis.* of size 2"):
        run("Gather", [np.zeros((2, 5)), i64(index)], axis=axis, constants=(1,))


@_WAYS
@pytest.mark.parametrize("axis", [0, -2])
@pytest.mark.parametrize("index", [2, -3])
def test_gather_outside(index: int, axis: int, constants: Any) -> None:
    """The index, the size and what is allowed are named."""
    for indices in (np.array(index), i64(0, index)):
        with pytest.raises(InvalidArgument, match=f"Index {index} is out of range for axis.* of size 2") as caught:
            run("Gather", [np.zeros((2, 5)), indices], axis=axis, constants=constants)
        assert "Indices must be in [-2, 1]" in str(caught.value)
        assert caught.value.location.op_type == "Gather"


@_WAYS
def test_gather_axis_out_of_range(constants: Any) -> None:
    """An axis that does not exist is refused."""
    with pytest.raises(InvalidArgument, match="Axis 1 is out of range for rank 1"):
        run("Gather", [np.zeros(2), np.array(0)], axis=1, constants=constants)


def test_gather_from_an_empty_axis() -> None:
    """No index finds nothing there; any index is refused."""
    assert run("Gather", [np.zeros((0, 2)), np.zeros((0, 3), np.int64)])[0].shape == (0, 3, 2)
    with pytest.raises(InvalidArgument, match="axis 0 of size 0"):
        run("Gather", [np.zeros((0, 2)), i64(0)])


@pytest.mark.parametrize("place", [0, 2, -1])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_elements_of_one_place(axis: int, place: int) -> None:
    """Indices that are one number name a block, of which the result is a copy in the order of its own axes."""
    shape = [2, 2, 2]
    shape[axis] = 1
    x = sample((3, 3, 3), np.float32, 1)
    for data in (x, x.transpose()):
        (result,) = run("GatherElements", [data, np.full(shape, place)], axis=axis)
        np.testing.assert_array_equal(result, data.take([place], axis)[:2, :2, :2])
        assert result.flags.c_contiguous
        assert not np.shares_memory(result, x)


def test_gather_checks_before_a_device_would_wrap() -> None:
    """Away from the host the indices are looked at first, because `take` would not refuse there."""
    inputs = [np.zeros(3), i64(5)]
    context: KernelContext = LocalKernelContext(make_node_spec("Gather", inputs))
    context.device = Device("fake", 0)
    with pytest.raises(InvalidArgument, match="Index 5 is out of range for axis of size 3"):
        gather(context)(*inputs)


@pytest.mark.parametrize("dtype", _TYPES, ids=str)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_elements(axis: int, dtype: Any) -> None:
    """One element an index, at the index's own place in the other axes."""
    x, indices = np.arange(9).reshape(3, 3).astype(dtype), np.array([[0, 1, 2], [-1, 0, 1]])
    if axis != 0:
        indices = indices.T
    (result,) = run("GatherElements", [x, indices], axis=axis)
    np.testing.assert_array_equal(result, np.take_along_axis(x, indices, axis))


def test_gather_elements_of_fewer_rows() -> None:
    """Indices may be shorter than the data beside the axis, and empty."""
    x = np.arange(12.0).reshape(3, 4)
    assert run("GatherElements", [x, np.array([[3, 0]])], axis=1)[0].tolist() == [[3, 0]]
    assert run("GatherElements", [x, np.array([[2, 0]])], axis=0)[0].tolist() == [[8, 1]]
    assert run("GatherElements", [x, np.zeros((0, 4), np.int64)])[0].shape == (0, 4)


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        ([[0, 4]], "Index 4 is out of range"),
        ([[-5, 0]], "Index -5"),
        ([0], "do not fit the data"),
        ([[0]] * 4, "do not fit"),
    ],
    ids=str,
)
def test_bad_element_indices(indices: Any, message: str) -> None:
    """Indices outside and shapes that do not fit are refused."""
    with pytest.raises(InvalidArgument, match=message):
        run("GatherElements", [np.zeros((3, 4)), np.array(indices)], axis=1)


@pytest.fixture(params=[0, 1 << 20], ids=["as many", "as few"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tuples are looked up as many are, and as few."""
    monkeypatch.setattr(gathers, "_FEW", request.param)


@_WAYS
@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("dtype", _TYPES, ids=str)
@pytest.mark.parametrize(
    ("indices", "batch_dims"),
    [
        ([[0, 0], [1, -1]], 0),
        ([[1]], 0),
        ([[[0, 1]], [[1, 0]]], 0),
        ([[0], [1]], 1),
        ([[[1, 0]], [[0, 1]]], 1),
        ([[0, 1, 1]], 0),
        ([[[0, 1, 1]], [[1, 0, -1]]], 0),
        (np.argwhere(np.ones((2, 2, 2))).tolist(), 0),
    ],
    ids=str,
)
def test_gather_nd(indices: Any, batch_dims: int, dtype: Any, constants: Any) -> None:
    """Tuples of every length, also of all elements in order, with and without batch axes."""
    x = np.arange(8).reshape(2, 2, 2)
    (result,) = run("GatherND", [x.astype(dtype), np.array(indices)], batch_dims=batch_dims, constants=constants)
    (expected,) = run("GatherND", [x.astype(np.float32), np.array(indices)], batch_dims=batch_dims)
    agree("GatherND", [x.astype(np.float32), np.abs(indices)], batch_dims=batch_dims)
    np.testing.assert_array_equal(result, expected.astype(dtype))


def test_known_tuples_of_other_shapes() -> None:
    """Rows that were found for one shape are not those of another; the result is an array of its own."""
    indices = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    context = LocalKernelContext(make_node_spec("GatherND", [np.zeros((2, 2)), indices]), constants={1: indices})
    kernel = gathers.gather_nd(context)
    for shape in ((2, 2), (2, 3), (2, 2), (3, 2), (2, 2, 2)):
        x = sample(shape, np.float32)
        found = kernel(x, indices)
        np.testing.assert_array_equal(found, x[indices[:, 0], indices[:, 1]])
        assert not np.shares_memory(found, x)
    with pytest.raises(InvalidArgument, match="Index 1 is out of range for axis 1 of size 1"):
        kernel(sample((2, 1), np.float32), indices)


@pytest.mark.usefixtures("either_way")
def test_slices_lie_in_rows() -> None:
    """Later kernels count on it, in whatever order the indices lie."""
    x, indices = np.arange(12.0, dtype=np.float32).reshape(3, 4), np.array([[0, 2], [1, 3], [2, 0]]).T
    (result,) = run("GatherND", [x, indices[:, :2]])
    np.testing.assert_array_equal(result, [x[0, 1], x[2, 3]])
    (rows,) = run("GatherND", [x, np.asfortranarray([[[0], [2]], [[1], [1]]])])
    assert rows.flags.c_contiguous
    np.testing.assert_array_equal(rows, [[x[0], x[2]], [x[1], x[1]]])


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize(
    ("indices", "batch_dims", "message"),
    [
        ([[0, 3]], 0, "Index 3 is out of range for axis 1 of size 3"),
        ([[-3, 0]], 0, "Index -3 is out of range for axis 0 of size 2"),
        ([[0, 0, 0]], 0, "tuples of length 3"),
        ([[0]], 1, "after 1 batch axes"),
        ([0], 1, "do not fit"),
    ],
)
def test_bad_tuples(indices: Any, batch_dims: int, message: str) -> None:
    """Indices outside name their axis; tuples that do not fit are refused."""
    with pytest.raises(InvalidArgument, match=message):
        run("GatherND", [np.zeros((2, 3)), np.array(indices)], batch_dims=batch_dims)
