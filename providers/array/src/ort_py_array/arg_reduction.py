"""ArgMax and ArgMin: where the extreme element of an axis is, the first or the last of equals."""

from __future__ import annotations

from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.errors import InvalidArgument
from ort_py_array.checks import normalized_axis


def arg_max(ctx: KernelContext) -> KernelCallable:
    """ArgMax-1..13: int64 indices along `axis`; `select_last_index` exists from version 12.

    Raises:
        InvalidArgument: `axis` is out of range, or has no element.
    """
    return _position(ctx, "argmax")


def arg_min(ctx: KernelContext) -> KernelCallable:
    """ArgMin-1..13: int64 indices along `axis`; `select_last_index` exists from version 12.

    Raises:
        InvalidArgument: `axis` is out of range, or has no element.
    """
    return _position(ctx, "argmin")


def _position(ctx: KernelContext, name: str) -> KernelCallable:
    attributes, where, xp = ctx.node.attributes, ctx.node.location, ctx.xp
    given = attributes.get("axis", 0)
    keepdims, last = attributes.get("keepdims", 1) == 1, bool(attributes.get("select_last_index", 0))
    function: Any = getattr(xp, name)
    wanted = xp.dtype(xp.int64)

    def run(x: Array) -> Array:
        axis = normalized_axis(given, x.ndim, where)
        size = x.shape[axis]
        if size == 0:
            raise InvalidArgument(
                f"{ctx.node.op_type} of an empty axis.",
                where=where,
                why=f"axis {axis} of shape {tuple(x.shape)} has no element that could be the extreme one",
                fix="Feed a tensor with at least one element along the axis.",
            )
        found = xp.subtract(size - 1, function(xp.flip(x, axis), axis)) if last else function(x, axis)
        if found.dtype != wanted:  # NumPy's index type is 32 bits wide on some platforms
            found = found.astype(wanted)
        return found.reshape((*x.shape[:axis], 1, *x.shape[axis + 1 :])) if keepdims else found

    return run


KERNELS: list[KernelDef] = [
    KernelDef("ArgMax", arg_max, since=1, until=13, strided=True, implementation=f"{__name__}:arg_max"),
    KernelDef("ArgMin", arg_min, since=1, until=13, strided=True, implementation=f"{__name__}:arg_min"),
]
