"""TopK, the greatest or smallest elements of an axis in order, and Unique, its different elements.

If only a few of many elements are needed, they are found among few candidates; otherwise the whole axis is sorted. NaN
counts as greater than numbers.
"""

from __future__ import annotations

from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext, kernel
from ort_py.devices import HOST
from ort_py.errors import InvalidArgument
from ort_py_array.checks import host_ints, normalized_axis
from ort_py_array.durations import ahead_of_sort
from ort_py_array.parts import LARGE_PART, contiguous


def _top(ctx: KernelContext, x: Array, k: int, axis_given: int, largest: int) -> tuple[Array, Array]:
    xp = ctx.xp
    axis = normalized_axis(axis_given, x.ndim, ctx.node.location)
    size = x.shape[axis]
    if not 0 <= k <= size:
        raise InvalidArgument(
            f"TopK cannot find {k} elements along axis {axis} of shape {tuple(x.shape)}.",
            where=ctx.node.location,
            fix=f"K must be in [0, {size}].",
        )
    ctx.check_allocation(x.shape, xp.int64)  # the order of all
    few = 0 < k <= size // 8 and size >= 256 and ctx.device == HOST  # on a device, partitioning is sorting
    indices = _few_of_many(ctx, x, k, axis, largest=bool(largest)) if few else None
    if indices is None:
        order = _order(ctx, x, axis, largest=bool(largest))
        indices = xp.ascontiguousarray(order[(*(slice(None),) * axis, slice(0, k))])
    if x.size > LARGE_PART:
        ctx.check_time()
    return xp.ascontiguousarray(xp.take_along_axis(x, indices, axis)), indices


def _order(ctx: KernelContext, x: Array, axis: int, *, largest: bool) -> Array:
    """`_sorted_indices`, of many rows in blocks."""
    xp, size = ctx.xp, x.shape[axis]
    count = x.size // max(1, size)
    if ctx.device != HOST or count == 1 or x.size < _BLOCK:
        ahead_of_sort(ctx, count, size, x.dtype)
        return _sorted_indices(xp, x, axis, largest=largest)
    ahead_of_sort(ctx, 1, size, x.dtype)
    rows = xp.ascontiguousarray(xp.swapaxes(x, axis, -1))
    flat = rows.reshape((count, size))
    order = xp.empty(flat.shape, xp.int64)

    def part(start: int, stop: int) -> None:
        order[start:stop] = _sorted_indices(xp, flat[start:stop], 1, largest=largest)

    ctx.parallel_for(count, max(1, _BLOCK // max(1, size)), part)
    return xp.swapaxes(order.reshape(rows.shape), axis, -1)


_BLOCK = 1 << 16
"""Elements that are sorted by one call where there are several rows."""


def _sorted_indices(xp: Any, x: Array, axis: int, *, largest: bool) -> Array:
    if not largest:
        return xp.argsort(x, axis=axis, kind="stable").astype(xp.int64)
    # Stable and descending at once: sort the reversed axis, and read the result backward.
    order = xp.argsort(xp.flip(x, axis), axis=axis, kind="stable")
    return xp.subtract(x.shape[axis] - 1, xp.flip(order, axis)).astype(xp.int64)


def _few_of_many(ctx: KernelContext, x: Array, k: int, axis: int, *, largest: bool) -> Array | None:
    """Sorted indices of the k extreme elements, found among few candidates; None where NaN makes that impossible.

    A row is divided into at least k groups. The k-th of the groups' extremes is at best as good as the k-th of all
    elements, so worse elements can be left out. For evenly spread data, little more than k elements remain; in the
    worst case, all remain and are sorted.
    """
    xp, moved = ctx.xp, ctx.xp.swapaxes(x, axis, -1)
    if x.size <= LARGE_PART:
        moved = xp.ascontiguousarray(moved)
        chosen = _few_of_rows(ctx, moved.reshape((-1, x.shape[axis])), k, largest=largest)
    else:
        moved = contiguous(ctx, moved)
        rows = moved.reshape((-1, x.shape[axis]))
        count, size = rows.shape
        chosen = xp.empty((count, k), xp.int64)
        step = max(1, LARGE_PART // size)
        for first in range(0, count, step):
            ctx.check_time()
            some = _few_of_rows(ctx, rows[first : first + step], k, largest=largest)
            if some is None:
                return None
            chosen[first : first + step] = some
    if chosen is None:
        return None
    return xp.ascontiguousarray(xp.swapaxes(chosen.reshape((*moved.shape[:-1], k)), axis, -1))


def _few_of_rows(ctx: KernelContext, rows: Array, k: int, *, largest: bool) -> Array | None:
    """`_few_of_many` for the rows of a matrix."""
    xp, (count, size) = ctx.xp, rows.shape
    large = rows.size > LARGE_PART
    groups = min(_GROUPS * k, size // 2)
    even = size // groups * groups
    dealt, rest = rows[:, :even].reshape((count, -1, groups)), rows[:, even:]
    best = dealt.max(axis=1) if largest else dealt.min(axis=1)
    last = groups - k if largest else k - 1
    if large:
        ctx.check_time()
    border = xp.partition(best, last, axis=-1)[:, last : last + 1]
    candidates = xp.greater_equal(rows, border) if largest else xp.less_equal(rows, border)
    if not xp.all(xp.equal(best, best)).item() or not xp.all(xp.equal(rest, rest)).item():
        return None
    if large:
        ctx.check_time()
    found = xp.flatnonzero(candidates)
    if large:
        ahead_of_sort(ctx, 1, found.size, rows.dtype)
    found = xp.take(found, _sorted_indices(xp, xp.take(rows.reshape(-1), found), 0, largest=largest))
    row = found // size
    if count > 1:  # by row, and in a row as they are
        order = xp.argsort(row.astype(xp.uint16) if count <= 1 << 16 else row, kind="stable")  # 16 bits: in linear time
        found, row = xp.take(found, order), xp.take(row, order)
    starts = xp.searchsorted(row, xp.arange(count))
    places = starts.reshape((-1, 1)) + xp.arange(k)
    return (xp.take(found, places) % size).astype(xp.int64)


_GROUPS = 8
"""Groups of a row for each element that is looked for: more leave fewer candidates, but are more to partition."""


@kernel("TopK", since=10, until=24, outputs=2, strided=True, host_inputs=frozenset({1}))
def top_k(
    ctx: KernelContext,
    x: Array,
    k: Array,
    *,
    axis: int = -1,
    largest: int = 1,
    sorted: int = 1,  # noqa: A002 - the attribute's name
) -> tuple[Array, Array]:
    """TopK-10..24: the k (host) greatest or, from 11, smallest elements and their int64 indices.

    Equal elements come in the order of their indices. The result is always sorted, even if this is not requested.

    Raises:
        InvalidArgument: `axis` is out of range, or k is.
    """
    (count,) = host_ints(k) or (0,)
    return _top(ctx, x, count, axis, largest)


@kernel("TopK", since=1, outputs=2, strided=True)
def top_k_1(ctx: KernelContext, x: Array, *, k: int, axis: int = -1) -> tuple[Array, Array]:
    """TopK-1: k is an attribute."""
    return _top(ctx, x, k, axis, 1)


_SLOWER = 10
"""How many times as long it takes to compare rows or texts as numbers."""


@kernel("Unique", since=11, until=28, outputs=4, strided=True)
def unique(
    ctx: KernelContext,
    x: Array,
    *,
    axis: int | None = None,
    sorted: int = 1,  # noqa: A002 - the attribute's name
) -> tuple[Array, ...]:
    """Unique-11..28: different elements, or slices along `axis`, with first places, places of all, and counts (int64).

    With ``sorted=0`` they come in the order of their first places.

    Raises:
        InvalidArgument: `axis` is out of range.
    """
    xp = ctx.xp
    along = None if axis is None else normalized_axis(axis, x.ndim, ctx.node.location)
    if along is None:
        x, along = x.reshape(-1), 0
    rows = x.shape[along]
    ctx.check_allocation((rows,), xp.int64)
    # Rows are compared element by element, ten times as slowly as numbers.
    ahead_of_sort(ctx, 1 if x.ndim == 1 and x.dtype.kind != "O" else _SLOWER, rows)
    found = xp.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=None if x.ndim == 1 else along
    )
    values, first, inverse, counts = found
    inverse = inverse.reshape(-1)
    if not sorted:
        order = xp.argsort(first)
        values, first, counts = xp.take(values, order, axis=along), xp.take(first, order), xp.take(counts, order)
        inverse = xp.take(xp.argsort(order), inverse)
    values = xp.ascontiguousarray(values)  # found along another axis than the first, they are a transposed view
    return values, first.astype(xp.int64), inverse.astype(xp.int64), counts.astype(xp.int64)
