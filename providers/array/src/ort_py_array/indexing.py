"""Flat positions of elements that index tensors name: what the gathers and scatters share.

All of them become one `take` or one assignment on a flat view, which NumPy and CuPy do alike. Indices are checked here,
once, because a flat position that wraps would be another, existing element.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py.devices import HOST
from ort_py.errors import InvalidArgument
from ort_py_array.checks import check_indices, index_error, shape_error
from ort_py_array.parts import LARGE_PART, by_parts

__all__ = ["element_positions", "row_positions"]


def _strides(shape: tuple[int, ...]) -> list[int]:
    return [prod(shape[axis + 1 :]) for axis in range(len(shape))]


def element_positions(
    ctx: KernelContext, shape: tuple[int, ...], indices: Array, axis: int
) -> Array | tuple[slice, ...]:
    """Positions of the elements that GatherElements and ScatterElements mean in a tensor of `shape`.

    Args:
        ctx: For the array module and for messages.
        shape: Shape of the tensor indexed.
        indices: Integers of the same rank, no longer than `shape` in the other axes; negative ones count from the end.
        axis: Axis they index, counted from the front.

    Returns:
        Flat int64 positions of the shape of `indices`; where these are one place along the axis, as a loop names that
        writes step by step, the block of the tensor as slices, which are read and written without an index for each
        element.

    Raises:
        InvalidArgument: The ranks differ, `indices` is too long, or an index is out of range.
    """
    xp = ctx.xp
    fits = len(shape) == indices.ndim and all(a == axis or dim <= shape[a] for a, dim in enumerate(indices.shape))
    if not fits:
        raise shape_error(
            f"The indices do not fit the data beside axis {axis}.", ctx.node.location, [shape, indices.shape]
        )
    if indices.size == 0:  # nowhere, also in a tensor whose axes of size 0 have no strides
        return xp.zeros(indices.shape, xp.int64)
    size = shape[axis]
    low, high = check_indices(ctx, indices, size)
    if low == high and indices.shape[axis] == 1:
        block = [slice(dim) for dim in indices.shape]
        block[axis] = slice(low % size, low % size + 1)
        return tuple(block)
    strides = _strides(shape)
    positions = _from_front(xp, indices, size, low)
    if strides[axis] != 1:
        positions = xp.multiply(positions, strides[axis])
    for start in _line_starts(xp, strides, indices.shape, axis):
        positions = xp.add(positions, start)
    return positions


def _line_starts(xp: Any, strides: list[int], dims: tuple[int, ...], axis: int) -> list[Array]:
    """Starts of the lines along `axis`, as arrays to be added: one for the axes before it, one for those behind."""
    starts = []
    for axes in (range(axis), range(axis + 1, len(dims))):
        start: Any = None
        for other in axes:
            if dims[other] > 1:
                last = strides[other] * dims[other]
                along = xp.arange(0, last, strides[other], dtype=xp.int64).reshape(
                    (dims[other],) + (1,) * (len(dims) - 1 - other)
                )
                start = along if start is None else xp.add(start, along)
        if start is not None:
            starts.append(start)
    return starts


def _from_front(xp: Any, indices: Array, size: int, low: int) -> Array:
    """`indices`, the least of which is `low`, as int64 counted from the front; themselves where they are that."""
    wide = indices.astype(xp.int64, copy=False)
    return wide if low >= 0 else xp.where(wide < 0, xp.add(wide, size), wide)


def row_positions(ctx: KernelContext, shape: tuple[int, ...], indices: Array, batch_dims: int = 0) -> Array:
    """Rows addressed by the tuples of indices that GatherND and ScatterND have in their last axis.

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
    batch_shape = tuple(shape[:batch_dims])
    if indices.size > LARGE_PART and ctx.device == HOST:
        return _rows_by_parts(ctx, indexed, indices, batch_shape)
    rows = _rows_of(ctx, indexed, indices, batch_dims)
    if batch_shape:
        batch = xp.multiply(xp.arange(prod(batch_shape), dtype=xp.int64), prod(indexed))
        rows = xp.add(rows, batch.reshape(batch_shape + (1,) * (rows.ndim - batch_dims)))
    return rows


def _rows_of(ctx: KernelContext, indexed: tuple[int, ...], tuples: Array, first: int) -> Array:
    """The rows that tuples of indices into axes of the sizes `indexed` name, in their own entry of the batch."""
    xp = ctx.xp
    rows: Any = None
    for place, (size, stride) in enumerate(zip(indexed, _strides(indexed), strict=True)):
        column = tuples[..., place]
        column = _from_front(xp, column, size, _least(ctx, column, size, first + place))
        if stride != 1:
            column = xp.multiply(column, stride)
        rows = column if rows is None else xp.add(rows, column)
    return xp.zeros(tuples.shape[:-1], xp.int64) if rows is None else rows


def _rows_by_parts(ctx: KernelContext, indexed: tuple[int, ...], indices: Array, batch_shape: tuple[int, ...]) -> Array:
    """`row_positions` of many tuples, the first axes of which are those of a batch."""
    xp, count = ctx.xp, prod(indexed)
    tuples = indices.reshape((-1, indices.shape[-1]))
    flat = xp.empty((tuples.shape[0],), xp.int64)

    def part(start: int, stop: int) -> None:
        flat[start:stop] = _rows_of(ctx, indexed, tuples[start:stop], len(batch_shape))

    ctx.parallel_for(flat.size, LARGE_PART // tuples.shape[1] or 1, part)
    rows = flat.reshape(indices.shape[:-1])
    for axis, stride in enumerate(_strides(batch_shape)):
        starts = xp.multiply(xp.arange(batch_shape[axis], dtype=xp.int64), stride * count)
        by_parts(
            ctx, lambda out, start: xp.add(out, start, out), rows, starts.reshape((-1,) + (1,) * (rows.ndim - axis - 1))
        )
    return rows


def _least(ctx: KernelContext, column: Array, size: int, axis: int) -> int:
    """The least index of a checked column."""
    try:
        return check_indices(ctx, column, size)[0]
    except InvalidArgument as error:
        index = error.what.split()[1]  # the same refusal, with its axis
        raise index_error(index, size, ctx.node.location, axis) from None
