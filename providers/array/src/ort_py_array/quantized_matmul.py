"""MatMulInteger and QLinearMatMul: products of 8-bit integers, exact, and of 8-bit floats, in float32.

Weights that are known when the session is planned are shifted by their zero point once. See `exact_products` for why
floating-point GEMM gives exact results here.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.errors import InvalidArgument
from ort_py_array.checks import LARGE
from ort_py_array.exact_products import exact_depth, exact_matmul, known_depth, shifted
from ort_py_array.matmul import matmul_shape
from ort_py_array.parts import by_parts, converted
from ort_py_array.products import product
from ort_py_array.saturation import quantized

__all__ = ["KERNELS", "matmul_integer", "qlinear_matmul"]


def _left_zero(ctx: KernelContext, a: Array, zero_point: Array | None) -> Array | None:
    """A zero point of the left operand: a scalar, one per row, or the shape the specification gives batches."""
    return _zero(ctx, "first", zero_point, a.shape[-2] if a.ndim > 1 else 1, axis=-1)


def _right_zero(ctx: KernelContext, b: Array, zero_point: Array | None) -> Array | None:
    return _zero(ctx, "second", zero_point, b.shape[-1] if b.ndim > 1 else 1, axis=-2)


def _zero(ctx: KernelContext, which: str, zero_point: Array | None, length: int, axis: int) -> Array | None:
    if zero_point is None or zero_point.size == 1:
        return None if zero_point is None else zero_point.reshape(())
    if zero_point.ndim == 1 and zero_point.size == length:
        return zero_point[:, None] if axis == -1 else zero_point
    if zero_point.ndim > 1 and zero_point.shape[axis] == 1:
        return zero_point
    raise InvalidArgument(
        f"The {which} operand's scale or zero point has shape {list(zero_point.shape)}; "
        f"it needs 1 or {length} entries.",
        where=ctx.node.location,
        fix="Give it one entry, one for each row of A or column of B, or a batch of those.",
    )


def _prepared_right(ctx: KernelContext, data: int, zero: int, present: bool) -> tuple[Array, int] | None:
    """(the right operand, shifted; how deep products with it are exact) where both are known at planning."""
    xp = ctx.xp

    def make(b: Array, zero_point: Array | None = None) -> tuple[Array, int]:
        values, _ = shifted(ctx, b, _right_zero(ctx, b, zero_point))
        return values, known_depth(xp, values) if _is_integer(b) else 1

    return ctx.packed((data,), "8 bits less zero point", make, (zero,) if present else ())


def _ask_for(ctx: KernelContext, *factors: Array) -> None:
    """Announce the wider copies of large factors."""
    for one in factors:
        if one.size > LARGE:
            ctx.check_allocation(one.shape, ctx.xp.float32)


def _is_integer(x: Array) -> bool:
    return x.dtype.kind in "iu"


def matmul_integer(ctx: KernelContext) -> KernelCallable:
    """MatMulInteger 10: ``(a - a_zero_point) @ (b - b_zero_point)`` of int8 or uint8, as int32."""
    xp, multiply = ctx.xp, partial(product, ctx)
    inputs = ctx.node.inputs
    prepared = _prepared_right(ctx, 1, 3, len(inputs) > 3 and inputs[3] is not None)

    def run(a: Array, b: Array, a_zero: Array | None = None, b_zero: Array | None = None) -> Array:
        ctx.check_allocation(matmul_shape(ctx, a, b), xp.int32)
        _ask_for(ctx, a, *(() if prepared is not None else (b,)))
        left, bound = shifted(ctx, a, _left_zero(ctx, a, a_zero))
        if prepared is not None:
            return exact_matmul(ctx, left, *prepared, multiply)
        right, most = shifted(ctx, b, _right_zero(ctx, b, b_zero))
        return exact_matmul(ctx, left, right, exact_depth(bound, most), multiply)

    return run


def qlinear_matmul(ctx: KernelContext) -> KernelCallable:
    """QLinearMatMul 10 and 21: the product, scaled, rounded half to even and saturated.

    The product of integers is exact; that of 8-bit floats (version 21) is a float32 product, rounded to the type of
    y_zero_point once. Scales are float, float16 or bfloat16.
    """
    xp, multiply = ctx.xp, partial(product, ctx)
    prepared = _prepared_right(ctx, 3, 5, True)

    def run(
        a: Array,
        a_scale: Array,
        a_zero: Array,
        b: Array,
        b_scale: Array,
        b_zero: Array,
        y_scale: Array,
        y_zero: Array,
    ) -> Array:
        ctx.check_allocation(matmul_shape(ctx, a, b), xp.float32)
        _ask_for(ctx, a, *(() if prepared is not None else (b,)))
        left, bound = shifted(ctx, a, _left_zero(ctx, a, a_zero))
        if prepared is not None:
            right, depth = prepared
        else:
            right, most = shifted(ctx, b, _right_zero(ctx, b, b_zero))
            depth = exact_depth(bound, most)
        if _is_integer(a) and _is_integer(b):
            scaled = converted(ctx, exact_matmul(ctx, left, right, depth, multiply), xp.float32)
        else:
            scaled = multiply(left, right)
        factor = _as_float(xp, _left_zero(ctx, a, a_scale)) * _as_float(xp, _right_zero(ctx, b, b_scale))
        return _requantized(
            ctx, scaled, factor / _as_float(xp, _left_zero(ctx, a, y_scale)), _left_zero(ctx, a, y_zero)
        )

    return run


def _requantized(ctx: KernelContext, scaled: Array, factor: Array, zero_point: Array | None) -> Array:
    xp = ctx.xp
    assert zero_point is not None

    def step(out: Array, some: Array, factors: Array, zeros: Array) -> None:
        out[...] = quantized(xp, xp.asarray(some * factors), zeros, out.dtype)

    out = xp.empty(scaled.shape, zero_point.dtype)
    return by_parts(ctx, step, out, scaled, xp.asarray(factor), zero_point)


def _as_float(xp: Any, scale: Array | None) -> Array:
    assert scale is not None
    return scale.astype(xp.float32)


KERNELS = [
    KernelDef("MatMulInteger", matmul_integer, since=10, implementation="ort_py_array.quantized_matmul:matmul_integer"),
    KernelDef(
        "QLinearMatMul",
        qlinear_matmul,
        since=10,
        until=21,
        implementation="ort_py_array.quantized_matmul:qlinear_matmul",
    ),
]
