"""Transpose, Concat, Split, Expand, Tile, DepthToSpace, SpaceToDepth, on every element type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py.errors import InvalidArgument

from .oracle import BF16, agree, bound, i64, run, sample

_TYPES = [np.float32, BF16, np.int64, np.bool_, object]


@pytest.mark.parametrize("opset", [7, 13, 25])
@pytest.mark.parametrize("perm", [None, (1, 0, 2), (2, 0, 1)], ids=str)
def test_transpose(perm: Any, opset: int) -> None:
    """In the order of `perm`, by default reversed; a view."""
    x = sample((2, 3, 4), np.float32)
    attributes = {} if perm is None else {"perm": perm}
    agree("Transpose", [x], opset=opset, **attributes)
    assert np.shares_memory(run("Transpose", [x], **attributes)[0], x)


@pytest.mark.parametrize("perm", [(0, 1), (0, 1, 3), (0, 0, 1), (0, -2, 2)], ids=str)
def test_bad_perm(perm: Any) -> None:
    """An attribute that does not order the axes is refused."""
    with pytest.raises(InvalidArgument, match="is not an order of the axes of shape"):
        run("Transpose", [np.zeros((2, 3, 4))], perm=perm)


@pytest.mark.parametrize("dtype", _TYPES, ids=str)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat(axis: int, dtype: Any) -> None:
    """Any number of tensors along any axis."""
    parts = [np.arange(6).reshape(2, 3).astype(dtype) for _ in range(3)]
    (result,) = run("Concat", parts, axis=axis)
    np.testing.assert_array_equal(result, np.concatenate(parts, axis))
    assert result.dtype == np.dtype(dtype)


def test_concat_writes_where_asked() -> None:
    """The output comes behind all inputs."""
    parts = [sample((2, 3), np.float32, number) for number in range(3)]
    _, kernel = bound("Concat", parts, axis=1)
    out = np.empty((2, 9), np.float32)
    kernel(*parts, out)
    np.testing.assert_array_equal(out, np.concatenate(parts, 1))


@pytest.mark.parametrize("shapes", [((2, 3), (2, 4)), ((2, 3), (3,))], ids=str)
def test_concat_of_other_shapes(shapes: Any) -> None:
    """Shapes that differ beside the axis are refused, and listed."""
    with pytest.raises(InvalidArgument, match="cannot be concatenated along axis 0") as caught:
        run("Concat", [np.zeros(shape) for shape in shapes], axis=0)
    assert str(shapes[0]) in str(caught.value)


@pytest.mark.parametrize("dtype", _TYPES, ids=str)
@pytest.mark.parametrize("constants", [(), (1,)], ids=["fed", "constant"])
def test_split_by_sizes(constants: Any, dtype: Any) -> None:
    """Sizes from an input or, in version 11, an attribute; the parts are views."""
    x = np.arange(10).reshape(2, 5).astype(dtype)
    for result in (
        run("Split", [x, i64(2, 0, 3)], axis=1, outputs=3, constants=constants),
        run("Split", [x], opset=11, split=(2, 0, 3), axis=1, outputs=3),
    ):
        assert [part.shape for part in result] == [(2, 2), (2, 0), (2, 3)]
        np.testing.assert_array_equal(np.concatenate(result, 1), x)
        assert np.shares_memory(result[0], x)


def test_split_into_equal_parts() -> None:
    """Without sizes the axis is divided."""
    x = sample((6, 2), np.float32)
    for opset in (7, 13):
        assert [part.shape for part in run("Split", [x], opset=opset, outputs=3)] == [(2, 2)] * 3


@pytest.mark.parametrize(("size", "count", "lengths"), [(7, 3, [3, 3, 1]), (6, 3, [2, 2, 2]), (5, 4, [2, 2, 1, 0])])
def test_split_by_number(size: int, count: int, lengths: list[int]) -> None:
    """`num_outputs` allows a smaller last part."""
    parts = run("Split", [np.zeros(size, np.float32)], num_outputs=count, outputs=count)
    assert [len(part) for part in parts] == lengths


def test_parts_beyond_the_declared_views_are_copies() -> None:
    """A Split of more outputs than the declaration lists copies the rest."""
    x = sample((70,), np.float32)
    parts = run("Split", [x], num_outputs=70, outputs=70)
    assert [np.shares_memory(part, x) for part in parts] == [True] * 64 + [False] * 6


@pytest.mark.parametrize(("sizes", "opset"), [((2, 2), 18), (None, 13), ((2, -2, 5), 18)], ids=str)
def test_impossible_split(sizes: Any, opset: int) -> None:
    """Sizes that do not add up, and an axis that cannot be divided, are refused."""
    inputs = [np.zeros(5, np.float32), *([] if sizes is None else [i64(*sizes)])]
    with pytest.raises(InvalidArgument, match=r"Axis 0 of shape \(5,\) cannot be split"):
        run("Split", inputs, opset=opset, outputs=len(sizes or (0, 0)))


@pytest.mark.parametrize("dtype", _TYPES, ids=str)
@pytest.mark.parametrize("target", [(4, 2, 3), (2, 3), (1, 1), (3,), (0, 1, 1)], ids=str)
def test_expand(target: Any, dtype: Any) -> None:
    """Both shapes broadcast; elements are copied."""
    x = np.arange(3).reshape(1, 3).astype(dtype)
    (result,) = run("Expand", [x, i64(*target)])
    np.testing.assert_array_equal(result, x + np.zeros(target, int) if dtype is not object else result)
    assert result.shape == np.broadcast_shapes(x.shape, target)
    assert result.dtype == np.dtype(dtype)


def test_expanded_elements_do_not_share_memory() -> None:
    """A write to one element of the result does not change another."""
    (result,) = run("Expand", [np.zeros((1, 2)), i64(3, 1)])
    result[0] = 1
    assert result[1].tolist() == [0, 0]


def test_expand_to_a_shape_that_does_not_fit() -> None:
    """The axis and both sizes are named, with the node."""
    with pytest.raises(InvalidArgument, match=r"Shapes \(3,\) and \(4,\)") as caught:
        run("Expand", [np.zeros(3), i64(4)])
    assert caught.value.location.op_type == "Expand"


@pytest.mark.parametrize("dtype", _TYPES, ids=str)
@pytest.mark.parametrize("repeats", [(2, 1), (1, 3), (2, 2), (0, 1)], ids=str)
def test_tile(repeats: Any, dtype: Any) -> None:
    x = np.arange(6).reshape(2, 3).astype(dtype)
    np.testing.assert_array_equal(run("Tile", [x, i64(*repeats)])[0], np.tile(x, repeats))


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 1, 3), (1, 4, 1), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("repeats", [(1, 1, 1), (1, 1, 5), (3, 1, 2), (1, 3, 1), (2, 0, 1)], ids=str)
def test_tile_with_axes_of_one(shape: Any, repeats: Any) -> None:
    """Axes of one element and axes that are not repeated, alone and mixed with others, in a new array."""
    x = sample(shape, np.float32, 1)
    (result,) = run("Tile", [x, i64(*repeats)])
    np.testing.assert_array_equal(result, np.tile(x, repeats))
    assert not np.shares_memory(result, x)


def test_tile_of_a_transposed_tensor() -> None:
    """Elements are repeated in the order of the tensor's axes, not of its memory."""
    x = sample((3, 2), np.float32, 1).transpose()
    np.testing.assert_array_equal(run("Tile", [x, i64(2, 3)])[0], np.tile(x, (2, 3)))


@pytest.mark.parametrize("repeats", [(2,), (2, -1)], ids=str)
def test_bad_repeats(repeats: Any) -> None:
    """One number that is not negative for each axis."""
    with pytest.raises(InvalidArgument, match="Repeats"):
        run("Tile", [np.zeros((2, 2)), i64(*repeats)])


def test_tile_of_version_1() -> None:
    """A number and an axis, both inputs."""
    (result,) = run("Tile", [np.array([[1.0, 2.0]], np.float32), np.array(2.0), np.array(1.0)], opset=5)
    assert result.tolist() == [[1, 2, 1, 2]]


@pytest.mark.parametrize("dtype", [np.float32, BF16, np.int8], ids=str)
@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_and_space(mode: str, dtype: Any) -> None:
    x = sample((2, 8, 3, 4), dtype, 1)
    agree("DepthToSpace", [x.astype(np.float32)], blocksize=2, mode=mode, opset=13)
    (wide,) = run("DepthToSpace", [x], blocksize=2, mode=mode)
    np.testing.assert_array_equal(run("SpaceToDepth", [wide], blocksize=2, mode=mode)[0], x)


@pytest.mark.parametrize(("op_type", "shape"), [("DepthToSpace", (1, 3, 2, 2)), ("SpaceToDepth", (1, 3, 3, 2))])
def test_blocks_that_do_not_fit(op_type: str, shape: Any) -> None:
    """Channels, or height and width, must be divisible."""
    with pytest.raises(InvalidArgument, match=f"{op_type} with blocksize 2 cannot take"):
        run(op_type, [np.zeros(shape, np.float32)], blocksize=2)
