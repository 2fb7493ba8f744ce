"""Softmax, LogSoftmax and Hardmax, along one axis (opset 13) or over the flattened rest of the shape (before).

Rows of a large contiguous array are split over the context's pool; each is read and written while it is in the cache.
Narrow floats are computed in float32, and every step of the operator's function body is rounded as that body says.
Comes after `pointwise`, whose blocks cannot look along an axis.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, TypeAlias

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.devices import HOST
from ort_py_array.checks import normalized_axis
from ort_py_array.precision import is_narrow

_ELEMENTS = 32768  # of a block of rows, as in `pointwise`

_LONG = 1 << 22
"""Elements from which on the clock is looked at between the passes over an array: there may be one row of them."""

_Formula: TypeAlias = Callable[[Any, Array, Array, int, Callable[[], None]], None]
"""``f(xp, x, out, axis, check)``; `out` may be `x`, and `check` is called between passes over the array."""


def _no_check() -> None:
    """Do nothing: the array is short."""


def _softmax(xp: Any, x: Array, out: Array, axis: int, check: Callable[[], None]) -> None:
    # Arrays' own methods, whose order of arguments NumPy and CuPy share, cost half of what the module's functions do.
    xp.subtract(x, x.max(axis, None, True), out)
    check()
    xp.exp(out, out)
    check()
    xp.divide(out, out.sum(axis, None, None, True), out)


def _log_softmax(xp: Any, x: Array, out: Array, axis: int, check: Callable[[], None]) -> None:
    xp.subtract(x, x.max(axis, None, True), out)
    check()
    total = xp.exp(out).sum(axis, None, None, True)
    check()
    xp.subtract(out, xp.log(total), out)


def _softmax_narrow(xp: Any, x: Array, out: Array, axis: int, check: Callable[[], None]) -> None:
    shifted = _shifted(xp, x, axis, check)
    check()
    powers = xp.exp(shifted, shifted).astype(x.dtype).astype(xp.float32)
    check()
    total = powers.sum(axis, None, None, True).astype(x.dtype).astype(xp.float32)
    out[...] = xp.divide(powers, total, powers)


def _log_softmax_narrow(xp: Any, x: Array, out: Array, axis: int, check: Callable[[], None]) -> None:
    shifted = _shifted(xp, x, axis, check)
    check()
    powers = xp.exp(shifted).astype(x.dtype)
    check()
    total = powers.astype(xp.float32).sum(axis, None, None, True)
    check()
    total = total.astype(x.dtype).astype(xp.float32)
    total = xp.log(total, total).astype(x.dtype).astype(xp.float32)
    out[...] = xp.subtract(shifted, total, shifted)


def _shifted(xp: Any, x: Array, axis: int, check: Callable[[], None]) -> Array:
    wide = x.astype(xp.float32)
    check()
    return xp.subtract(wide, wide.max(axis, None, True), wide).astype(x.dtype).astype(xp.float32)


def _hardmax(xp: Any, x: Array, out: Array, axis: int, check: Callable[[], None]) -> None:
    # `out` may be `x`, so the places come first.
    places = xp.expand_dims(xp.argmax(x, axis=axis), axis)
    check()
    out[...] = 0
    xp.put_along_axis(out, places, 1, axis)


_NARROW: dict[_Formula, _Formula] = {_softmax: _softmax_narrow, _log_softmax: _log_softmax_narrow}
"""What is done with float16 and bfloat16."""


def _evaluate(ctx: KernelContext, formula: _Formula, x: Array, out: Array, axis: int) -> None:
    xp = ctx.xp
    if x.size == 0:
        return
    if is_narrow(x.dtype):
        formula = _NARROW.get(formula, formula)
    check = ctx.check_time if x.size >= _LONG else _no_check
    by_rows = axis == x.ndim - 1 and x.flags.c_contiguous and out.flags.c_contiguous and ctx.device == HOST
    if x.size <= _ELEMENTS or not by_rows:
        formula(xp, x, out, axis, check)
        return
    row = x.shape[axis]
    rows_x, rows_out = x.reshape((-1, row)), out.reshape((-1, row))
    step = max(1, _ELEMENTS // row)

    def part(start: int, stop: int) -> None:
        for first in range(start, stop, step):
            last = min(first + step, stop)
            formula(xp, rows_x[first:last], rows_out[first:last], 1, check)

    ctx.parallel_for(x.size // row, step, part)


def along_axis(formula: _Formula, ctx: KernelContext) -> KernelCallable:
    """Version 13: along `axis`, by default the last."""
    xp, where = ctx.xp, ctx.node.location
    axis = ctx.node.attributes.get("axis", -1)

    def run(x: Array, out: Array | None = None) -> Array:
        if out is None:
            out = xp.empty(x.shape, x.dtype)
        if x.ndim == 0:  # a scalar is one row of one element
            _evaluate(ctx, formula, x.reshape((1,)), out.reshape((1,)), 0)
        else:
            _evaluate(ctx, formula, x, out, normalized_axis(axis, x.ndim, where))
        return out

    return run


def flattened(formula: _Formula, ctx: KernelContext) -> KernelCallable:
    """Versions 1 and 11: the axes from `axis` on, by default from 1, are one."""
    xp, where = ctx.xp, ctx.node.location
    axis = ctx.node.attributes.get("axis", 1)

    def run(x: Array, out: Array | None = None) -> Array:
        first = normalized_axis(axis, x.ndim, where, inclusive=True)
        matrix = x.reshape((prod(x.shape[:first]), prod(x.shape[first:])))
        if out is None:
            out = xp.empty(x.shape, x.dtype)
        _evaluate(ctx, formula, matrix, out.reshape(matrix.shape), 1)
        return out

    return run


def _definitions(op_type: str, formula: _Formula) -> list[KernelDef]:
    def modern(ctx: KernelContext) -> KernelCallable:
        return along_axis(formula, ctx)

    def older(ctx: KernelContext) -> KernelCallable:
        return flattened(formula, ctx)

    name = f"{__name__}:{formula.__name__.lstrip('_')}"
    shared: dict[str, Any] = {"out": True, "inplace": ((0, 0),), "strided": True}
    return [
        KernelDef(op_type, modern, since=13, implementation=name, **shared),
        KernelDef(op_type, older, since=1, until=11, implementation=f"{name} (flattened)", **shared),
    ]


KERNELS: list[KernelDef] = [
    *_definitions("Softmax", _softmax),
    *_definitions("LogSoftmax", _log_softmax),
    *_definitions("Hardmax", _hardmax),
]
