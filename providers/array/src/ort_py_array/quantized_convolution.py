"""ConvInteger and QLinearConv: convolutions of 8-bit integers, exact.

They are float32 convolutions of the shifted values, over as many input channels at a time as float32 adds up exactly
(see `exact_products`); the parts are added up as int32.
"""

from __future__ import annotations

from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.errors import InvalidArgument
from ort_py_array.convolution import check_convolution, window_of
from ort_py_array.convolution_methods import convolve
from ort_py_array.exact_products import exact_depth, shifted
from ort_py_array.pictures import check_padded
from ort_py_array.saturation import quantized
from ort_py_array.windows import Placement

__all__ = ["KERNELS", "conv_integer", "qlinear_conv"]


def _per_filter(ctx: KernelContext, name: str, parameter: Array, filters: int, rank: int) -> Array:
    """A scalar, or one entry a filter along axis 0 of an array of rank `rank`."""
    if parameter.size == 1:
        return parameter.reshape(())
    if tuple(parameter.shape) != (filters,):
        raise InvalidArgument(
            f"{name} has shape {list(parameter.shape)}; it needs one entry, or one for each of the {filters} filters.",
            where=ctx.node.location,
        )
    return parameter.reshape((-1,) + (1,) * (rank - 1))


def _exact(
    ctx: KernelContext,
    x: Array,
    w: Array,
    x_zero: Array | None,
    w_zero: Array | None,
    place: Placement,
    group: int,
) -> Array:
    """The integer convolution as int32. Padding stands for the zero point, so shifting comes first."""
    xp = ctx.xp
    for name, zero in (("x_zero_point", x_zero),):
        if zero is not None and zero.size != 1:
            raise InvalidArgument(f"{name} has shape {list(zero.shape)} instead of one entry.", where=ctx.node.location)
    pixels, most = shifted(xp, x, None if x_zero is None else x_zero.reshape(()))
    filters = None if w_zero is None else _per_filter(ctx, "w_zero_point", w_zero, w.shape[0], w.ndim)
    weights, bound = shifted(xp, w, filters)
    shape = (x.shape[0], w.shape[0], *place.out)
    ctx.check_allocation(shape, xp.float32)
    check_padded(ctx, x, place)
    depth = exact_depth(most, bound)
    channels = w.shape[1]
    if channels * place.taps <= depth:
        return convolve(ctx, pixels, weights, None, place, group, xp.empty(shape, xp.float32)).astype(xp.int32)
    if group > 1 or place.taps > depth:
        wide = xp.empty(shape, xp.float64)
        pixels, weights = pixels.astype(xp.float64), weights.astype(xp.float64)
        return convolve(ctx, pixels, weights, None, place, group, wide).astype(xp.int32)
    some = depth // place.taps
    total = xp.zeros(shape, xp.int32)
    part = xp.empty(shape, xp.float32)
    for first in range(0, channels, some):
        chosen = slice(first, first + some)
        taken = xp.ascontiguousarray(pixels[:, chosen]), xp.ascontiguousarray(weights[:, chosen])
        total += convolve(ctx, *taken, None, place, 1, part).astype(xp.int32)
    return total


def conv_integer(ctx: KernelContext) -> KernelCallable:
    """ConvInteger 10: int8 or uint8 → int32."""
    window = window_of(ctx)
    group = int(ctx.node.attributes.get("group", 1))

    def run(x: Array, w: Array, x_zero: Array | None = None, w_zero: Array | None = None) -> Array:
        check_convolution(ctx.node.location, x, w, None, group)
        return _exact(ctx, x, w, x_zero, w_zero, window.placed(x.shape[2:], w.shape[2:]), group)

    return run


def qlinear_conv(ctx: KernelContext) -> KernelCallable:
    """QLinearConv 10: the exact integer convolution plus int32 bias, scaled, rounded half to even and saturated."""
    xp = ctx.xp
    window = window_of(ctx)
    group = int(ctx.node.attributes.get("group", 1))

    def run(
        x: Array,
        x_scale: Array,
        x_zero: Array,
        w: Array,
        w_scale: Array,
        w_zero: Array,
        y_scale: Array,
        y_zero: Array,
        bias: Array | None = None,
    ) -> Array:
        check_convolution(ctx.node.location, x, w, bias, group)
        total = _exact(ctx, x, w, x_zero, w_zero, window.placed(x.shape[2:], w.shape[2:]), group)
        if bias is not None:
            total += bias.reshape((-1,) + (1,) * (x.ndim - 2))
        factor: Any = (x_scale.reshape(()) * w_scale.reshape(-1)) / y_scale.reshape(())
        scales = _per_filter(ctx, "w_scale", factor, w.shape[0], x.ndim - 1)
        return quantized(xp, total.astype(xp.float32) * scales, y_zero.reshape(()), y_zero.dtype)

    return run


KERNELS = [
    KernelDef("ConvInteger", conv_integer, since=10, implementation="ort_py_array.quantized_convolution:conv_integer"),
    KernelDef("QLinearConv", qlinear_conv, since=10, implementation="ort_py_array.quantized_convolution:qlinear_conv"),
]
