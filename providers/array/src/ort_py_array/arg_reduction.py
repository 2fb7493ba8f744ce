"""ArgMax and ArgMin: where the extreme element of an axis is, the first or the last of equals."""

from __future__ import annotations

from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext, kernel
from ort_py.errors import InvalidArgument
from ort_py_array.checks import normalized_axis


def _position(ctx: KernelContext, name: str, x: Array, axis: int, *, keepdims: int, select_last_index: int) -> Array:
    xp: Any = ctx.xp
    axis = normalized_axis(axis, x.ndim, ctx.node.location)
    size = x.shape[axis]
    if size == 0:
        raise InvalidArgument(
            f"{ctx.node.op_type} of an empty axis.",
            where=ctx.node.location,
            why=f"axis {axis} of shape {tuple(x.shape)} has no element that could be the extreme one",
            fix="Feed a tensor with at least one element along the axis.",
        )
    function = getattr(xp, name)
    if select_last_index:
        found = xp.subtract(size - 1, function(xp.flip(x, axis), axis=axis))
    else:
        found = function(x, axis=axis)
    if found.dtype != xp.int64:  # NumPy's index type is 32 bits wide on some platforms
        found = found.astype(xp.int64)
    return xp.expand_dims(found, axis) if keepdims else found


@kernel("ArgMax", since=1, until=13, strided=True)
def arg_max(ctx: KernelContext, x: Array, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Array:
    """ArgMax-1..13: int64 indices along `axis`; `select_last_index` exists from version 12."""
    return _position(ctx, "argmax", x, axis, keepdims=keepdims, select_last_index=select_last_index)


@kernel("ArgMin", since=1, until=13, strided=True)
def arg_min(ctx: KernelContext, x: Array, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Array:
    """ArgMin-1..13: int64 indices along `axis`; `select_last_index` exists from version 12."""
    return _position(ctx, "argmin", x, axis, keepdims=keepdims, select_last_index=select_last_index)
