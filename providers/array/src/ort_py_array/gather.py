"""Gather, GatherElements, GatherND: elements picked by index tensors. Work on every element type.

Negative indices count from the end; an index outside raises. NumPy's `take` checks for nothing; on a device, whose
`take` would wrap around silently, the least and the greatest index are looked at first.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef, kernel
from ort_py.devices import HOST
from ort_py_array.checks import LARGE, check_indices, constant_input, index_error, normalized_axis
from ort_py_array.indexing import element_positions, row_positions
from ort_py_array.parts import LARGE_PART, taken

_FEW = 8192
"""Numbers in tuples of indices up to which NumPy's own indices take a third to a half of the time of `take`."""


def gather(ctx: KernelContext) -> KernelCallable:
    """Gather-1..13: ``take`` along `axis`; a single constant index becomes a view.

    Raises:
        InvalidArgument: `axis` or an index is out of range.
        LimitError: The result would be too large.
    """
    axis = ctx.node.attributes.get("axis", 0)
    known = constant_input(ctx, 1)
    if known is not None and known.size == 1 and known.ndim < 2:
        return _single(ctx, axis, int(known.item()), kept=known.ndim == 1)
    return _taken(ctx, axis)


def _single(ctx: KernelContext, axis_given: int, index: int, *, kept: bool) -> KernelCallable:
    """One element along the axis, which stays with that element where it is `kept`."""
    where = ctx.node.location
    head = (slice(None),) * axis_given if axis_given >= 0 else None
    part = slice(index, index + 1 or None) if kept else index
    # The ellipsis keeps a result without axes an array, which for strings would be a str.
    prepared = None if head is None else (*head, part, Ellipsis)

    def explained(x: Array) -> Array:
        axis = normalized_axis(axis_given, x.ndim, where)
        if not -x.shape[axis] <= index < x.shape[axis]:
            raise index_error(index, x.shape[axis], where, axis)
        return x[(*((slice(None),) * axis), part, Ellipsis)]

    def run(x: Array, _indices: Array | None = None) -> Array:
        try:
            y = x[prepared]
        except IndexError:
            return explained(x)
        return y if y.size else explained(x)  # a slice that lies outside is empty

    return run if prepared is not None else lambda x, _indices=None: explained(x)


def _taken(ctx: KernelContext, axis_given: int) -> KernelCallable:
    xp, where = ctx.xp, ctx.node.location
    take, on_host = xp.take, ctx.device == HOST

    def run(x: Array, indices: Array) -> Array:
        axis = normalized_axis(axis_given, x.ndim, where)
        if indices.ndim == 0:
            indices = indices.reshape((1,))
            return run(x, indices).reshape(x.shape[:axis] + x.shape[axis + 1 :])
        if not on_host:
            check_indices(ctx, indices, x.shape[axis])
        if indices.size * x.size > LARGE:
            shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
            ctx.check_allocation(shape, x.dtype)
        try:
            return take(x, indices, axis)
        except IndexError:
            if x.shape[axis] == 0:  # NumPy refuses to look into an empty axis, even for no index at all
                if indices.size == 0:
                    return xp.zeros((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), x.dtype)
                raise index_error(xp.min(indices).item(), 0, where, axis) from None
            check_indices(ctx, indices, x.shape[axis])
            raise

    return run


@kernel("GatherElements", since=11, until=13, strided=True)
def gather_elements(ctx: KernelContext, x: Array, indices: Array, *, axis: int = 0) -> Array:
    """GatherElements-11..13: one element for each index, at the index's own place in the other axes.

    Raises:
        InvalidArgument: The shapes do not fit, or an index or `axis` is out of range.
    """
    positions = element_positions(ctx, x.shape, indices, normalized_axis(axis, x.ndim, ctx.node.location))
    if isinstance(positions, tuple):
        return ctx.xp.array(x[positions], order="C")
    if positions.size == 0:
        return ctx.xp.zeros(positions.shape, x.dtype)
    return ctx.xp.take(x.reshape(-1), positions, axis=0)


def gather_nd(ctx: KernelContext) -> KernelCallable:
    """GatherND-11..13: the slices that tuples of indices name; `batch_dims` (from 12) leading axes are shared.

    Raises:
        InvalidArgument: The shapes do not fit, or an index is out of range.
        LimitError: The result would be too large.
    """
    batch_dims = ctx.node.attributes.get("batch_dims", 0)
    known = constant_input(ctx, 1)
    if known is not None and known.ndim > 1 and not batch_dims and ctx.device == HOST and 0 < known.size <= _FEW:
        return _known_tuples(ctx, known)

    def run(x: Array, indices: Array) -> Array:
        return _gathered(ctx, x, indices, batch_dims)

    return run


def _known_tuples(ctx: KernelContext, indices: Array) -> KernelCallable:
    """The slices that a few constant tuples name. For the shape of the last call it is known which rows these are."""
    depth, tuples, take = indices.shape[-1], indices.shape[:-1], ctx.xp.take
    last: tuple[tuple[int, ...] | None, Array | None] = (None, None)

    def run(x: Array, _indices: Array | None = None) -> Array:
        nonlocal last
        shape = x.shape
        seen, rows = last  # one value, so that threads see both or none
        if seen != shape:
            if len(shape) != depth:  # slices of several elements
                return _gathered(ctx, x, indices, 0)
            rows = row_positions(ctx, shape, indices)
            is_whole = rows.size == x.size and bool((rows.reshape(-1) == ctx.xp.arange(x.size)).all())
            last = shape, None if is_whole else rows
            rows = last[1]
        return x.reshape(tuples).copy() if rows is None else take(x.reshape(-1), rows)

    return run


def _gathered(ctx: KernelContext, x: Array, indices: Array, batch_dims: int) -> Array:
    if ctx.device == HOST and indices.ndim > 1 and not batch_dims and 0 < indices.size <= _FEW:
        found = _few_slices(ctx, x, indices)
        if found is not None:
            return found
    rows = row_positions(ctx, x.shape, indices, batch_dims)
    inner = tuple(x.shape[batch_dims + indices.shape[-1] :])
    shape = (*rows.shape, *inner)
    ctx.check_allocation(shape, x.dtype)
    size = prod(shape)
    if size == 0:
        return ctx.xp.zeros(shape, x.dtype)
    matrix = x.reshape((-1, prod(inner)))
    if size > LARGE_PART:
        return taken(ctx, matrix, rows.reshape(-1), 0).reshape(shape)
    return ctx.xp.take(matrix, rows.reshape(-1), axis=0).reshape(shape)


def _few_slices(ctx: KernelContext, x: Array, indices: Array) -> Array | None:
    """The slices that a few tuples name, by NumPy's own indices, which are slower than `take` for many; None where they
    do not fit, which the general way explains."""
    depth = indices.shape[-1]
    if depth > x.ndim or not indices.flags.c_contiguous:  # the result lies as the indices do
        return None
    if indices.size * x.size > LARGE:
        ctx.check_allocation((*indices.shape[:-1], *x.shape[depth:]), x.dtype)
    try:
        found: Array = x[tuple([indices[..., place] for place in range(depth)])]
    except IndexError:
        return None
    return found


_GATHER: dict[str, Any] = {"views": ((0, 0),), "strided": True, "implementation": f"{__name__}:gather"}

GATHER_ND = KernelDef("GatherND", gather_nd, since=11, until=13, strided=True, implementation=f"{__name__}:gather_nd")

KERNELS: list[KernelDef] = [KernelDef("Gather", gather, since=1, until=13, **_GATHER), GATHER_ND]
