"""TensorScatter-24: new keys or values written into a copy of a cache, or into the cache itself.

Each batch entry has a place of its own. Every element type. It does not depend on attention.
"""

from __future__ import annotations

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext, kernel
from ort_py.errors import InvalidArgument
from ort_py_array.checks import normalized_axis, shape_error
from ort_py_array.two_forms import copied

__all__ = ["tensor_scatter"]


@kernel("TensorScatter", since=24, strided=True, out=True, inplace=((0, 0),))
def tensor_scatter(
    ctx: KernelContext,
    cache: Array,
    update: Array,
    write_indices: Array | None = None,
    *,
    axis: int = -2,
    mode: str = "linear",
    out: Array | None = None,
) -> Array:
    """TensorScatter-24: `cache` with `update` from ``write_indices[b]`` on (0 where absent) along `axis`.

    `update` has the cache's shape but for `axis`, where it may be shorter. Circular mode counts modulo the cache's
    size; in linear mode the places are checked, which on a device waits for them.

    Raises:
        InvalidArgument: Shapes that do not fit, a batch axis to write along, an unknown mode, or in linear mode a place
            from which the update would leave the cache.
    """
    xp, where = ctx.xp, ctx.node.location
    along = normalized_axis(axis, cache.ndim, where)
    if along == 0:
        raise InvalidArgument(
            "TensorScatter cannot write along axis 0.",
            where=where,
            why="it is the batch, each entry of which has its own place",
            fix="Use the axis of the sequence.",
        )
    if mode not in ("linear", "circular"):
        raise InvalidArgument(f"mode is '{mode}'.", where=where, fix="Use 'linear' or 'circular'.")
    size, count = cache.shape[along], update.shape[along] if update.ndim == cache.ndim else 0
    if (*update.shape[:along], size, *update.shape[along + 1 :]) != tuple(cache.shape) or count > size:
        raise shape_error("The update does not fit into the cache.", where, [cache.shape, update.shape])
    batch = cache.shape[0]
    if write_indices is not None and tuple(write_indices.shape) != (batch,):
        raise shape_error("write_indices is not one place per batch entry.", where, [write_indices.shape, cache.shape])
    if mode == "linear" and write_indices is not None and update.size:
        low, high = xp.min(write_indices).item(), xp.max(write_indices).item()
        if not 0 <= low <= high <= size - count:
            raise InvalidArgument(
                f"{count} positions from {low if low < 0 else high} on are not all in a cache of {size}.",
                where=where,
                fix=f"Places must be in [0, {size - count}]; the mode 'circular' wraps.",
            )
    present = copied(xp, cache, out)
    if not update.size:
        return present
    if write_indices is None:
        present[(slice(None),) * along + (slice(count),)] = update
        return present
    targets = xp.remainder(write_indices.reshape((-1, 1)) + xp.arange(count), size)
    entries = xp.arange(batch).reshape((-1, 1))
    xp.moveaxis(present, along, 1)[entries, targets] = xp.moveaxis(update, along, 1)
    return present
