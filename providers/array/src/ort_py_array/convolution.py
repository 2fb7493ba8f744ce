"""Conv, in one to three (and more) spatial dimensions, with groups, dilations, strides and automatic padding.

Reads the node's attributes once; checks shapes and plans with `convolution_methods` when they are new. ConvTranspose
is in `convolution_transpose`, the integer forms in `quantized_convolution`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.errors import InvalidArgument, Location
from ort_py_array.convolution_methods import Convolution, plan
from ort_py_array.convolution_transpose import conv_transpose
from ort_py_array.pictures import check_padded
from ort_py_array.precision import rounded, wide_constant, widened
from ort_py_array.two_forms import two_forms
from ort_py_array.windows import Placements, Window

__all__ = ["KERNELS", "check_convolution", "conv", "window_of"]


def window_of(ctx: KernelContext) -> Placements:
    """The window attributes of a convolution or pool."""
    attributes = ctx.node.attributes
    window = Window(
        where=ctx.node.location,
        kernel=tuple(attributes.get("kernel_shape", ())),
        strides=tuple(attributes.get("strides", ())),
        dilations=tuple(attributes.get("dilations", ())),
        pads=tuple(attributes.get("pads", ())),
        auto_pad=attributes.get("auto_pad", "NOTSET"),
        ceil_mode=bool(attributes.get("ceil_mode", 0)),
        clipped=ctx.node.op_type.endswith("Pool"),
    )
    return Placements(window)


def check_convolution(where: Location, x: Any, w: Any, bias: Any, group: int, weight_axis: int = 1) -> None:
    """Refuse shapes that do not belong together.

    Args:
        where: The node.
        x: Input, ``(n, c, *size)``.
        w: Weights; `weight_axis` is the axis of the input channels (1 for Conv, 0 for ConvTranspose).
        bias: ``(m,)`` or None.
        group: Number of groups.
        weight_axis: See `w`.

    Raises:
        InvalidArgument: Rank, channels, group or bias do not fit; the message has the numbers.
    """
    if x.ndim < 3 or w.ndim != x.ndim:
        raise InvalidArgument(
            f"The input has shape {list(x.shape)} and the weights {list(w.shape)}; "
            "both need the same rank, at least 3.",
            where=where,
            fix="Feed a picture of shape (n, c, *size) and weights with as many axes.",
        )
    channels, wanted = x.shape[1], w.shape[1] * group if weight_axis == 1 else w.shape[0]
    if group < 1 or channels != wanted:
        raise InvalidArgument(
            f"The input has {channels} channels, but weights of shape {list(w.shape)} with group {group} "
            f"need {wanted}.",
            where=where,
            fix="Feed an input with that many channels (axis 1).",
        )
    m = w.shape[0] if weight_axis == 1 else w.shape[1] * group
    if (m if weight_axis == 1 else channels) % group:
        raise InvalidArgument(
            f"{m if weight_axis == 1 else channels} channels cannot be divided into {group} groups.",
            where=where,
            fix="Set the attribute 'group' to a divisor of both numbers of channels.",
        )
    if bias is not None and tuple(bias.shape) != (m,):
        raise InvalidArgument(
            f"The bias has shape {list(bias.shape)} instead of [{m}].",
            where=where,
            fix="Give the bias one entry for each output channel.",
        )


def conv(ctx: KernelContext, finish: Callable[..., Any] | None = None) -> KernelCallable:
    """Conv 1–22: ``(n, c, *size)`` and ``(m, c / group, *kernel)`` → ``(n, m, *out)``.

    Floats; float16 and bfloat16 are summed in float32 and rounded once. Raises InvalidArgument for shapes that do not
    fit and LimitError through the context. ``finish(out, *rest)`` changes the result in place before it is rounded,
    given the inputs behind the bias: what follows the convolution in a fused node.
    """
    window = window_of(ctx)
    group = int(ctx.node.attributes.get("group", 1))
    xp = ctx.xp
    plans: dict[Any, tuple[tuple[int, ...], Convolution]] = {}
    wide_weights = wide_constant(ctx, 1)

    def planned(x: Array, w: Array, bias: Array | None) -> tuple[tuple[int, ...], Convolution]:
        check_convolution(ctx.node.location, x, w, bias, group)
        place = window.placed(x.shape[2:], w.shape[2:])
        shape = (x.shape[0], w.shape[0], *place.out)
        ctx.check_allocation(shape, x.dtype)
        check_padded(ctx, x, place)
        itemsize = max(x.itemsize, 4)  # narrow floats are convolved as float32
        return shape, plan(ctx, tuple(x.shape), tuple(w.shape), itemsize, place, group)

    def run(x: Array, w: Array, bias: Array | None = None, *rest: Array | None, out: Array | None = None) -> Array:
        known = plans.get(key := (x.shape, w.shape, None if bias is None else bias.shape, x.itemsize))
        if known is None:
            known = planned(x, w, bias)
            if len(plans) < _REMEMBERED:
                plans[key] = known
        shape, convolution = known
        wide = widened(xp, x)
        y = xp.empty(shape, wide.dtype) if out is None or wide.dtype != x.dtype else out
        weights = widened(xp, w) if wide_weights is None else wide_weights
        convolution(wide, weights, None if bias is None else widened(xp, bias), y)
        if finish is not None:
            finish(y, *rest)
        return rounded(y, x.dtype, out)

    return two_forms(ctx, run)


_REMEMBERED = 16
"""Shapes whose plan a node keeps; a dictionary that stops growing is safe to share between threads."""

KERNELS = [
    KernelDef(
        name,
        factory,
        since=since,
        until=until,
        out=True,
        implementation=f"{factory.__module__}:{factory.__qualname__}",
    )
    for name, factory, since, until in (("Conv", conv, 1, 22), ("ConvTranspose", conv_transpose, 1, 22))
]
