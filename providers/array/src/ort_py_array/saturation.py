"""From floating point to a quantised type: round, shift, saturate; and the scale that just fits some values.

Comes before `quantization`, `quantized_matmul`, `quantized_convolution` and `contrib`. It is independent of axes.
"""

from __future__ import annotations

from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py.devices import HOST
from ort_py_array.parts import by_parts
from ort_py_array.precision import rounded

__all__ = [
    "SUB_BYTE",
    "centred",
    "centred_by_parts",
    "dynamic_range",
    "integer_range",
    "quantized",
    "quantized_by_one",
]

SUB_BYTE = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}

_LARGEST = {
    "float8_e4m3fn": 448.0,
    "float8_e4m3fnuz": 240.0,
    "float8_e5m2": 57344.0,
    "float8_e5m2fnuz": 57344.0,
    "float4_e2m1fn": 6.0,
    "float6_e2m3fn": 7.5,
    "float6_e3m2fn": 28.0,
}


_BLOCK = 262144
"""Elements of a block: smaller ones gain nothing, as starting the steps costs what the nearer cache saves."""


def integer_range(dtype: Any) -> tuple[int, int] | None:
    """(least, greatest) value of an integer dtype, sub-byte ones included; None for other types."""
    if dtype.name in SUB_BYTE:
        return SUB_BYTE[dtype.name]
    if dtype.kind not in "iu":
        return None
    bits = 8 * dtype.itemsize
    return (0, 2**bits - 1) if dtype.kind == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def quantized(xp: Any, ratio: Array, zero_point: Array | None, dtype: Any, saturate: bool = True) -> Array:
    """Round half to even, add the zero point, saturate, convert.

    Args:
        xp: Array module.
        ratio: Input over scale, in a floating-point type; may be overwritten.
        zero_point: Broadcasts to `ratio`; None is 0.
        dtype: Quantised type.
        saturate: For 8-bit floats: out-of-range values become the largest instead of NaN or infinity.
    """
    bounds = integer_range(dtype)
    if bounds is None:
        if zero_point is not None:
            ratio = ratio + zero_point.astype(ratio.dtype)
        if saturate and dtype.name in _LARGEST:
            ratio = xp.clip(ratio, -_LARGEST[dtype.name], _LARGEST[dtype.name])
        return ratio.astype(xp.float32).astype(dtype)
    if ratio.dtype == xp.float16:  # 65,504 is its largest value: 16-bit integers would not fit
        ratio = ratio.astype(xp.float32)
    xp.rint(ratio, out=ratio)
    if zero_point is not None:
        ratio += zero_point.astype(ratio.dtype)
    low, high = bounds
    xp.clip(ratio, low, high, out=ratio)
    if dtype.name in SUB_BYTE:
        return ratio.astype(xp.int8).astype(dtype)
    return ratio.astype(dtype)


def quantized_by_one(
    ctx: KernelContext, x: Array, scale: Array, zero_point: Array | None, dtype: Any, out: Array | None = None
) -> Array:
    """`quantized` of ``x / scale`` with one scale and zero point for all; large arrays block by block, on the pool.

    Args:
        ctx: Context of the node.
        x: float32 or float64.
        scale: Of the type of `x` and shape ``()``.
        zero_point: Of shape ``()``, or None.
        dtype: Quantised integer type of one byte or more.
        out: Array to put the result into; a new one where it is None.
    """
    xp = ctx.xp
    if x.size <= _BLOCK or ctx.device != HOST or not x.flags.c_contiguous:
        return rounded(quantized(xp, xp.asarray(xp.divide(x, scale)), zero_point, dtype), dtype, out)
    y = xp.empty(x.shape, dtype) if out is None else out
    flat_x, flat_y = x.reshape(-1), y.reshape(-1)

    def part(start: int, stop: int) -> None:
        for first in range(start, stop, _BLOCK):
            last = min(first + _BLOCK, stop)
            flat_y[first:last] = quantized(xp, xp.divide(flat_x[first:last], scale), zero_point, dtype)

    ctx.parallel_for(x.size, _BLOCK, part)
    return y


def dynamic_range(xp: Any, x: Array) -> tuple[Array, Array]:
    """float32 scale and uint8 zero point, of shape ``()``, that just cover `x` and 0; nothing leaves the device."""
    if not x.size:
        return xp.ones((), xp.float32), xp.zeros((), xp.uint8)
    low = xp.minimum(xp.min(x), xp.float32(0))
    high = xp.maximum(xp.max(x), xp.float32(0))
    scale = (high - low) / xp.float32(255)
    scale = xp.where(scale == 0, xp.float32(1), scale)
    zero_point = xp.clip(xp.rint(-low / scale), 0, 255)
    return xp.asarray(scale, dtype=xp.float32), xp.asarray(zero_point).astype(xp.uint8)


def centred(xp: Any, x: Array) -> tuple[Array, Array]:
    """The result of DynamicQuantizeLinear, less the zero point: (integers between -255 and 255 as float32, scale).

    Equal bit by bit, in half the steps. A scale below the normal numbers has few digits, so that the zero point may be
    cut to 255 as well. Steps that are not numbers, where the scale is no finite number, are 0: integers have no other
    value for them, and multiplied by the scale they are not numbers again.
    """
    if not x.size:
        return x, xp.float32(1)
    low = xp.minimum(x.min(), 0)
    scale = (xp.maximum(x.max(), 0) - low) / xp.float32(255)
    scale = scale + (scale == 0)  # 1 in the place of 0
    y = xp.divide(x, scale)
    xp.rint(y, out=y)
    least = xp.fmax(xp.fmin(xp.rint(low / scale), 0), xp.float32(-255))
    xp.fmax(y, least, out=y)
    xp.fmin(y, least + xp.float32(255), out=y)
    return y, scale


def centred_by_parts(ctx: KernelContext, x: Array) -> tuple[Array, Array]:
    """`centred` of large arrays."""
    xp = ctx.xp
    (least, _), scale = centred(xp, xp.stack((xp.minimum(x.min(), 0), x.max())))

    def step(out: Array, some: Array) -> None:
        xp.divide(some, scale, out)
        xp.rint(out, out=out)
        xp.fmax(out, least, out=out)
        xp.fmin(out, least + xp.float32(255), out=out)

    return by_parts(ctx, step, xp.empty(x.shape, xp.float32), x), scale
