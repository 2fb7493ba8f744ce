"""Steps over whole arrays, taken in parts where these are large.

One call of NumPy for some hundred million elements takes seconds, and no limit of time interrupts it. Parts go to the
context's pool, which looks at the clock before each. It does not depend on operators.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py.devices import HOST
from ort_py_array.precision import is_narrow, rounded, widened

__all__ = [
    "LARGE_PART",
    "assign",
    "by_parts",
    "contiguous",
    "converted",
    "part_of",
    "rounded_by_parts",
    "taken",
    "widened_by_parts",
]

LARGE_PART = 1 << 22
"""Elements of a part: whatever is done with them takes less than a second."""


def by_parts(ctx: KernelContext, step: Callable[..., Any], out: Array, *inputs: Array) -> Array:
    """Call ``step(out, *inputs)`` for parts of arrays that broadcast to `out`, and return `out`.

    Args:
        ctx: Context of the node.
        step: Writes to its first argument what follows, element by element, from the others.
        out: The array to write to.
        inputs: Arrays that are read; each part gets those of their elements that belong to it.
    """
    if out.size <= LARGE_PART or ctx.device != HOST:
        step(out, *inputs)
        return out
    axis = max(range(out.ndim), key=out.shape.__getitem__)
    length, back = out.shape[axis], out.ndim - axis

    def part(start: int, stop: int) -> None:
        step(*(part_of(array, back, start, stop) for array in (out, *inputs)))

    ctx.parallel_for(length, max(1, length * LARGE_PART // out.size), part)
    return out


def part_of(array: Array, back: int, start: int, stop: int) -> Array:
    """Some places of an axis, counted from the back; all of an array that has one entry there for all."""
    if array.ndim < back or array.shape[-back] == 1:
        return array
    return array[(..., slice(start, stop), *(slice(None),) * (back - 1))]


def _copy(out: Array, source: Array) -> None:
    out[...] = source


def assign(ctx: KernelContext, out: Array, source: Array) -> Array:
    """Write what broadcasts to `out`, and return `out`."""
    return by_parts(ctx, _copy, out, source)


def converted(ctx: KernelContext, x: Array, dtype: Any) -> Array:
    """A copy of `x` in another type, C-contiguous where it is large."""
    if x.size <= LARGE_PART or ctx.device != HOST:
        return x.astype(dtype)
    return assign(ctx, ctx.xp.empty(x.shape, dtype), x)


def contiguous(ctx: KernelContext, x: Array) -> Array:
    """`x` itself where it is C-contiguous, else a copy that is."""
    if x.size <= LARGE_PART or ctx.device != HOST or x.flags.c_contiguous:
        return ctx.xp.ascontiguousarray(x)
    return assign(ctx, ctx.xp.empty(x.shape, x.dtype), x)


def widened_by_parts(ctx: KernelContext, x: Array) -> Array:
    """`widened` for arrays that may be large."""
    xp = ctx.xp
    if x.size <= LARGE_PART or ctx.device != HOST or not is_narrow(x.dtype):
        return widened(xp, x)

    def step(out: Array, some: Array) -> None:
        out[...] = widened(xp, some)

    return by_parts(ctx, step, xp.empty(x.shape, xp.float32), x)


def rounded_by_parts(ctx: KernelContext, y: Array, dtype: Any, out: Array | None = None) -> Array:
    """`rounded` for arrays that may be large."""
    if y.size <= LARGE_PART or ctx.device != HOST or (out is None and y.dtype == dtype) or y is out:
        return rounded(y, dtype, out)

    def step(target: Array, some: Array) -> None:
        rounded(some, dtype, target)

    return by_parts(ctx, step, ctx.xp.empty(y.shape, dtype) if out is None else out, y)


def taken(ctx: KernelContext, x: Array, indices: Array, axis: int, out: Array | None = None) -> Array:
    """`xp.take` of results that may be large, cut along their longest axis.

    Args:
        ctx: Context of the node.
        x: The array to take from.
        indices: Places of `axis`, checked; a list.
        axis: Axis, counted from the front.
        out: Array to put the result into; a new one where it is None.
    """
    xp = ctx.xp
    shape = (*x.shape[:axis], indices.size, *x.shape[axis + 1 :])
    if prod(shape) <= LARGE_PART or ctx.device != HOST:
        chosen = xp.take(x, indices, axis)
        return chosen if out is None else rounded(chosen, x.dtype, out)
    y = xp.empty(shape, x.dtype) if out is None else out
    longest = max(range(len(shape)), key=shape.__getitem__)
    lead = (slice(None),) * longest

    def part(start: int, stop: int) -> None:
        places = (*lead, slice(start, stop))
        if longest == axis:
            y[places] = xp.take(x, indices[start:stop], axis)
        else:
            y[places] = xp.take(x[places], indices, axis)

    ctx.parallel_for(shape[longest], max(1, shape[longest] * LARGE_PART // prod(shape)), part)
    return y
