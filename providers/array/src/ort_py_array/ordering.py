"""TopK, the greatest or smallest elements of an axis in order, and Unique, its different elements.

A few of many are found by partitioning; otherwise the whole axis is sorted. NaN counts as greater than all numbers.
"""

from __future__ import annotations

from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext, kernel
from ort_py.devices import HOST
from ort_py.errors import InvalidArgument
from ort_py_array.checks import host_ints, normalized_axis


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
    few = 0 < k <= size // 8 and size >= 256 and ctx.device == HOST  # on a device, partitioning is sorting
    indices = _few_of_many(xp, x, k, axis, largest=bool(largest)) if few else None
    if indices is None:
        order = _sorted_indices(xp, x, axis, largest=bool(largest))
        indices = xp.ascontiguousarray(order[(*(slice(None),) * axis, slice(0, k))])
    return xp.ascontiguousarray(xp.take_along_axis(x, indices, axis)), indices


def _sorted_indices(xp: Any, x: Array, axis: int, *, largest: bool) -> Array:
    if not largest:
        return xp.argsort(x, axis=axis, kind="stable").astype(xp.int64)
    # Stable and descending at once: sort the reversed axis, and read the result backward.
    order = xp.argsort(xp.flip(x, axis), axis=axis, kind="stable")
    return xp.subtract(x.shape[axis] - 1, xp.flip(order, axis)).astype(xp.int64)


def _few_of_many(xp: Any, x: Array, k: int, axis: int, *, largest: bool) -> Array | None:
    """Sorted indices of the k extreme elements without sorting the others; None where NaN makes that impossible."""
    rows = xp.ascontiguousarray(xp.swapaxes(x, axis, -1)).reshape((-1, x.shape[axis]))
    size = rows.shape[1]
    last = size - k if largest else k - 1
    border = xp.partition(rows, last, axis=-1)[:, last : last + 1]  # the element that comes k-th
    if not xp.all(xp.equal(border, border)).item():
        return None
    inside = xp.greater(rows, border) if largest else xp.less(rows, border)
    # Of the elements equal to the k-th, the first ones fill what is left.
    equal = xp.equal(rows, border)
    left = xp.subtract(k, xp.count_nonzero(inside, axis=-1)).reshape((-1, 1))
    chosen = xp.logical_or(inside, xp.logical_and(equal, xp.less_equal(xp.cumsum(equal, axis=-1), left)))
    if int(xp.count_nonzero(chosen).item()) != k * rows.shape[0]:  # smallest elements beside NaN
        return None
    columns = xp.nonzero(chosen)[1].reshape((-1, k))
    order = _sorted_indices(xp, xp.take_along_axis(rows, columns, 1), 1, largest=largest)
    found = xp.take_along_axis(columns, order, 1).astype(xp.int64)
    moved = xp.swapaxes(x, axis, -1).shape
    return xp.ascontiguousarray(xp.swapaxes(found.reshape((*moved[:-1], k)), axis, -1))


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

    Equal elements come in the order of their indices. The result is sorted whether asked for or not.

    Raises:
        InvalidArgument: `axis` is out of range, or k is.
    """
    (count,) = host_ints(k) or (0,)
    return _top(ctx, x, count, axis, largest)


@kernel("TopK", since=1, outputs=2, strided=True)
def top_k_1(ctx: KernelContext, x: Array, *, k: int, axis: int = -1) -> tuple[Array, Array]:
    """TopK-1: k is an attribute."""
    return _top(ctx, x, k, axis, 1)


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
