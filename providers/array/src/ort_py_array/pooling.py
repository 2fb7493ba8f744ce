"""MaxPool, AveragePool, LpPool and their global forms.

A window's maximum or sum is separable: one axis after the other, each a running maximum or sum of shifted slices.
The positions of the maxima (MaxPool's second output) are in `pooling_indices`. Comes after `windows` and `pictures`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np  # what windows see is counted on the host

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef, kernel
from ort_py.errors import InvalidArgument
from ort_py.lazy_dataclass import dataclass
from ort_py_array.checks import shape_error
from ort_py_array.convolution import window_of
from ort_py_array.parts import assign, by_parts, rounded_by_parts, widened_by_parts
from ort_py_array.pictures import check_padded
from ort_py_array.pooling_indices import lowest, max_with_indices
from ort_py_array.precision import mean_along, rounded, widened
from ort_py_array.windows import Placement

__all__ = ["KERNELS", "average_pool", "averaged_over", "lp_pool", "max_pool", "pool"]


@dataclass(frozen=True, slots=True)
class _Axis:
    """The elements combined along one axis, as slices of the picture.

    Attributes:
        axis: The axis.
        size: Its size afterwards.
        whole: Taps of the kernel that meet the picture at all output positions.
        partial: Taps that meet it at some, with the output positions where they do; elsewhere they see padding.
    """

    axis: int
    size: int
    whole: list[slice]
    partial: list[tuple[slice, slice]]

    @staticmethod
    def of(place: Placement, axis: int) -> _Axis:
        """From the window over an axis, counted from the first spatial one."""
        size, stride = place.size[axis], place.strides[axis]
        found = _Axis(axis + 2, place.out[axis], [], [])
        dilation, begin = place.dilations[axis], place.begin[axis]
        # Taps that meet the picture at no output position are passed over: of a hostile kernel they are billions.
        lowest = max(0, -((max(found.size - 1, 0) * stride - begin) // dilation))
        for tap in range(lowest, min(place.kernel[axis], (size - 1 + begin) // dilation + 1)):
            shift = tap * place.dilations[axis] - place.begin[axis]
            # Output positions whose tap lies on the picture: 0 <= o · stride + shift < size.
            first = max(0, -(shift // stride))
            stop = min(found.size, (size - 1 - shift) // stride + 1)
            source = slice(first * stride + shift, (stop - 1) * stride + shift + 1, stride)
            if (first, stop) == (0, found.size):
                found.whole.append(source)
            elif first < stop:
                found.partial.append((slice(first, stop), source))
        return found


@lru_cache(maxsize=256)
def _moving(place: Placement) -> Sequence[_Axis]:
    """The axes along which something happens, at least one: small pictures are pooled faster than this is found out."""
    axes = [_Axis.of(place, axis) for axis in range(len(place.out))]
    moving = [
        axis
        for axis, size in zip(axes, place.size, strict=True)
        if (axis.whole, axis.partial, axis.size) != ([slice(0, size, 1)], [], size)
    ]
    return tuple(moving or axes[-1:])


def _slid(
    ctx: KernelContext, x: Array, axes: Sequence[_Axis], fill: Any, combine: Callable[..., Array], out: Array
) -> None:
    """Combine every window of `x` into `out`, axis by axis; the last axis is taken last, when least is left of it."""
    xp = ctx.xp

    def combined(target: Array, left: Array, right: Array) -> None:
        combine(left, right, out=target)

    for step in axes:
        lead = (slice(None),) * step.axis
        y = (
            out
            if step is axes[-1]
            else xp.empty((*x.shape[: step.axis], step.size, *x.shape[step.axis + 1 :]), x.dtype)
        )
        taps = [x[(*lead, source)] for source in step.whole]
        if len(taps) > 1:
            by_parts(ctx, combined, y, taps[0], taps[1])
        else:
            assign(ctx, y, taps[0] if taps else xp.asarray(fill, y.dtype))
        for tap in taps[2:]:
            by_parts(ctx, combined, y, y, tap)
        for target, source in step.partial:
            part = y[(*lead, target)]
            by_parts(ctx, combined, part, part, x[(*lead, source)])
        x = y


def pool(
    ctx: KernelContext,
    x: Array,
    place: Placement,
    fill: Any,
    combine: Callable[..., Array],
    out: Array | None = None,
) -> Array:
    """Pool ``(n, c, *size)``, images and channels split over the threads.

    Args:
        ctx: Context of the node.
        x: The pictures, in the type to combine in.
        place: Window over their spatial axes.
        fill: Value of the padding, which changes nothing that it is combined with.
        combine: Ufunc of two arrays that makes a window's result of its values.
        out: Array to put the result into, of the type of `x`; a new one where it is None.
    """
    xp = ctx.xp
    shape = (*x.shape[:2], *place.out)
    y = xp.empty(shape, x.dtype) if out is None else out
    if not y.size:  # a window may have billions of taps where there is no picture to compare it with
        return y
    results = y.reshape((shape[0] * shape[1], 1, *place.out))
    rows = x.reshape(shape[0] * shape[1], 1, *place.size)
    some = max(1, _CACHE_BYTES // max(1, rows[:1].nbytes))
    axes = _moving(place)

    def part(start: int, stop: int) -> None:
        for first in range(start, stop, some):
            ctx.check_time()
            chosen = slice(first, min(first + some, stop))
            _slid(ctx, rows[chosen], axes, fill, combine, results[chosen])

    ctx.parallel_for(results.shape[0], some, part)
    return y


_CACHE_BYTES = 512 << 10
"""Input of one block: with what is made of it, it stays in the L2 cache."""

_REMEMBERED = 16
"""Sizes whose counts a node keeps; a dictionary that stops growing is safe to share between threads."""


def _checked(ctx: KernelContext, x: Array) -> None:
    if x.ndim < 3:
        raise InvalidArgument(
            f"The input has shape {list(x.shape)}; pooling needs batch, channel and at least one spatial axis.",
            where=ctx.node.location,
            fix="Feed a tensor of rank 3 or more.",
        )


def max_pool(ctx: KernelContext) -> KernelCallable:
    """MaxPool 1–22 on floats, int8 and uint8; the second output holds flat positions in the input."""
    xp = ctx.xp
    window = window_of(ctx)
    count = len(ctx.node.outputs)
    with_indices = count > 1 and ctx.node.outputs[1] is not None
    column_major = bool(ctx.node.attributes.get("storage_order", 0))

    def run(x: Array, *outs: Array) -> tuple[Array | None, ...]:
        _checked(ctx, x)
        place = window.placed(x.shape[2:])
        ctx.check_allocation((*x.shape[:2], *place.out), x.dtype)
        check_padded(ctx, x, place)
        if with_indices:
            found = max_with_indices(ctx, x, place, column_major)
            for out, result in zip(outs, found, strict=False):
                out[...] = result
            return outs or found
        out = outs[0] if outs else None
        if x.itemsize == 2 and x.dtype.name == "bfloat16":  # its padding value and its maximum are float32's, exactly
            y = rounded_by_parts(
                ctx, pool(ctx, widened_by_parts(ctx, x), place, -float("inf"), xp.maximum), x.dtype, out
            )
        else:
            y = pool(ctx, x, place, lowest(xp, x.dtype), xp.maximum, out)
        return (y,) if count == 1 else (y, None)

    return run


def averaged_over(xp: Any, place: Placement, with_padding: bool, dtype: Any) -> Array | float:
    """Number of positions that each window averages over: a number, or an array that broadcasts to the output."""
    counts: Any = 1.0
    rank = len(place.out)
    for axis in range(rank):
        begin, end, size = place.begin[axis], place.end[axis], place.size[axis]
        low, high = (-begin, size + end) if with_padding else (0, size)
        kernel, stride, dilation = place.kernel[axis], place.strides[axis], place.dilations[axis]
        # Of the positions ``first + k · dilation``, those in ``[low, high)``, counted without walking through them.
        firsts = np.arange(place.out[axis], dtype=np.int64) * stride - begin
        start, stop = -((firsts - low) // dilation), -((firsts - high) // dilation)
        seen = np.maximum(np.minimum(kernel, stop) - np.maximum(start, 0), 0)
        if seen.size and (seen == seen[0]).all():
            counts = counts * int(seen[0])
        else:
            counts = counts * xp.asarray(seen.astype(dtype)).reshape((-1,) + (1,) * (rank - 1 - axis))
    return counts


def average_pool(ctx: KernelContext) -> KernelCallable:
    """AveragePool 1–22 on floats: the mean of what each window sees; padding counts if ``count_include_pad``."""
    xp = ctx.xp
    window = window_of(ctx)
    with_padding = bool(ctx.node.attributes.get("count_include_pad", 0))
    counts: dict[Any, Any] = {}

    def run(x: Array, out: Array | None = None) -> Array:
        _checked(ctx, x)
        place = window.placed(x.shape[2:])
        ctx.check_allocation((*x.shape[:2], *place.out), x.dtype)
        check_padded(ctx, x, place)
        if not x.size and not x.shape[0] * x.shape[1]:
            return xp.empty((*x.shape[:2], *place.out), x.dtype) if out is None else out
        wide = widened_by_parts(ctx, x)
        total = pool(ctx, wide, place, 0, xp.add, out if wide.dtype == x.dtype else None)
        count = counts.get(key := (place.size, total.dtype))
        if count is None:
            count = averaged_over(xp, place, with_padding, total.dtype)
            if len(counts) < _REMEMBERED:
                counts[key] = count

        def divided(some: Array, counts: Array) -> None:
            xp.divide(some, counts, some)

        by_parts(ctx, divided, total, xp.asarray(count, total.dtype))
        return rounded_by_parts(ctx, total, x.dtype, out)

    return run


def lp_pool(ctx: KernelContext) -> KernelCallable:
    """LpPool 1–22 on floats: ``(Σ |x|^p)^(1/p)`` over each window."""
    xp = ctx.xp
    window = window_of(ctx)
    p = ctx.node.attributes.get("p", 2)

    def run(x: Array) -> Array:
        _checked(ctx, x)
        place = window.placed(x.shape[2:])
        ctx.check_allocation((*x.shape[:2], *place.out), x.dtype)
        check_padded(ctx, x, place)
        powers = _power(xp, widened(xp, x), p)
        return rounded(_root(xp, pool(ctx, powers, place, 0, xp.add), p), x.dtype)

    return run


def _power(xp: Any, x: Array, p: float) -> Array:
    return xp.multiply(x, x) if p == 2 else xp.power(xp.abs(x), x.dtype.type(p))


def _root(xp: Any, x: Array, p: float) -> Array:
    return xp.sqrt(x) if p == 2 else xp.power(x, x.dtype.type(1.0 / p))


def _spatial(ctx: KernelContext, x: Array) -> tuple[int, ...]:
    _checked(ctx, x)
    return tuple(range(2, x.ndim))


def _of_nothing(ctx: KernelContext, x: Array) -> Array:
    """The result for no pictures, or for pictures without channels.

    Raises:
        InvalidArgument: There are pictures, but they have no pixel: a window of size 0 pools nothing.
    """
    if x.shape[0] * x.shape[1]:
        raise shape_error("Pictures without a pixel cannot be pooled.", ctx.node.location, [x.shape])
    return ctx.xp.zeros((*x.shape[:2], *(1 for _ in x.shape[2:])), x.dtype)


@kernel("GlobalAveragePool", since=1, until=22)
def global_average_pool(ctx: KernelContext, x: Array) -> Array:
    """Mean over the spatial axes, which stay with size 1.

    Raises:
        InvalidArgument: The pictures have no pixel.
    """
    spatial = _spatial(ctx, x)
    if not x.size:
        return _of_nothing(ctx, x)
    return rounded(mean_along(ctx.xp, widened(ctx.xp, x), spatial), x.dtype)


@kernel("GlobalMaxPool", since=1, until=22)
def global_max_pool(ctx: KernelContext, x: Array) -> Array:
    """Maximum over the spatial axes, which stay with size 1.

    Raises:
        InvalidArgument: The pictures have no pixel.
    """
    spatial = _spatial(ctx, x)
    if not x.size:
        return _of_nothing(ctx, x)
    return rounded(ctx.xp.max(widened(ctx.xp, x), axis=spatial, keepdims=True), x.dtype)


@kernel("GlobalLpPool", since=1, until=22)
def global_lp_pool(ctx: KernelContext, x: Array, *, p: float = 2) -> Array:
    """``(Σ |x|^p)^(1/p)`` over the spatial axes, which stay with size 1.

    Raises:
        InvalidArgument: The pictures have no pixel.
    """
    xp, spatial = ctx.xp, _spatial(ctx, x)
    if not x.size:
        return _of_nothing(ctx, x)
    total = xp.sum(_power(xp, widened(xp, x), p), axis=spatial, keepdims=True)
    return rounded(_root(xp, total, p), x.dtype)


KERNELS = [
    KernelDef("MaxPool", max_pool, since=1, until=22, outputs=None, out=True, implementation=f"{__name__}:max_pool"),
    KernelDef("AveragePool", average_pool, since=1, until=22, out=True, implementation=f"{__name__}:average_pool"),
    KernelDef("LpPool", lp_pool, since=1, until=22, implementation=f"{__name__}:lp_pool"),
]
