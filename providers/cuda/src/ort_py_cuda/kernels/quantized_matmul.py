"""MatMulInteger, QLinearMatMul, DynamicQuantizeMatMul and MatMulIntegerToFloat: products of bytes on tensor cores.

The right operand is a matrix, as weights are. Batches of right operands, sums that would not fit 32 bits and scales
along the axis that is summed over are left to the array library. All results are exact up to the scaling in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef, tensors
from ort_py.dtypes import DataType
from ort_py_array.contrib.quantized_products import dynamic_quantize_matmul as library_dynamic
from ort_py_array.contrib.quantized_products import matmul_integer_to_float as library_to_float
from ort_py_array.matmul import matmul_shape
from ort_py_array.quantized_matmul import matmul_integer as library_integer
from ort_py_array.quantized_matmul import qlinear_matmul as library_qlinear
from ort_py_array.saturation import dynamic_range
from ort_py_cuda.kernels.byte_products import (
    DEEPEST,
    Parameter,
    columns_of,
    multiplied,
    per_column,
    per_row,
    results,
)

__all__ = ["KERNELS", "dynamic_quantize_matmul", "matmul_integer", "matmul_integer_to_float", "qlinear_matmul"]


class _Right:
    """The right operand of a node, made ready once where it is constant.

    Args:
        ctx: Context of the node.
        position: Of the operand among the inputs.
        prepare: Whether no other code needs its values.
    """

    def __init__(self, ctx: KernelContext, position: int, *, prepare: bool = True) -> None:
        self._xp = ctx.xp
        known = ctx.constant(position)
        self.foreign = known is not None and not _fits(known)
        self._ready: tuple[Array, Array] | None = None
        if known is not None and not self.foreign and prepare:
            xp = ctx.xp
            self._ready = ctx.packed((position,), "signed bytes by column", lambda b: columns_of(xp, b))

    def __call__(self, b: Array) -> tuple[Array, Array]:
        return columns_of(self._xp, b) if self._ready is None else self._ready


def _fits(b: Array) -> bool:
    return bool(b.ndim == 2 and 0 < b.shape[0] <= DEEPEST and b.shape[1])


def _or_library(
    ctx: KernelContext,
    library: Callable[[KernelContext], KernelCallable],
    position: int,
    ours: Callable[[_Right], Callable[..., Array | None]],
    *,
    prepare: bool = True,
) -> KernelCallable:
    """Ours; and the library's kernel where B does not fit, or for the calls for which ours gives None."""
    right = _Right(ctx, position, prepare=prepare)
    if right.foreign:
        return library(ctx)
    run = ours(right)
    bound: list[KernelCallable] = []

    def call(*inputs: Any) -> Array:
        y = run(*inputs) if _fits(inputs[position]) and inputs[0].size else None
        if y is not None:
            return y
        if not bound:
            bound.append(library(_Plain(ctx)))
        return bound[0](*inputs)

    return call


def matmul_integer(ctx: KernelContext) -> KernelCallable:
    """MatMulInteger 10: ``(a - a_zero_point) @ (b - b_zero_point)`` of int8 or uint8, as int32."""

    def ours(right: _Right) -> Callable[..., Array | None]:
        def run(a: Array, b: Array, a_zero: Array | None = None, b_zero: Array | None = None) -> Array:
            shape = matmul_shape(ctx, a, b)
            ctx.check_allocation(shape, ctx.xp.int32)
            zeros = per_row(ctx, a, a_zero), per_column(ctx, b.shape[1], b_zero)
            sums = multiplied(ctx, a, right(b), b.shape[1])
            return results(ctx, sums, shape, ctx.xp.int32, b.dtype.name, a_zero=zeros[0], b_zero=zeros[1])

        return run

    return _or_library(ctx, library_integer, 1, ours)


def qlinear_matmul(ctx: KernelContext) -> KernelCallable:
    """QLinearMatMul 10 and 21 of integers: the product, scaled, rounded half to even and saturated."""

    def ours(right: _Right) -> Callable[..., Array | None]:
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
            shape, wide = matmul_shape(ctx, a, b), ctx.xp.float32
            ctx.check_allocation(shape, wide)
            parameters: dict[str, Parameter] = {
                "a_zero": per_row(ctx, a, a_zero),
                "b_zero": per_column(ctx, b.shape[1], b_zero),
                "a_scale": per_row(ctx, a, a_scale, wide),
                "b_scale": per_column(ctx, b.shape[1], b_scale, wide),
                "y_scale": per_row(ctx, a, y_scale, wide),
                "y_zero": per_row(ctx, a, y_zero),
            }
            sums = multiplied(ctx, a, right(b), b.shape[1])
            return results(ctx, sums, shape, y_zero.dtype, b.dtype.name, **parameters)

        return run

    return _or_library(ctx, library_qlinear, 3, ours)


def dynamic_quantize_matmul(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.DynamicQuantizeMatMul 1: ``A @ B``, A quantised to uint8 with the scale that just fits.

    Nothing leaves the device: scale and zero point of A are read there.
    """

    def ours(right: _Right) -> Callable[..., Array | None]:
        def run(a: Array, b: Array, b_scale: Array, b_zero: Array | None = None, bias: Array | None = None) -> Array:
            shape, wide = matmul_shape(ctx, a, b), ctx.xp.float32
            ctx.check_allocation(shape, wide)
            columns = {
                "b_zero": per_column(ctx, b.shape[1], b_zero),
                "b_scale": per_column(ctx, b.shape[1], b_scale, wide),
            }
            bias = per_column(ctx, b.shape[1], bias).array
            scale, zero = dynamic_range(ctx.xp, a)
            sums = multiplied(ctx, a, right(b), b.shape[1], scale, zero)
            return results(
                ctx,
                sums,
                shape,
                wide,
                b.dtype.name,
                a_zero=Parameter(zero),
                a_scale=Parameter(scale),
                bias=_one_a_column(ctx, bias, b.shape[1]),
                **columns,
            )

        return run

    return _or_library(ctx, library_dynamic, 1, ours)


def _one_a_column(ctx: KernelContext, bias: Array | None, size: int) -> Array | None:
    if bias is None or bias.size == size:
        return bias
    return ctx.xp.ascontiguousarray(ctx.xp.broadcast_to(bias.reshape(-1), (size,)))


def matmul_integer_to_float(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.MatMulIntegerToFloat 1: ``(A - a_zero) · a_scale @ (B - b_zero) · b_scale + bias``.

    The scales' type is the result's, which is rounded once.
    """

    def ours(right: _Right) -> Callable[..., Array | None]:
        def run(
            a: Array,
            b: Array,
            a_scale: Array,
            b_scale: Array,
            a_zero: Array | None = None,
            b_zero: Array | None = None,
            bias: Array | None = None,
        ) -> Array | None:
            wide = ctx.xp.float32
            if a_scale.size > 1 or (a_zero is not None and a_zero.size > 1):
                return None
            shape = matmul_shape(ctx, a, b)
            ctx.check_allocation(shape, wide)
            parameters = {
                "a_zero": per_row(ctx, a, a_zero),
                "b_zero": per_column(ctx, b.shape[1], b_zero),
                "a_scale": per_row(ctx, a, a_scale, wide),
                "b_scale": per_column(ctx, b.shape[1], b_scale, wide),
            }
            bias = per_column(ctx, b.shape[1], bias, wide).array
            sums = multiplied(ctx, a, right(b), b.shape[1])
            y = results(ctx, sums, shape, wide, b.dtype.name, bias=_one_a_column(ctx, bias, b.shape[1]), **parameters)
            return y.astype(a_scale.dtype, copy=False)

        return run

    scale, zero = ctx.constant(2), ctx.constant(4)
    if any(one is not None and one.size > 1 for one in (scale, zero)):
        return library_to_float(ctx)
    certain = scale is not None and (zero is not None or _absent(ctx, 4))
    # Where a call may need the library's kernel, B has to keep its values: it is made ready in each call.
    return _or_library(ctx, library_to_float, 1, ours, prepare=certain)


def _absent(ctx: KernelContext, position: int) -> bool:
    inputs = ctx.node.inputs
    return position >= len(inputs) or inputs[position] is None


class _Plain(KernelContext):
    """A node's context that knows no constants, so that none is packed behind the plan's back."""

    __slots__ = ("_own",)

    def __init__(self, own: KernelContext) -> None:
        super().__init__(own.node, own.xp, own.device)
        self._own = own

    def constant(self, index: int) -> Array | None:
        return None

    def check_allocation(self, shape: Any, dtype: Any) -> None:
        self._own.check_allocation(shape, dtype)

    def parallel_for(self, rows: int, grain: int, fn: Callable[[int, int], None]) -> None:
        self._own.parallel_for(rows, grain, fn)

    def random_generator(self, seed: float | None) -> Any:
        return self._own.random_generator(seed)

    def subgraph(self, name: str) -> Any:
        return self._own.subgraph(name)


_BYTES = tensors(DataType.INT8, DataType.UINT8)
_CONTRIB = "com.microsoft"

KERNELS = [
    KernelDef(
        "MatMulInteger",
        matmul_integer,
        since=10,
        types={"T1": _BYTES, "T2": _BYTES},
        implementation=f"{__name__}:matmul_integer",
    ),
    KernelDef(
        "QLinearMatMul",
        qlinear_matmul,
        since=10,
        until=21,
        types={"T1": _BYTES, "T2": _BYTES, "T3": _BYTES},
        implementation=f"{__name__}:qlinear_matmul",
    ),
    KernelDef(
        "DynamicQuantizeMatMul",
        dynamic_quantize_matmul,
        domain=_CONTRIB,
        since=1,
        implementation=f"{__name__}:dynamic_quantize_matmul",
    ),
    KernelDef(
        "MatMulIntegerToFloat",
        matmul_integer_to_float,
        domain=_CONTRIB,
        since=1,
        implementation=f"{__name__}:matmul_integer_to_float",
    ),
]
