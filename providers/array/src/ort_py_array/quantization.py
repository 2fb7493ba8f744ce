"""QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear.

One scale for all, one per entry of an axis, or one per block along an axis. Products of quantised tensors are in
`quantized_matmul` and `quantized_convolution`, whose kernels are listed here with their family.
"""

from __future__ import annotations

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext, kernel
from ort_py.dtypes import DataType, numpy_dtype
from ort_py.errors import InvalidArgument
from ort_py_array.checks import normalized_axis
from ort_py_array.parts import LARGE_PART, by_parts
from ort_py_array.precision import rounded, widened
from ort_py_array.quantized_convolution import KERNELS as QUANTIZED_CONVOLUTION
from ort_py_array.quantized_matmul import KERNELS as QUANTIZED_MATMUL
from ort_py_array.saturation import SUB_BYTE, dynamic_range, integer_range, quantized, quantized_by_one

__all__ = ["KERNELS", "dequantize_linear", "dynamic_quantize_linear", "quantize_linear"]


def _laid_out(ctx: KernelContext, x: Array, scale: Array, parameter: Array, axis: int, block_size: int) -> Array:
    """A scale or zero point, shaped so that it broadcasts to `x`.

    Raises:
        InvalidArgument: It fits neither a tensor, nor the axis, nor the blocks along it.
    """
    xp = ctx.xp
    if parameter.size == 1 and (parameter.ndim == 0 or not block_size):
        return parameter.reshape(())
    axis = normalized_axis(axis, x.ndim, ctx.node.location)
    if block_size:
        blocks = -(-x.shape[axis] // block_size)
        wanted = (*x.shape[:axis], blocks, *x.shape[axis + 1 :])
        if tuple(parameter.shape) == wanted:
            return xp.repeat(parameter, block_size, axis)[(*(slice(None),) * axis, slice(0, x.shape[axis]))]
    else:
        wanted = (x.shape[axis],)
        if tuple(parameter.shape) == wanted:
            return parameter.reshape((-1,) + (1,) * (x.ndim - 1 - axis))
    raise InvalidArgument(
        f"A scale or zero point of shape {list(parameter.shape)} does not fit an input of shape {list(x.shape)} along "
        f"axis {axis}{f' in blocks of {block_size}' if block_size else ''}.",
        where=ctx.node.location,
        fix=f"Give it the shape {list(wanted)}.",
    )


@kernel("QuantizeLinear", since=10, until=28, out=True)
def quantize_linear(
    ctx: KernelContext,
    x: Array,
    scale: Array,
    zero_point: Array | None = None,
    *,
    axis: int = 1,
    saturate: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    out: Array | None = None,
) -> Array:
    """``saturate(round(x / scale) + zero_point)``, ties to even; the division is done in ``precision`` or x's type."""
    xp = ctx.xp
    dtype = zero_point.dtype if zero_point is not None else numpy_dtype(output_dtype or DataType.UINT8)
    divisor = _laid_out(ctx, x, scale, scale, axis, block_size)
    shift = None if zero_point is None else _laid_out(ctx, x, scale, zero_point, axis, block_size)
    if shift is not None and dtype.name in SUB_BYTE:
        shift = shift.astype(xp.int8)
    if x.size > LARGE_PART and not precision:
        made = xp.empty(x.shape, dtype) if out is None else out
        return _quantized_by_parts(ctx, x, divisor, shift, bool(saturate), made)
    if precision:
        kind = numpy_dtype(precision)
        ratio = widened(xp, (x.astype(kind) / divisor.astype(kind)).astype(kind))
    else:
        ratio = widened(xp, x) if x.dtype.kind != "i" else x.astype(xp.float32)
        divisor = divisor.astype(ratio.dtype)
        if divisor.ndim == 0 and dtype.name not in SUB_BYTE and integer_range(dtype) is not None:
            return quantized_by_one(ctx, ratio, divisor, shift, dtype, out)
        ratio = ratio / divisor
    if ratio.ndim == 0:
        ratio = xp.asarray(ratio)
    return rounded(quantized(xp, ratio, shift, dtype, bool(saturate)), dtype, out)


def _quantized_by_parts(
    ctx: KernelContext, x: Array, divisor: Array, shift: Array | None, saturate: bool, out: Array
) -> Array:
    xp = ctx.xp

    def step(target: Array, some: Array, divisors: Array, *shifts: Array) -> None:
        wide = widened(xp, some) if some.dtype.kind != "i" else some.astype(xp.float32)
        ratio = xp.divide(wide, divisors.astype(wide.dtype))
        target[...] = quantized(xp, ratio, shifts[0] if shifts else None, target.dtype, saturate)

    return by_parts(ctx, step, out, x, divisor, *(() if shift is None else (shift,)))


@kernel("DequantizeLinear", since=10, until=28, out=True)
def dequantize_linear(
    ctx: KernelContext,
    x: Array,
    scale: Array,
    zero_point: Array | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    out: Array | None = None,
) -> Array:
    """``(x - zero_point) · scale`` in the type of the scale (or ``output_dtype``)."""
    xp = ctx.xp
    dtype = numpy_dtype(output_dtype) if output_dtype else scale.dtype
    factor = _laid_out(ctx, x, scale, scale, axis, block_size)
    # Differences of 32-bit integers are exact in float64 only; those of all narrower types are in float32.
    if x.size > LARGE_PART:
        zero = None if zero_point is None else _laid_out(ctx, x, scale, zero_point, axis, block_size)
        return _dequantized_by_parts(ctx, x, factor, zero, xp.empty(x.shape, dtype) if out is None else out)
    wide = xp.float64 if x.dtype.kind in "iu" and x.dtype.itemsize > 2 and zero_point is not None else xp.float32
    if out is not None and out.dtype == wide:
        out[...] = x
        y = out
    else:
        y = xp.asarray(x.astype(wide))  # of a NumPy scalar it would be one too, which cannot be written to
    if zero_point is not None:
        xp.subtract(y, _laid_out(ctx, x, scale, zero_point, axis, block_size).astype(wide), y)
    y = y.astype(xp.float32, copy=False)
    xp.multiply(y, factor.astype(xp.float32), y)
    return rounded(y, dtype, out)


def _dequantized_by_parts(ctx: KernelContext, x: Array, factor: Array, zero: Array | None, out: Array) -> Array:
    xp = ctx.xp
    wide = xp.float64 if x.dtype.kind in "iu" and x.dtype.itemsize > 2 and zero is not None else xp.float32

    def step(target: Array, some: Array, factors: Array, *zeros: Array) -> None:
        y = some.astype(wide)
        if zeros:
            xp.subtract(y, zeros[0].astype(wide), y)
        rounded(xp.multiply(y.astype(xp.float32, copy=False), factors.astype(xp.float32)), target.dtype, target)

    return by_parts(ctx, step, out, x, factor, *(() if zero is None else (zero,)))


@kernel("DynamicQuantizeLinear", since=11, outputs=3, out=True)
def dynamic_quantize_linear(
    ctx: KernelContext, x: Array, *, out: tuple[Array, Array, Array] | None = None
) -> tuple[Array, Array, Array]:
    """Quantise to uint8 with the scale that just covers the values and 0; returns (y, scale, zero point)."""
    scale, zero_point = dynamic_range(ctx.xp, x)
    if out is not None:
        quantized_by_one(ctx, x, scale, zero_point, zero_point.dtype, out[0])
        out[1][...], out[2][...] = scale, zero_point
        return out
    return quantized_by_one(ctx, x, scale, zero_point, zero_point.dtype), scale, zero_point


KERNELS = [*QUANTIZED_MATMUL, *QUANTIZED_CONVOLUTION]
