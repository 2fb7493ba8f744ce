"""QuantizeLinear and DequantizeLinear of com.microsoft: ONNX's operators, with 4- and 16-bit integers and float16.

The library's `quantization` computes them; this module says how they differ. Without `axis` there is one scale for all.
"""

from __future__ import annotations

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext, kernel
from ort_py.errors import InvalidArgument
from ort_py_array import quantization

__all__ = ["dequantize_linear", "quantize_linear"]


def _check(ctx: KernelContext, scale: Array, zero_point: Array | None, axis: int | None) -> int:
    """The axis; 1 where none is given, as in onnxruntime.

    Raises:
        InvalidArgument: Scale and zero point differ in shape.
    """
    if zero_point is not None and zero_point.shape != scale.shape and (zero_point.size, scale.size) != (1, 1):
        raise InvalidArgument(
            f"The scale has shape {list(scale.shape)} and the zero point {list(zero_point.shape)}.",
            where=ctx.node.location,
            fix="Give both the same shape: one element, or one for each entry of the axis.",
        )
    return 1 if axis is None else axis


@kernel("QuantizeLinear", domain="com.microsoft", since=1)
def quantize_linear(
    ctx: KernelContext, x: Array, scale: Array, zero_point: Array | None = None, *, axis: int | None = None
) -> Array:
    """com.microsoft.QuantizeLinear 1: ``saturate(round(x / scale) + zero_point)``, ties to even; uint8 by default.

    `x` is float or float16, the result has the zero point's type. Without `axis` a scale of several elements lies along
    axis 1, as in onnxruntime. Raises InvalidArgument where shapes do not fit.
    """
    return quantization.quantize_linear(ctx, x, scale, zero_point, axis=_check(ctx, scale, zero_point, axis))


@kernel("DequantizeLinear", domain="com.microsoft", since=1)
def dequantize_linear(
    ctx: KernelContext, x: Array, scale: Array, zero_point: Array | None = None, *, axis: int | None = None
) -> Array:
    """com.microsoft.DequantizeLinear 1: ``(x - zero_point) · scale`` in the scale's type; see `quantize_linear`."""
    return quantization.dequantize_linear(ctx, x, scale, zero_point, axis=_check(ctx, scale, zero_point, axis))
