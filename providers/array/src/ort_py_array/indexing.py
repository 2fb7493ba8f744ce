"""Flat positions of elements that index tensors name: what the gathers and scatters share.

All of them become one `take` or one assignment on a flat view, which NumPy and CuPy do alike. Indices are checked here,
once, because a flat position that wraps would be another, existing element.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py.errors import InvalidArgument
from ort_py_array.checks import check_indices, index_error, shape_error

__all__ = ["element_positions", "row_positions"]


def _strides(shape: tuple[int, ...]) -> list[int]:
    return [prod(shape[axis + 1 :]) for axis in range(len(shape))]


def element_positions(ctx: KernelContext, shape: tuple[int, ...], indices: Array, axis: int) -> Array:
    """Where the elements that GatherElements and ScatterElements mean are in a flat tensor of `shape`.

    Args:
        ctx: For the array module and for messages.
        shape: Shape of the tensor indexed.
        indices: Integers of the same rank, no longer than `shape` in the other axes; negative ones count from the end.
        axis: Axis they index, counted from the front.

    Returns:
        int64 positions of the shape of `indices`.

    Raises:
        InvalidArgument: The ranks differ, `indices` is too long, or an index is out of range.
    """
    xp = ctx.xp
    fits = len(shape) == indices.ndim and all(a == axis or dim <= shape[a] for a, dim in enumerate(indices.shape))
    if not fits:
        raise shape_error(
            f"The indices do not fit the data beside axis {axis}.", ctx.node.location, [shape, indices.shape]
        )
    strides = _strides(shape)
    positions = _from_front(ctx, indices, shape[axis])
    if strides[axis] != 1:
        positions = xp.multiply(positions, strides[axis])
    start: Any = xp.zeros((1,) * indices.ndim, xp.int64)  # of each line along the axis
    for other, dim in enumerate(indices.shape):
        if other != axis and dim > 1:
            ranged = xp.multiply(xp.arange(dim, dtype=xp.int64), strides[other])
            start = xp.add(start, ranged.reshape((dim,) + (1,) * (indices.ndim - 1 - other)))
    return xp.add(positions, start)


def _from_front(ctx: KernelContext, indices: Array, size: int) -> Array:
    """`indices` as int64 counted from the front, themselves where they are that already; checked."""
    xp = ctx.xp
    check_indices(ctx, indices, size)
    wide = indices.astype(xp.int64, copy=False)
    if not indices.size or xp.min(indices).item() >= 0:  # usually: a pass that reads costs a fifth of one that writes
        return wide
    return xp.where(wide < 0, xp.add(wide, size), wide)


def row_positions(ctx: KernelContext, shape: tuple[int, ...], indices: Array, batch_dims: int = 0) -> Array:
    """Which row the tuples of indices mean that GatherND and ScatterND have in their last axis.

    The tensor is seen as a matrix of ``prod(shape[:batch_dims + depth])`` rows, depth being the tuples' length.

    Returns:
        int64 row numbers, of the shape of `indices` without its last axis.

    Raises:
        InvalidArgument: The tuples are too long, the batch axes differ, or an index is out of range.
    """
    xp = ctx.xp
    depth = indices.shape[-1] if indices.ndim else 0
    fits = (
        indices.ndim > batch_dims
        and batch_dims + depth <= len(shape)
        and tuple(indices.shape[:batch_dims]) == tuple(shape[:batch_dims])
    )
    if not fits:
        raise shape_error(
            f"Index tuples of length {depth} after {batch_dims} batch axes do not fit the data.",
            ctx.node.location,
            [shape, indices.shape],
        )
    indexed = tuple(shape[batch_dims : batch_dims + depth])
    wide = indices.astype(xp.int64)
    rows: Any = xp.zeros(indices.shape[:-1], xp.int64)
    for place, (size, stride) in enumerate(zip(indexed, _strides(indexed), strict=True)):
        column = wide[..., place]
        _check_column(ctx, column, size, batch_dims + place)
        rows = xp.add(rows, xp.multiply(xp.where(column < 0, xp.add(column, size), column), stride))
    batch_shape = tuple(shape[:batch_dims])
    if batch_shape:
        batch = xp.multiply(xp.arange(prod(batch_shape), dtype=xp.int64), prod(indexed))
        rows = xp.add(rows, batch.reshape(batch_shape + (1,) * (rows.ndim - batch_dims)))
    return rows


def _check_column(ctx: KernelContext, column: Array, size: int, axis: int) -> None:
    try:
        check_indices(ctx, column, size)
    except InvalidArgument as error:
        index = error.what.split()[1]  # the same refusal, with its axis
        raise index_error(index, size, ctx.node.location, axis) from None
