"""ConvTranspose through cuDNN, in both layouts: the gradient of a convolution by its picture.

cuDNN takes the same padding on both sides, so where a node cuts off more on one side, the larger result is computed and
its inside copied. The ways are those of `convolution`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef, KernelFactory, tensors
from ort_py.dtypes import DataType
from ort_py.lazy_dataclass import dataclass
from ort_py_array.convolution import check_convolution
from ort_py_array.convolution_transpose import transposed_geometry
from ort_py_array.two_forms import two_forms
from ort_py_cuda import settings
from ort_py_cuda.cudnn.element_types import SUPPORTED, type_name
from ort_py_cuda.cudnn.graphs import Sizes, WindowOf
from ort_py_cuda.kernels.convolution_ways import Problem, Way, ways
from ort_py_cuda.kernels.pictures import (
    CHANNELS_LAST,
    InStandardForm,
    aligned,
    described,
    first_sizes,
    holds_last,
    vector,
    weights_first,
    weights_last,
    widened_to_two,
)
from ort_py_cuda.kernels.standing import over_library

__all__ = ["KERNELS", "convolution_transpose"]

_REMEMBERED = 16
"""Shapes whose way a node keeps; a dictionary that stops growing is safe to share between threads."""


def convolution_transpose(ctx: KernelContext, library: KernelFactory | None = None) -> KernelCallable:
    """ConvTranspose 1–22 in either layout, of float32, float16 and bfloat16; sums are formed in float32.

    Raises InvalidArgument for shapes that do not fit, LimitError through the context.
    """
    xp, where = ctx.xp, ctx.node.location
    wishes = settings.current()
    last = holds_last(ctx.node)
    group = int(ctx.node.attributes.get("group", 1))
    packed = ctx.packed((1,), "channels last", partial(weights_last, xp)) if last else None
    known: dict[Any, tuple[Sizes, Sizes, tuple[slice, ...] | None, Way]] = {}
    standard = InStandardForm(ctx)

    def prepared(x: Array, w: Array, bias: Array | None) -> tuple[Sizes, Sizes, tuple[slice, ...] | None, Way] | str:
        sizes = first_sizes(x.shape, last)
        check_convolution(where, xp.moveaxis(x, -1, 1) if last and x.ndim else x, w, bias, group, weight_axis=0)
        geometry = _geometry(ctx, sizes[2:], tuple(w.shape[2:]))
        begin, end, out, natural = geometry.begin, geometry.end, geometry.out, geometry.natural
        made = (sizes[0], w.shape[1] * group, *out)
        shape = _in_order(made, last)
        ctx.check_allocation(shape, x.dtype)
        dtype = type_name(x)
        if dtype not in SUPPORTED or len(sizes) > 5 or 0 in (*made, *sizes, *w.shape):
            return f"{dtype} of shape {list(x.shape)} and weights of shape {list(w.shape)}"
        if min(end) < 0 or geometry.leaves_gaps:
            return f"an output of {list(out)} that reaches beyond what the kernels write"
        pads = tuple(min(pair) for pair in zip(begin, end, strict=True))
        whole = (*made[:2], *(n - 2 * p for n, p in zip(natural, pads, strict=True)))
        inside = None
        if whole != made:
            ctx.check_allocation(whole, x.dtype)
            cut = tuple(slice(b - p, b - p + o) for b, p, o in zip(begin, pads, out, strict=True))
            inside = (slice(None), *cut, slice(None)) if last else (slice(None), slice(None), *cut)
        pads = widened_to_two(pads, 0)
        y = described("y", whole, dtype, last)
        problem = Problem(
            x=described("x", sizes, dtype, last),
            w=described("w", tuple(w.shape), dtype, last),
            y=y,
            window=WindowOf(widened_to_two(geometry.strides), widened_to_two(geometry.dilations), pads, pads),
            group=group,
            transposed=True,
            bias=None if bias is None else vector("bias", made[1], y),
            tf32=wishes.tf32,
        )
        return shape, _in_order(whole, last), inside, ways(ctx, problem, wishes)

    def run(x: Array, w: Array, bias: Array | None = None, *, out: Array | None = None) -> Array:
        key = (x.shape, w.shape, bias is None, x.dtype.num)
        found: tuple[Sizes, Sizes, tuple[slice, ...] | None, Way] | str | None = known.get(key)
        if found is None:
            found = prepared(x, w, bias)
            if not isinstance(found, str) and len(known) < _REMEMBERED:
                known[key] = found
        if isinstance(found, str):
            return by_library(found, x, w, bias, out)
        shape, whole, inside, way = found
        direct = out if inside is None else None
        y = xp.empty(whole, x.dtype) if direct is None else direct
        weights = w if not last else packed if packed is not None else weights_last(xp, w)
        picture, weights, offset = aligned(xp, x, weights, bias)
        if not way(picture, weights, offset, None, y):
            return by_library("cuDNN has no way for it", x, w, bias, out)
        if inside is None:
            return y
        result = xp.empty(shape, x.dtype) if out is None else out
        result[...] = y[inside]
        return result

    def by_library(reason: str, x: Array, w: Array, bias: Array | None, out: Array | None) -> Array:
        return standard(reason, x, w if packed is None else weights_first(xp, packed), bias, out=out)

    return two_forms(ctx, run)


@dataclass(frozen=True, slots=True)
class _Geometry:
    """A ConvTranspose laid over a picture; one entry a spatial axis.

    Attributes:
        strides, dilations: As in the attributes, completed with ones.
        begin, end: What is cut off the whole result.
        out: Sizes of what is left.
        natural: Sizes of the whole result.
        leaves_gaps: Whether the convolution back would not see the end of the whole result at all.
    """

    strides: Sizes
    dilations: Sizes
    begin: Sizes
    end: Sizes
    out: Sizes
    natural: Sizes
    leaves_gaps: bool


def _geometry(ctx: KernelContext, size: Sizes, kernel: Sizes) -> _Geometry:
    attributes, rank = ctx.node.attributes, len(size)
    strides, dilations = (tuple(attributes.get(name, ())) or (1,) * rank for name in ("strides", "dilations"))
    begin, out = transposed_geometry(ctx, size, kernel, strides, dilations, tuple(attributes.get("pads", ())))
    extra = tuple(attributes.get("output_padding", ())) or (0,) * rank
    natural = tuple(
        s * (n - 1) + o + (k - 1) * d + 1 for n, k, s, d, o in zip(size, kernel, strides, dilations, extra, strict=True)
    )
    end = tuple(n - b - o for n, b, o in zip(natural, begin, out, strict=True))
    gaps = any(o >= s for o, s in zip(extra, strides, strict=True))
    return _Geometry(strides, dilations, begin, end, out, natural, gaps)


def _in_order(sizes: Sizes, last: bool) -> Sizes:
    """The shape of data of sizes (N, C, space…)."""
    return (sizes[0], *sizes[2:], sizes[1]) if last else sizes


_FLOATS = tensors(DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16)

KERNELS = [
    *over_library("ConvTranspose", convolution_transpose, types={"T": _FLOATS}),
    KernelDef(
        "ConvTranspose",
        convolution_transpose,
        domain=CHANNELS_LAST,
        out=True,
        implementation=f"{__name__}:convolution_transpose",
    ),
]
