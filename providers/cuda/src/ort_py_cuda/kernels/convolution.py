"""Conv and FusedConv through cuDNN, in both layouts.

A convolution is tried in several ways, the best first, and the way that a shape takes is remembered: one plan for all
of a fused node; a plan for the convolution and what follows it by cuDNN's older calls; those calls alone; the array
library. Comes after `cudnn`; ConvTranspose shares the ways, see `convolution_ways`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef, KernelFactory, tensors
from ort_py.dtypes import DataType
from ort_py.errors import InvalidArgument
from ort_py_array.contrib.fused_activation import activation_of
from ort_py_array.convolution import check_convolution, window_of
from ort_py_array.two_forms import two_forms
from ort_py_array.windows import Placement
from ort_py_cuda import settings
from ort_py_cuda.cudnn.element_types import SUPPORTED, type_name
from ort_py_cuda.cudnn.graphs import Activation, Sizes, WindowOf
from ort_py_cuda.kernels.convolution_ways import Problem, Way, ways
from ort_py_cuda.kernels.pictures import (
    CHANNELS_LAST,
    InStandardForm,
    aligned,
    described,
    first_sizes,
    holds_last,
    prefers_channels_last,
    vector,
    weights_first,
    weights_last,
    widened_to_two,
)
from ort_py_cuda.kernels.standing import over_library

__all__ = ["KERNELS", "activation_in", "convolution", "prefers_channels_last"]

_REMEMBERED = 16
"""Shapes whose way a node keeps; a dictionary that stops growing is safe to share between threads."""

_FUSED = {"Relu": (), "Sigmoid": (), "Tanh": (), "LeakyRelu": ("alpha",), "Clip": ("low", "high")}
"""Activations that plans end with, and the parameters that ``activation_params`` gives."""


def activation_in(ctx: KernelContext) -> Activation | None:
    """The activation of a fused node where cuDNN has it, None where it has none or another."""
    name = ctx.node.attributes.get("activation")
    if name not in _FUSED:
        return None
    given = dict(zip(_FUSED[name], ctx.node.attributes.get("activation_params", ()), strict=False))
    return Activation(name, **{key: float(value) for key, value in given.items()})


def convolution(ctx: KernelContext, library: KernelFactory | None = None) -> KernelCallable:
    """Conv 1–22 and com.microsoft.FusedConv-1 in either layout, of float32, float16 and bfloat16.

    Sums are formed in float32. float32 is computed as float32, unless the session allows TF32. Raises InvalidArgument
    for shapes that do not fit, LimitError through the context.
    """
    xp, where = ctx.xp, ctx.node.location
    wishes = settings.current()
    last = holds_last(ctx.node)
    group = int(ctx.node.attributes.get("group", 1))
    window = window_of(ctx)
    activation = activation_in(ctx)
    fused_name = ctx.node.attributes.get("activation")
    # Where cuDNN lacks the activation, it follows as a step of its own.
    apart = activation_of(ctx, fused_name, ctx.node.attributes.get("activation_params", ())) if fused_name else None
    if activation is not None:
        apart = None
    packed = ctx.packed((1,), "channels last", partial(weights_last, xp)) if last else None
    known: dict[Any, tuple[Sizes, list[tuple[int, int]], Way]] = {}
    standard = InStandardForm(ctx, (0, 3))

    def prepared(
        x: Array, w: Array, bias: Array | None, z: Array | None
    ) -> tuple[Sizes, list[tuple[int, int]], Way] | str:
        sizes = first_sizes(x.shape, last)
        check_convolution(where, xp.moveaxis(x, -1, 1) if last and x.ndim else x, w, bias, group)
        place = window.placed(sizes[2:], tuple(w.shape[2:]))
        made = (sizes[0], w.shape[0], *place.out)
        shape = (made[0], *made[2:], made[1]) if last else made
        ctx.check_allocation(shape, x.dtype)
        if z is not None and tuple(z.shape) != shape:
            raise InvalidArgument(
                f"Z has shape {list(z.shape)} instead of {list(shape)}.",
                where=where,
                fix="Give it the shape of the convolution's result.",
            )
        dtype = type_name(x)
        if dtype not in SUPPORTED or len(sizes) > 5 or 0 in (*made, *sizes, *w.shape):
            return f"{dtype} of shape {list(x.shape)} and weights of shape {list(w.shape)}"
        both = tuple(min(pair) for pair in zip(place.begin, place.end, strict=True))
        more = (b + e - 2 * p for b, e, p in zip(place.begin, place.end, both, strict=True))
        padded = (*sizes[:2], *(n + some for n, some in zip(sizes[2:], more, strict=True)))
        pads = widened_to_two(both, 0)
        y = described("y", made, dtype, last)
        problem = Problem(
            x=described("x", padded, dtype, last),
            w=described("w", tuple(w.shape), dtype, last),
            y=y,
            window=WindowOf(widened_to_two(place.strides), widened_to_two(place.dilations), pads, pads),
            group=group,
            bias=None if bias is None else vector("bias", made[1], y),
            z=None if z is None else described("z", made, dtype, last),
            activation=activation,
            tf32=wishes.tf32,
        )
        return shape, _uneven(place), ways(ctx, problem, wishes)

    def run(
        x: Array, w: Array, bias: Array | None = None, z: Array | None = None, *, out: Array | None = None
    ) -> Array:
        key = (x.shape, w.shape, bias is None, z is None, x.dtype.num)
        found: tuple[Sizes, list[tuple[int, int]], Way] | str | None = known.get(key)
        if found is None:
            found = prepared(x, w, bias, z)
            if not isinstance(found, str) and len(known) < _REMEMBERED:
                known[key] = found
        if isinstance(found, str):
            return by_library(found, x, w, bias, z, out)
        shape, extra, way = found
        y = xp.empty(shape, x.dtype) if out is None else out
        weights = w if not last else packed if packed is not None else weights_last(xp, w)
        picture, weights, offset, other = aligned(xp, _padded(xp, x, extra, last) if extra else x, weights, bias, z)
        if not way(picture, weights, offset, other, y):
            return by_library("cuDNN has no way for it", x, w, bias, z, out)
        if apart is not None:
            apart(y)
        return y

    def by_library(reason: str, x: Array, w: Array, bias: Array | None, z: Array | None, out: Array | None) -> Array:
        return standard(reason, x, w if packed is None else weights_first(xp, packed), bias, z, out=out)

    return two_forms(ctx, run)


def _uneven(place: Placement) -> list[tuple[int, int]]:
    """The excess of one side's padding over the other's for each axis, which cuDNN does not support; empty if there is
    none.
    """
    pairs = list(zip(place.begin, place.end, strict=True))
    return [(b - min(b, e), e - min(b, e)) for b, e in pairs] if place.begin != place.end else []


def _padded(xp: Any, x: Array, extra: list[tuple[int, int]], last: bool) -> Array:
    """`x` with so many zeros in front and behind along each spatial axis."""
    axes = range(1, x.ndim - 1) if last else range(2, x.ndim)
    shape, inside = list(x.shape), [slice(None)] * x.ndim
    for axis, (before, after) in zip(axes, extra, strict=True):
        inside[axis] = slice(before, before + shape[axis])
        shape[axis] += before + after
    wide = xp.zeros(tuple(shape), x.dtype)
    wide[tuple(inside)] = x
    return wide


_FLOATS = tensors(DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16)

KERNELS = [
    *over_library("Conv", convolution, types={"T": _FLOATS}),
    *over_library("FusedConv", convolution, domain="com.microsoft", types={"T": _FLOATS}),
    *(
        KernelDef(name, convolution, domain=CHANNELS_LAST, out=True, implementation=f"{__name__}:convolution")
        for name in ("Conv", "FusedConv")
    ),
]
