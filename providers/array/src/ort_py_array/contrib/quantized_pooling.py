"""8-bit pools of com.microsoft: QLinearAveragePool, QLinearGlobalAveragePool and NhwcMaxPool.

Sums of 8-bit integers are exact, so a mean is rounded only where it is quantised. With channels last, the channels are
one more spatial axis under a kernel of size 1, and nothing is transposed. Comes after `pooling`.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef, kernel
from ort_py.errors import InvalidArgument
from ort_py_array.contrib.quantized_parameters import single, zero_or
from ort_py_array.convolution import window_of
from ort_py_array.pictures import check_padded
from ort_py_array.pooling import averaged_over, pool
from ort_py_array.saturation import integer_range, quantized
from ort_py_array.windows import Placement, Placements

__all__ = ["KERNELS", "nhwc_max_pool", "qlinear_average_pool", "qlinear_global_average_pool"]


def _checked(ctx: KernelContext, x: Array) -> None:
    if x.ndim < 3:
        raise InvalidArgument(
            f"The input has shape {list(x.shape)}; pooling needs batch, channel and at least one spatial axis.",
            where=ctx.node.location,
            fix="Feed a tensor of rank 3 or more.",
        )


def _placed(ctx: KernelContext, window: Placements, x: Array, channels_last: bool) -> tuple[Array, Placement]:
    """`x` with batch and channel axes in front and the window over the others.

    With channels last, ``(n, 1, *size, c)`` and a window that covers one channel at a time.
    """
    _checked(ctx, x)
    if not channels_last:
        return x, window.placed(tuple(x.shape[2:]))
    place = window.placed(tuple(x.shape[1:-1]))
    c = x.shape[-1]
    wider = replace(
        place,
        size=(*place.size, c),
        kernel=(*place.kernel, 1),
        strides=(*place.strides, 1),
        dilations=(*place.dilations, 1),
        begin=(*place.begin, 0),
        end=(*place.end, 0),
        out=(*place.out, c),
    )
    return x.reshape(x.shape[0], 1, *x.shape[1:]), wider


def qlinear_average_pool(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.QLinearAveragePool 1, int8 and uint8: ``quantize(mean(dequantize(X)))`` of each window.

    Inputs X, x_scale, x_zero_point, y_scale, y_zero_point. With ``count_include_pad`` padding counts as zeros, and
    every window as the whole kernel (in ceil mode too, as in onnxruntime). The zero point is added before the result
    is rounded, half to even. Raises InvalidArgument where the window or a parameter does not fit.
    """
    xp = ctx.xp
    window = window_of(ctx)
    channels_last = bool(ctx.node.attributes.get("channels_last", 0))
    with_padding = bool(ctx.node.attributes.get("count_include_pad", 0))

    def run(x: Array, x_scale: Array, x_zero: Array | None, y_scale: Array, y_zero: Array | None = None) -> Array:
        pictures, place = _placed(ctx, window, x, channels_last)
        shape = (*pictures.shape[:2], *place.out)
        ctx.check_allocation(shape, xp.float32)
        check_padded(ctx, pictures, place)
        # Each step is rounded to float32, as onnxruntime does it: which results are ties depends on that.
        wide = xp.float32 if place.taps < 1 << 10 else xp.float64
        values = pictures.astype(wide)
        if x_zero is not None:
            values -= single(ctx, 2, x_zero).astype(wide)
        values *= single(ctx, 1, x_scale)
        total = pool(ctx, values, place, 0, xp.add)
        counts = place.taps if with_padding else averaged_over(xp, place, False, wide)
        total /= counts
        total /= single(ctx, 3, y_scale)
        total += zero_or(ctx, 4, y_zero, x.dtype).astype(wide)
        y = quantized(xp, total, None, x.dtype)
        return y.reshape(y.shape[0], *y.shape[2:]) if channels_last else y

    return run


@kernel("QLinearGlobalAveragePool", domain="com.microsoft", since=1)
def qlinear_global_average_pool(
    ctx: KernelContext,
    x: Array,
    x_scale: Array,
    x_zero: Array,
    y_scale: Array,
    y_zero: Array,
    *,
    channels_last: int = 0,
) -> Array:
    """com.microsoft.QLinearGlobalAveragePool 1: the mean over all spatial axes, which stay with size 1.

    int8 and uint8; rounded half to even before the zero point is added. Raises InvalidArgument for less than three axes
    or parameters of more than one element.
    """
    xp = ctx.xp
    _checked(ctx, x)
    axes = tuple(range(1, x.ndim - 1)) if channels_last else tuple(range(2, x.ndim))
    count = prod(x.shape[axis] for axis in axes)
    total = xp.sum(x, axis=axes, keepdims=True, dtype=xp.int64)
    total -= single(ctx, 2, x_zero).astype(xp.int64) * count
    scale = single(ctx, 1, x_scale) / (single(ctx, 3, y_scale) * xp.float32(count))
    return quantized(xp, total.astype(xp.float32) * scale, single(ctx, 4, y_zero), x.dtype)


def nhwc_max_pool(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.NhwcMaxPool 1: the maximum of each window of ``(n, *size, c)``, int8 and uint8."""
    xp = ctx.xp
    window = window_of(ctx)

    def run(x: Array) -> Array:
        pictures, place = _placed(ctx, window, x, True)
        ctx.check_allocation((x.shape[0], *place.out), x.dtype)
        check_padded(ctx, pictures, place)
        bounds = integer_range(x.dtype)
        assert bounds is not None
        y = pool(ctx, pictures, place, bounds[0], xp.maximum)
        return y.reshape(x.shape[0], *place.out)

    return run


KERNELS = [
    KernelDef(
        name,
        factory,
        domain="com.microsoft",
        since=1,
        implementation=f"ort_py_array.contrib.quantized_pooling:{factory.__name__}",
    )
    for name, factory in (("QLinearAveragePool", qlinear_average_pool), ("NhwcMaxPool", nhwc_max_pool))
]
