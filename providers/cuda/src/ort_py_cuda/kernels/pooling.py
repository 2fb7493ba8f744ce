"""MaxPool, AveragePool and their global forms through cuDNN's older calls, in both layouts.

cuDNN's pools pad both sides alike, know no dilation, and round the number of windows down. What a node asks beyond that
is the same for many shapes: padding after the picture matters to a maximum only by how many windows there are. The rest
(indices, dilation, windows that begin in the padding, integers) goes to the array library.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef, KernelFactory, KernelForms, tensors
from ort_py.dtypes import DataType
from ort_py_array.convolution import window_of
from ort_py_array.windows import Placement
from ort_py_cuda.cudnn import legacy
from ort_py_cuda.cudnn.element_types import SUPPORTED, type_name
from ort_py_cuda.cudnn.errors import Unsupported
from ort_py_cuda.cudnn.library import cudnn, missing_library
from ort_py_cuda.kernels.pictures import (
    CHANNELS_LAST,
    InStandardForm,
    addresses,
    aligned,
    described,
    first_sizes,
    holds_last,
    widened_to_two,
)
from ort_py_cuda.kernels.standing import note_fallback, over_library

__all__ = ["KERNELS", "global_pool", "pool", "refusal_of"]

_REMEMBERED = 16
"""Shapes whose call a node keeps; a dictionary that stops growing is safe to share between threads."""


def refusal_of(place: Placement, mode: int) -> str | None:
    """Explain why cuDNN cannot pool with this window, or return None.

    Args:
        place: The window over the picture.
        mode: `legacy.MAXIMUM` or one of the averages.
    """
    if max(place.dilations, default=1) > 1:
        return f"dilations {list(place.dilations)}"
    for size, kernel, stride, begin, end, out in zip(
        place.size, place.kernel, place.strides, place.begin, place.end, place.out, strict=True
    ):
        if begin >= kernel:
            return f"padding {begin} of a window of {kernel} sees no picture"
        if out != (size + 2 * begin - kernel) // stride + 1:
            return f"{out} windows over {size} positions padded by {begin} and {end}, which padding alike does not give"
        reach = (out - 1) * stride - begin + kernel
        if (out - 1) * stride - begin >= size:
            return "a window that begins behind the picture"
        if mode == legacy.AVERAGE_INCLUDING and reach > size + end:
            return f"a mean over {reach - size - end} positions that are neither picture nor padding"
    return None


def pool(ctx: KernelContext, library: KernelFactory | None = None) -> KernelCallable:
    """MaxPool 1–22 and AveragePool 1–22 in either layout; float32, float16 and bfloat16 through cuDNN."""
    attributes = ctx.node.attributes
    several = ctx.node.op_type == "MaxPool" and not holds_last(ctx.node)
    outputs = len(ctx.node.outputs)
    with_indices = outputs > 1 and ctx.node.outputs[1] is not None
    missing = missing_library()
    if library is not None and (missing is not None or with_indices):
        note_fallback(ctx, missing or "it has indices for its second output")
        return library(ctx)
    if ctx.node.op_type == "MaxPool":
        mode = legacy.MAXIMUM
    else:
        mode = legacy.AVERAGE_INCLUDING if attributes.get("count_include_pad", 0) else legacy.AVERAGE_OF_PICTURE
    window = window_of(ctx)
    last = holds_last(ctx.node)
    runs = _Pool(ctx, mode)

    def run(x: Array, *outs: Array) -> Any:
        sizes = first_sizes(x.shape, last)
        place = window.placed(sizes[2:]) if len(sizes) > 2 else None
        y = runs(x, sizes, place, outs[0] if outs else None)
        if not several:
            return y
        return outs or ((y,) if outputs == 1 else (y, None))

    return run


def global_pool(ctx: KernelContext, library: KernelFactory | None = None) -> KernelForms | KernelCallable:
    """GlobalAveragePool and GlobalMaxPool 1–22 in either layout: one window as large as the picture."""
    missing = missing_library()
    if library is not None and missing is not None:
        note_fallback(ctx, missing)
        return library(ctx)
    last = holds_last(ctx.node)
    runs = _Pool(ctx, legacy.MAXIMUM if ctx.node.op_type == "GlobalMaxPool" else legacy.AVERAGE_OF_PICTURE)

    def run(x: Array) -> Array:
        sizes = first_sizes(x.shape, last)
        rank = len(sizes) - 2
        ones, none = (1,) * rank, (0,) * rank
        place = Placement(sizes[2:], sizes[2:], ones, ones, none, none, ones) if rank > 0 else None
        return runs(x, sizes, place, None)

    return run


class _Pool:
    """The calls of one node, by shape."""

    def __init__(self, ctx: KernelContext, mode: int) -> None:
        self._ctx = ctx
        self._mode = mode
        self._last = holds_last(ctx.node)
        self._known: dict[Any, tuple[tuple[int, ...], legacy.Pool] | str] = {}
        self._standard = InStandardForm(ctx)

    def __call__(self, x: Array, sizes: tuple[int, ...], place: Placement | None, out: Array | None) -> Array:
        ctx = self._ctx
        key = (x.shape, x.dtype.num)
        found = self._known.get(key)
        if found is None:
            found = self._made(x, sizes, place)
            if len(self._known) < _REMEMBERED:
                self._known[key] = found
        if not isinstance(found, str):
            shape, call = found
            y = ctx.xp.empty(shape, x.dtype) if out is None else out
            (given,) = aligned(ctx.xp, x)
            try:
                call(ctx.xp, ctx.device.index, addresses(given, y))
            except Unsupported as refusal:
                found = self._known[key] = "; ".join((refusal.what, *refusal.why))
            else:
                return y
        return self._standard(found, x, out=out)

    def _made(
        self, x: Array, sizes: tuple[int, ...], place: Placement | None
    ) -> tuple[tuple[int, ...], legacy.Pool] | str:
        dtype = type_name(x)
        missing = missing_library()
        if missing is not None:
            return missing
        if place is None or dtype not in SUPPORTED or len(sizes) > 5 or 0 in (*sizes, *place.out):
            return f"{dtype} of shape {list(x.shape)}"
        refusal = refusal_of(place, self._mode)
        if refusal is not None:
            return refusal
        made = (*sizes[:2], *place.out)
        shape = (made[0], *made[2:], made[1]) if self._last else made
        self._ctx.check_allocation(shape, x.dtype)
        try:
            call = legacy.Pool(
                cudnn(),
                self._mode,
                described("x", sizes, dtype, self._last),
                described("y", made, dtype, self._last),
                widened_to_two(place.kernel),
                widened_to_two(place.begin, 0),
                widened_to_two(place.strides),
            )
        except Unsupported as unsupported:
            return "; ".join((unsupported.what, *unsupported.why))
        return shape, call


_FLOATS = tensors(DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16)

_declared = partial(KernelDef, domain=CHANNELS_LAST)

KERNELS = [
    *(one for name in ("MaxPool", "AveragePool") for one in over_library(name, pool, types={"T": _FLOATS})),
    *(
        one
        for name in ("GlobalMaxPool", "GlobalAveragePool")
        for one in over_library(name, global_pool, types={"T": _FLOATS})
    ),
    *(_declared(name, pool, out=True, implementation=f"{__name__}:pool") for name in ("MaxPool", "AveragePool")),
    *(
        _declared(name, global_pool, implementation=f"{__name__}:global_pool")
        for name in ("GlobalMaxPool", "GlobalAveragePool")
    ),
]
