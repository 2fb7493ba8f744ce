"""ConvInteger and QLinearConv: convolutions of 8-bit integers, exact.

They are float32 convolutions of the shifted values, over as many input channels at a time as float32 adds up exactly
(see `exact_products`); the parts are added up as int32. Weights that are known when the session is planned are shifted
once, and are seldom so large that channels have to be taken in parts.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.errors import InvalidArgument
from ort_py_array.convolution import check_convolution, window_of
from ort_py_array.convolution_methods import convolve
from ort_py_array.exact_products import exact_depth, known_depth, shifted
from ort_py_array.parts import by_parts, converted
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
            fix=f"Give it the shape [] or {[filters]}.",
        )
    return parameter.reshape((-1,) + (1,) * (rank - 1))


class _Filters:
    """The weights, shifted by their zero points: once, where both are known when the node is bound."""

    def __init__(self, ctx: KernelContext, data: int, zero: int) -> None:
        self._ctx = ctx
        self._ready = ctx.packed((data,), "8-bit filters less zero point", self._known, (zero,))

    def _known(self, w: Array, zero: Array | None) -> tuple[Array, int]:
        weights, depth = self._shifted(w, zero)
        if not w.size:
            return weights, depth
        flat = weights.reshape(w.shape[0], -1)
        return weights, flat.shape[1] if known_depth(self._ctx.xp, flat.T) >= flat.shape[1] else depth

    def __call__(self, w: Array, zero: Array | None) -> tuple[Array, int]:
        """(float32 weights, how many products of 8-bit integers with them are added up exactly)."""
        return self._ready if self._ready is not None else self._shifted(w, zero)

    def _shifted(self, w: Array, zero: Array | None) -> tuple[Array, int]:
        filters = None if zero is None else _per_filter(self._ctx, "w_zero_point", zero, w.shape[0], w.ndim)
        weights, bound = shifted(self._ctx, w, filters)
        return weights, exact_depth(255, bound)


def _exact(
    ctx: KernelContext,
    x: Array,
    x_zero: Array | None,
    filters: tuple[Array, int],
    place: Placement,
    group: int,
) -> Array:
    """The integer convolution as int32. Padding stands for the zero point, so shifting comes first."""
    xp = ctx.xp
    if x_zero is not None and x_zero.size != 1:
        raise InvalidArgument(
            f"x_zero_point has shape {list(x_zero.shape)} instead of one entry.",
            where=ctx.node.location,
            fix="The input has one scale and one zero point for all channels.",
        )
    weights, depth = filters
    pixels, _ = shifted(ctx, x, None if x_zero is None else x_zero.reshape(()))
    shape = (x.shape[0], weights.shape[0], *place.out)
    ctx.check_allocation(shape, xp.float32)
    check_padded(ctx, x, place)
    channels = weights.shape[1]
    as_integers = partial(converted, ctx, dtype=xp.int32)
    if channels * place.taps <= depth:
        return as_integers(convolve(ctx, pixels, weights, None, place, group, xp.empty(shape, xp.float32)))
    if group > 1 or place.taps > depth:
        wide = xp.empty(shape, xp.float64)
        pixels, weights = converted(ctx, pixels, xp.float64), weights.astype(xp.float64)
        return as_integers(convolve(ctx, pixels, weights, None, place, group, wide))
    some = depth // place.taps
    total = xp.zeros(shape, xp.int32)
    part = xp.empty(shape, xp.float32)
    for first in range(0, channels, some):
        chosen = slice(first, first + some)
        taken = xp.ascontiguousarray(pixels[:, chosen]), xp.ascontiguousarray(weights[:, chosen])
        ctx.check_time()
        total += as_integers(convolve(ctx, *taken, None, place, 1, part))
    return total


def conv_integer(ctx: KernelContext) -> KernelCallable:
    """ConvInteger 10: int8 or uint8 → int32."""
    window = window_of(ctx)
    group = int(ctx.node.attributes.get("group", 1))
    filters = _Filters(ctx, 1, 3)

    def run(x: Array, w: Array, x_zero: Array | None = None, w_zero: Array | None = None) -> Array:
        check_convolution(ctx.node.location, x, w, None, group)
        return _exact(ctx, x, x_zero, filters(w, w_zero), window.placed(x.shape[2:], w.shape[2:]), group)

    return run


def qlinear_conv(ctx: KernelContext) -> KernelCallable:
    """QLinearConv 10: the exact integer convolution plus int32 bias, scaled, rounded half to even and saturated."""
    xp = ctx.xp
    window = window_of(ctx)
    group = int(ctx.node.attributes.get("group", 1))
    filters = _Filters(ctx, 3, 5)

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
        total = _exact(ctx, x, x_zero, filters(w, w_zero), window.placed(x.shape[2:], w.shape[2:]), group)
        if bias is not None:
            total += bias.reshape((-1,) + (1,) * (x.ndim - 2))
        factor: Any = (x_scale.reshape(()) * w_scale.reshape(-1)) / y_scale.reshape(())
        scales = _per_filter(ctx, "w_scale", factor, w.shape[0], x.ndim - 1)

        def step(out: Array, some: Array, factors: Array, zero: Array) -> None:
            out[...] = quantized(xp, some.astype(xp.float32) * factors, zero, out.dtype)

        return by_parts(ctx, step, xp.empty(total.shape, y_zero.dtype), total, scales, y_zero.reshape(()))

    return run


KERNELS = [
    KernelDef("ConvInteger", conv_integer, since=10, implementation="ort_py_array.quantized_convolution:conv_integer"),
    KernelDef("QLinearConv", qlinear_conv, since=10, implementation="ort_py_array.quantized_convolution:qlinear_conv"),
]
