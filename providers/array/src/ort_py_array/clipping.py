"""Clip: between two bounds that are attributes, inputs, or missing.

Constant bounds become scalars of the right type when the node is bound. Where min is above max, all elements are max.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py_array.checks import constant_input, shape_error
from ort_py_array.pointwise import blocked

_FLOAT32_MAX = 3.4028234663852886e38


_LARGE = 2048
"""Elements from which on one `clip` is faster than `maximum` and `minimum`, as in `activation`."""


def _clip_into(xp: Any, low: Any, high: Any, x: Array, out: Array) -> None:
    if x.size >= _LARGE and low is not None and high is not None:
        xp.clip(x, low, high, out=out)
        return
    if low is not None:
        xp.maximum(x, low, out=out)
        x = out
    if high is not None:
        xp.minimum(x, high, out=out)
    elif low is None:
        out[...] = x


def clip(ctx: KernelContext) -> KernelCallable:
    """Clip-11..13: optional scalar inputs min and max; NaN stays NaN.

    Raises:
        InvalidArgument: A bound is not one number.
    """
    xp = ctx.xp
    bounds = []
    for index in (1, 2):
        present = index < len(ctx.node.inputs) and ctx.node.inputs[index] is not None
        known = constant_input(ctx, index)
        bounds.append((present, None if known is None else xp.asarray(_scalar(ctx, known))))
    count = len(bounds) if bounds[1][0] else 1 if bounds[0][0] else 0  # absent inputs at the end are not passed
    if all(not present or known is not None for present, known in bounds):
        run_known = _known_bounds(ctx, bounds[0][1], bounds[1][1])
        return lambda x, *rest: run_known(x, *rest[count:])

    def run(x: Array, *rest: Array | None) -> Array:
        out = rest[count] if len(rest) > count else xp.empty(x.shape, x.dtype)
        low, high = (None if bound is None else _scalar(ctx, bound) for bound in (*rest[:count], None, None)[:2])
        _clip_into(xp, low, high, x, out)
        return out

    return run


def _scalar(ctx: KernelContext, bound: Array) -> Array:
    """A bound without axes."""
    if bound.size != 1:
        raise shape_error("A bound of Clip is not one number.", ctx.node.location, [bound.shape])
    return bound.reshape(())


def _known_bounds(ctx: KernelContext, low: Any, high: Any) -> KernelCallable:
    return blocked(ctx, partial(_clip_into, ctx.xp, low, high))


def clip_6(ctx: KernelContext) -> KernelCallable:
    """Clip-1..6: attributes min and max; from 6 on they default to float32's finite limits, in 1 to none."""
    modern = ctx.node.since_version >= 6
    low = ctx.node.attributes.get("min", -_FLOAT32_MAX if modern else None)
    high = ctx.node.attributes.get("max", _FLOAT32_MAX if modern else None)
    return _known_bounds(ctx, low, high)


_SHARED: dict[str, Any] = {"out": True, "inplace": ((0, 0),), "strided": True}

KERNELS: list[KernelDef] = [
    KernelDef("Clip", clip, since=11, until=13, implementation=f"{__name__}:clip", **_SHARED),
    KernelDef("Clip", clip_6, since=1, until=6, implementation=f"{__name__}:clip_6", **_SHARED),
]
