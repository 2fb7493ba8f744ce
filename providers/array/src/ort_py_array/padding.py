"""Pad: a border of a constant, of the edge, of the mirrored or of the repeated tensor; negative pads crop.

A constant border is written around a copy. The other modes gather along one axis after the other, so they may be wider
than the tensor. They repeat what crops leave. A node remembers the places it gathered from for the last few shapes.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef, kernel
from ort_py.devices import HOST
from ort_py.errors import InvalidArgument, Location
from ort_py_array.checks import constant_input, host_ints, normalized_axis
from ort_py_array.two_forms import two_forms

_HOST = frozenset({1, 2, 3})

_Gathers = tuple[tuple[int, Array], ...]
"""Axes, and which element of it stands at each place of the padded axis."""

_REMEMBERED = 8
"""Shapes and pads whose places a node keeps; a dictionary that stops growing is safe to share between threads."""

_AT_A_TIME = 1 << 18
"""Elements that a part of a large gather has at least."""

_Pads = list[tuple[int, int]]


def _pads_by_axis(pads: tuple[int, ...], axes: tuple[int, ...] | None, rank: int, where: Location) -> _Pads:
    chosen = range(rank) if axes is None else axes
    if len(pads) != 2 * len(chosen):
        raise InvalidArgument(
            f"Pad has {len(pads)} pads for {len(chosen)} axes.",
            where=where,
            fix="There must be one at the beginning and one at the end of each axis.",
        )
    result = [(0, 0)] * rank
    for number, axis in enumerate(chosen):
        result[normalized_axis(axis, rank, where)] = (pads[number], pads[number + len(chosen)])
    return result


def _constant(
    ctx: KernelContext, x: Array, pads: _Pads, shape: tuple[int, ...], value: Any, out: Array | None
) -> Array:
    # Without a value, the bits are 0: a float8e8m0 has no number 0, and its least one stands there, as Cast has it.
    xp, border = ctx.xp, out is not None
    if out is None:
        out = xp.zeros(shape, x.dtype) if value is None else xp.full(shape, value, x.dtype)
    # A negative pad moves the copied part's border inward in the source, a positive one in the result.
    source = tuple(slice(max(0, -b), dim - max(0, -e)) for (b, e), dim in zip(pads, x.shape, strict=True))
    target = tuple(slice(max(0, b), dim - max(0, e)) for (b, e), dim in zip(pads, shape, strict=True))
    if border:
        filling = xp.zeros((), x.dtype) if value is None else value
        for axis, (kept, dim) in enumerate(zip(target, shape, strict=True)):
            lead = (slice(None),) * axis
            if kept.start:
                out[(*lead, slice(0, kept.start))] = filling
            if kept.stop < dim:
                out[(*lead, slice(max(0, kept.stop), dim))] = filling
    out[target] = x[source]
    return out


def _positions(ctx: KernelContext, mode: str, size: int, begin: int, end: int) -> Array:
    """The element for each place of the padded axis; the part that remains after cropping is repeated or mirrored."""
    xp = ctx.xp
    first, kept = max(0, -begin), size + min(begin, 0) + min(end, 0)
    least, most = -max(begin, 0), kept + max(end, 0)
    if most - least <= _AT_A_TIME:
        return _repeated(xp, mode, xp.arange(least, most), first, kept)
    found = xp.empty(most - least, xp.int64)

    def part(start: int, stop: int) -> None:
        found[start:stop] = _repeated(xp, mode, xp.arange(least + start, least + stop), first, kept)

    ctx.parallel_for(most - least, _AT_A_TIME, part)
    return found


def _repeated(xp: Any, mode: str, places: Array, first: int, kept: int) -> Array:
    """The elements at some places, counted from the first of the `kept` elements that begin at `first`."""
    if mode == "edge":
        return first + xp.clip(places, 0, kept - 1)
    if mode == "wrap":
        return first + xp.remainder(places, kept)
    if kept == 1:
        return first + xp.zeros(places.shape, places.dtype)
    period = 2 * (kept - 1)
    places = xp.remainder(places, period)
    return first + xp.minimum(places, period - places)


def _shape(ctx: KernelContext, x: Array, pads: _Pads) -> tuple[int, ...]:
    """The padded shape, which may be made."""
    shape = tuple(dim + b + e for dim, (b, e) in zip(x.shape, pads, strict=True))
    if min(shape, default=0) < 0:
        raise InvalidArgument(
            f"Pads {pads} crop more than a tensor of shape {tuple(x.shape)} has.",
            where=ctx.node.location,
            fix="Crop less: a size plus its two pads must not be negative.",
        )
    ctx.check_allocation(shape, x.dtype)
    return shape


def _gathers(ctx: KernelContext, x: Array, pads: _Pads, mode: str) -> _Gathers:
    """The gathers of the modes that repeat elements, one axis after the other."""
    _shape(ctx, x, pads)
    if mode not in ("reflect", "edge", "wrap"):
        raise InvalidArgument(
            f"Pad has the unknown mode '{mode}'.",
            where=ctx.node.location,
            fix="Known: constant, reflect, edge, wrap (opset 19).",
        )
    found: list[tuple[int, Array]] = []
    for axis, (begin, end) in enumerate(pads):
        if begin == end == 0:
            continue
        if x.shape[axis] + min(begin, 0) + min(end, 0) <= 0:
            if x.shape[axis] + begin + end == 0:
                found.append((axis, ctx.xp.arange(0)))
                continue
            raise InvalidArgument(
                f"Pad cannot repeat elements of the empty axis {axis} of shape {tuple(x.shape)}.",
                where=ctx.node.location,
                why=f"pads of {begin} and {end} leave none" if x.shape[axis] else (),
                fix="Only mode 'constant' can pad an empty axis.",
            )
        found.append((axis, _positions(ctx, mode, x.shape[axis], begin, end)))
    return tuple(found)


def _gathered(ctx: KernelContext, x: Array, gathers: _Gathers, out: Array | None = None) -> Array:
    xp, result = ctx.xp, x
    for axis, places in gathers[:-1]:
        result = _taken(ctx, result, places, axis)
    if gathers:
        axis, places = gathers[-1]
        return _taken(ctx, result, places, axis, out)
    if out is not None:
        out[...] = x
        return out
    return xp.array(x)


def _taken(ctx: KernelContext, x: Array, places: Array, axis: int, out: Array | None = None) -> Array:
    """`take` of places that exist, in parts where the result is large."""
    xp, shape = ctx.xp, (*x.shape[:axis], places.size, *x.shape[axis + 1 :])
    if prod(shape) <= _AT_A_TIME:
        if out is not None and ctx.device == HOST and out.flags.c_contiguous:
            return x.take(places, axis, out, "clip")  # NumPy takes into a copy where it has to check
        y = x.take(places, axis)
        if out is None:
            return y
        out[...] = y
        return out
    y, before = xp.empty(shape, x.dtype) if out is None else out, (slice(None),) * axis

    def part(start: int, stop: int) -> None:
        y[(*before, slice(start, stop))] = xp.take(x, places[start:stop], axis=axis)

    ctx.parallel_for(places.size, max(1, places.size * _AT_A_TIME // prod(shape)), part)
    return y


def _padded(ctx: KernelContext, x: Array, pads: _Pads, mode: str, value: Any, out: Array | None = None) -> Array:
    if mode == "constant":
        return _constant(ctx, x, pads, _shape(ctx, x, pads), value, out)
    return _gathered(ctx, x, _gathers(ctx, x, pads, mode), out)


def pad(ctx: KernelContext) -> KernelCallable:
    """Pad-11..25: pads, value and (from 18) axes are host inputs; mode wrap exists from 19.

    The kernel raises InvalidArgument where the pads do not fit the axes, crop too much, or the mode is unknown, and
    LimitError where the result would be too large.
    """
    mode, where = ctx.node.attributes.get("mode", "constant"), ctx.node.location
    planned: dict[Any, _Gathers] = {}
    inputs = ctx.node.inputs
    deciding = [index for index in (1, 3) if index < len(inputs) and inputs[index] is not None]
    is_known = all(constant_input(ctx, index) is not None for index in deciding)

    def run(
        x: Array,
        pads: Array,
        constant_value: Array | None = None,
        axes: Array | None = None,
        *,
        out: Array | None = None,
    ) -> Array:
        if mode != "constant":
            key = x.shape if is_known else (x.shape, host_ints(pads), host_ints(axes))
            gathers = planned.get(key)
            if gathers is None:
                by_axis = _pads_by_axis(host_ints(pads) or (), host_ints(axes), x.ndim, where)
                gathers = _gathers(ctx, x, by_axis, mode)
                if len(planned) < _REMEMBERED:
                    planned[key] = gathers
            return _gathered(ctx, x, gathers, out)
        by_axis = _pads_by_axis(host_ints(pads) or (), host_ints(axes), x.ndim, where)
        value: Any = "" if x.dtype.kind == "O" else None
        if constant_value is not None and constant_value.size:
            value = constant_value.reshape(-1)[0]
        return _padded(ctx, x, by_axis, mode, value.item() if hasattr(value, "item") else value, out)

    return two_forms(ctx, run, known=is_known)


@kernel("Pad", since=2, out=True, strided=True)
def pad_2(
    ctx: KernelContext,
    x: Array,
    *,
    pads: tuple[int, ...],
    mode: str = "constant",
    value: float = 0.0,
    out: Array | None = None,
) -> Array:
    """Pad-2: pads and value are attributes."""
    return _padded(ctx, x, _pads_by_axis(tuple(pads), None, x.ndim, ctx.node.location), mode, value, out)


@kernel("Pad", since=1, out=True, strided=True)
def pad_1(
    ctx: KernelContext,
    x: Array,
    *,
    paddings: tuple[int, ...],
    mode: str = "constant",
    value: float = 0.0,
    out: Array | None = None,
) -> Array:
    """Pad-1: as version 2 under another attribute name."""
    return pad_2(ctx, x, pads=paddings, mode=mode, value=value, out=out)


KERNELS = [
    KernelDef(
        "Pad",
        pad,
        since=11,
        until=25,
        out=True,
        strided=True,
        host_inputs=_HOST,
        implementation=f"{pad.__module__}:{pad.__qualname__}",
    )
]
