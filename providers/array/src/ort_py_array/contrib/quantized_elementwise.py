"""QLinearAdd and QLinearMul of com.microsoft: arithmetic on 8-bit tensors, scaled back to 8 bits.

Computed in float32 over blocks that stay in the cache. Where a result lies within float32's rounding of the middle
between two integers, onnxruntime's own result depends on the processor (with or without fused multiply-add) and on
which operand is the scalar; everywhere else the integers are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.devices import HOST
from ort_py_array.broadcasting import broadcast_shape
from ort_py_array.contrib.quantized_parameters import constants, single, zero_or
from ort_py_array.saturation import integer_range

__all__ = ["KERNELS", "qlinear_add", "qlinear_mul"]

_BLOCK = 32768
"""Elements a step works on at once: two float32 scratch arrays of this size stay in a core's second-level cache."""

_PARAMETERS = (1, 2, 4, 5, 6, 7)
"""Inputs that are scales and zero points, of A, B and C in turn."""


_Step = Callable[[Array, Array, Array], None]
"""``f(a, b, out)`` for one block: broadcasts a and b, and writes the quantised result."""


def _add(xp: Any, parameters: Sequence[Array], a: Array, b: Array, out: Array) -> None:
    """``(A_scale · (A - A_zero) + B_scale · (B - B_zero)) / C_scale + C_zero``, rounded half to even."""
    a_scale, a_zero, b_scale, b_zero, c_scale, c_zero = parameters
    left, right = _shifted(xp, a, a_zero), _shifted(xp, b, b_zero)
    xp.multiply(left, a_scale / c_scale, out=left)
    xp.multiply(right, b_scale / c_scale, out=right)
    room = _room(xp, out, left, right)
    _saturated(xp, xp.add(left, right, out=room), c_zero, out)


def _mul(xp: Any, parameters: Sequence[Array], a: Array, b: Array, out: Array) -> None:
    """``(A - A_zero) · (B - B_zero) · (A_scale · B_scale / C_scale) + C_zero``, rounded half to even."""
    a_scale, a_zero, b_scale, b_zero, c_scale, c_zero = parameters
    left, right = _shifted(xp, a, a_zero), _shifted(xp, b, b_zero)
    room = xp.multiply(left, right, out=_room(xp, out, left, right))
    xp.multiply(room, a_scale * b_scale / c_scale, out=room)
    _saturated(xp, room, c_zero, out)


def _shifted(xp: Any, x: Array, zero: Array) -> Array:
    value = x.astype(xp.float32)
    return xp.subtract(value, zero, out=value)


def _room(xp: Any, out: Array, left: Array, right: Array) -> Array:
    """A float32 array of the result's shape: one that is there already, if it can be."""
    if left.shape == out.shape:
        return left
    return right if right.shape == out.shape else xp.empty(out.shape, xp.float32)


def _saturated(xp: Any, value: Array, zero: Array, out: Array) -> None:
    """Unlike QuantizeLinear, these operators add the zero point before they round."""
    bounds = integer_range(out.dtype)
    assert bounds is not None
    xp.add(value, zero, out=value)
    xp.rint(value, out=value)
    xp.clip(value, *bounds, out=value)
    out[...] = value


def _binary(formula: Callable[..., None], ctx: KernelContext) -> KernelCallable:
    xp = ctx.xp

    def prepared(given: Sequence[Array | None], dtype: Any) -> list[Array]:
        found = []
        for index, value in zip(_PARAMETERS, given, strict=True):
            one = zero_or(ctx, index, value, dtype) if index in (2, 5, 7) else single(ctx, index, _present(value))
            found.append(one.astype(xp.float32))
        return found

    known = constants(ctx, _PARAMETERS)
    ready = None if known is None else partial(formula, xp, prepared(known, xp.uint8))

    def run(
        a: Array,
        a_scale: Array,
        a_zero: Array | None,
        b: Array,
        b_scale: Array,
        b_zero: Array | None,
        c_scale: Array,
        c_zero: Array | None = None,
    ) -> Array:
        step: _Step = ready or partial(
            formula, xp, prepared((a_scale, a_zero, b_scale, b_zero, c_scale, c_zero), a.dtype)
        )
        out = xp.empty(broadcast_shape(a, b), a.dtype)
        _in_blocks(ctx, step, a, b, out)
        return out

    return run


def _present(value: Array | None) -> Array:
    assert value is not None  # the engine checks that required inputs are there
    return value


def _in_blocks(ctx: KernelContext, step: _Step, a: Array, b: Array, out: Array) -> None:
    # NumPy's ufuncs make scalars of tensors without axes, which no later step could write to.
    a, b, out = (x if x.ndim else x.reshape(1) for x in (a, b, out))
    if out.size <= _BLOCK or ctx.device != HOST:
        step(a, b, out)
        return
    if all(x.size in (1, out.size) for x in (a, b)):
        a, b, rows = a.reshape(-1), b.reshape(-1), out.reshape(-1)
    else:
        axis = next(axis for axis, size in enumerate(out.shape) if size > 1)
        rows = out.reshape(out.shape[axis:])
        a, b = (x.reshape(x.shape[max(0, x.ndim - rows.ndim) :]) for x in (a, b))
    some = max(1, _BLOCK // (rows.size // rows.shape[0]))

    def part(start: int, stop: int) -> None:
        for first in range(start, stop, some):
            chosen = slice(first, min(first + some, stop))
            step(_rows(a, rows.ndim, chosen), _rows(b, rows.ndim, chosen), rows[chosen])

    ctx.parallel_for(rows.shape[0], some, part)


def _rows(x: Array, rank: int, chosen: slice) -> Array:
    """The part of an operand that meets these rows of the result."""
    return x if x.ndim < rank or x.shape[0] == 1 else x[chosen]


def _shape(a: Array, _a_scale: Array, _a_zero: Array | None, b: Array, *_others: Array | None) -> tuple[int, ...]:
    return broadcast_shape(a, b)


qlinear_add = partial(_binary, _add)
"""com.microsoft.QLinearAdd 1, int8 and uint8. Inputs A, A_scale, A_zero_point, B, B_scale, B_zero_point, C_scale,
C_zero_point; scales and zero points have one element. Raises InvalidArgument where they have not."""

qlinear_mul = partial(_binary, _mul)
"""com.microsoft.QLinearMul 1, as `qlinear_add`."""

KERNELS = [
    KernelDef(
        name,
        factory,
        domain="com.microsoft",
        since=1,
        output_shape=_shape,
        implementation=f"ort_py_array.contrib.quantized_elementwise:{function}",
    )
    for name, factory, function in (
        ("QLinearAdd", qlinear_add, "qlinear_add"),
        ("QLinearMul", qlinear_mul, "qlinear_mul"),
    )
]
