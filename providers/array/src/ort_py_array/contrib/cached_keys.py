"""Caches of keys and values: a new array with what is kept of the past and the new rows behind it, or in a buffer.

Every operator with a past comes here. A present is never the array of its past, so a caller that feeds the one back as
the other keeps both; `written_over` is for a caller who gave one memory for both. It is independent of attention
and operators.
"""

from __future__ import annotations

from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py.errors import InvalidArgument
from ort_py_array.checks import LARGE, shape_error

__all__ = ["check_cache", "one_number", "written", "written_over"]


def written(
    ctx: KernelContext,
    past: Array | None,
    new: Array,
    starts: tuple[int, ...],
    length: int,
    *,
    keep: bool = False,
    out: Array | None = None,
) -> Array:
    """The present: per batch entry, its first rows of the past and from there on the new ones.

    Args:
        ctx: Context of the node.
        past: ``(batch, heads, rows, size)``, or None where all starts are 0.
        new: ``(batch, heads, count, size)``, any strides.
        starts: Rows of the past that each batch entry keeps; ``start + count`` is at most `length`.
        length: Rows of the present.
        keep: Leave what the past has behind the new rows, as in a buffer; otherwise 0 follows.
        out: Where to write, ``(batch, heads, length, size)``; a new array of the past's type otherwise.

    Raises:
        LimitError: The present would pass the session's limits.
    """
    xp = ctx.xp
    if out is None:
        shape = (*new.shape[:2], length, new.shape[3])
        dtype = new.dtype if past is None else past.dtype
        if shape[0] * shape[1] * shape[2] * shape[3] > LARGE:
            ctx.check_allocation(shape, dtype)
        out = xp.empty(shape, dtype)
    count = new.shape[2]
    if len(set(starts)) > 1:
        return _scattered(xp, past, new, starts, keep, out)
    start = starts[0] if starts else 0
    stop = start + count
    if past is not None and start:
        out[:, :, :start] = past[:, :, :start]
    out[:, :, start:stop] = new
    kept = stop
    if keep and past is not None:
        kept = max(stop, past.shape[2])
        out[:, :, stop:kept] = past[:, :, stop:kept]
    if kept < length:
        out[:, :, kept:] = 0
    return out


def _scattered(xp: Any, past: Array | None, new: Array, starts: tuple[int, ...], keep: bool, out: Array) -> Array:
    """`written` where batch entries differ: the whole past, then each entry's rows at its place."""
    held = 0 if past is None else past.shape[2]
    first = xp.asarray(starts).reshape((-1, 1))
    if past is not None:
        out[:, :, :held] = past
        if not keep:
            ended = xp.greater_equal(xp.arange(held), first).reshape((len(starts), 1, held, 1))
            xp.copyto(out[:, :, :held], xp.zeros((), out.dtype), where=ended)
    out[:, :, held:] = 0
    rows = first + xp.arange(new.shape[2])
    entries = xp.arange(len(starts)).reshape((-1, 1))
    xp.moveaxis(out, 2, 1)[entries, rows] = xp.moveaxis(new, 2, 1)
    return out


def written_over(xp: Any, past: Array, new: Array, starts: tuple[int, ...]) -> Array:
    """The past itself, a buffer, with the new rows in it; what is behind them stays.

    Args:
        past: ``(batch, heads, rows, size)``, with room for the new rows.
        new, starts: As for `written`.
    """
    count = new.shape[2]
    if len(set(starts)) > 1:
        rows = xp.asarray(starts).reshape((-1, 1)) + xp.arange(count)
        entries = xp.arange(len(starts)).reshape((-1, 1))
        xp.moveaxis(past, 2, 1)[entries, rows] = xp.moveaxis(new, 2, 1)
    elif starts:
        past[:, :, starts[0] : starts[0] + count] = new
    return past


def check_cache(
    ctx: KernelContext, past_key: Array | None, past_value: Array | None, batch: int, heads: int, sizes: tuple[int, int]
) -> int:
    """Rows of a past that belongs to ``batch`` entries of ``heads`` heads of ``sizes``; 0 where there is none.

    Raises:
        InvalidArgument: Only half of it is there, or its shape is another.
    """
    if past_key is None or past_value is None:
        if past_key is not past_value:
            raise InvalidArgument(
                "Of past_key and past_value only one is given.",
                where=ctx.node.location,
                fix="Connect both, or neither.",
            )
        return 0
    rows = past_key.shape[2] if past_key.ndim == 4 else -1
    wanted = [(batch, heads, rows, size) for size in sizes]
    if tuple(past_key.shape) != wanted[0] or tuple(past_value.shape) != wanted[1]:
        raise shape_error(
            f"past_key must have the shape ({batch}, {heads}, rows, {sizes[0]}) and past_value "
            f"({batch}, {heads}, rows, {sizes[1]}).",
            ctx.node.location,
            [past_key.shape, past_value.shape],
        )
    return int(rows)


def one_number(ctx: KernelContext, name: str, value: Array | None, least: int, most: int, why: str) -> int:
    """A host input of one number between two bounds.

    Raises:
        InvalidArgument: It is absent, has more elements, or is out of bounds.
    """
    found = value.reshape(-1).tolist()[0] if value is not None and value.size == 1 else None
    if found is None or not least <= found <= most:
        given = "absent" if value is None else str(found) if found is not None else f"of shape {list(value.shape)}"
        raise InvalidArgument(
            f"{name} is {given}.", where=ctx.node.location, why=why, fix=f"Give one number in [{least}, {most}]."
        )
    return int(found)
