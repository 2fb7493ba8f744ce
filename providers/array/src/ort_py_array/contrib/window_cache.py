"""A cache that holds only the end of a sequence: which rows of it are there, and how it is moved on.

Of `T` positions a cache of `capacity` rows holds the last `resident` ones, in order, from row 0 on. When it is full it
gives up ``capacity - window + 1`` rows at once, so what it holds depends on `T` alone and never on the steps in which
they came. It is independent of attention.
"""

from __future__ import annotations

from typing import Any

from ort_py.contracts.graph_view import Array

__all__ = ["columns_of", "last_rows", "resident"]


def resident(total: int, capacity: int, window: int) -> int:
    """Positions held after `total` of them, of which at least ``min(total, window)`` are needed."""
    if total <= capacity:
        return total
    step = capacity - window + 1
    return total - step * -(-(total - capacity) // step)


def last_rows(xp: Any, x: Array, ends: tuple[int, ...], counts: tuple[int, ...], capacity: int) -> Array:
    """New ``(batch, heads, capacity, size)``: per batch entry the `count` rows before `end`, then zeros."""
    shape = (*x.shape[:2], capacity, x.shape[3])
    if len(set(zip(ends, counts, strict=True))) <= 1:
        y = xp.zeros(shape, x.dtype)
        if ends:
            y[:, :, : counts[0]] = x[:, :, ends[0] - counts[0] : ends[0]]
        return y
    count = xp.asarray(counts).reshape((-1, 1))
    places = xp.arange(capacity)
    rows = xp.minimum(xp.asarray(ends).reshape((-1, 1)) - count + places, x.shape[2] - 1)
    entries = xp.arange(len(ends)).reshape((-1, 1))
    y = xp.ascontiguousarray(xp.moveaxis(xp.moveaxis(x, 2, 1)[entries, rows], 1, 2))
    unused = xp.greater_equal(places, count).reshape((len(ends), 1, capacity, 1))
    xp.copyto(y, xp.zeros((), x.dtype), where=unused)
    return y


def columns_of(xp: Any, bias: Array, bases: tuple[int, ...], keys: int) -> Array:
    """Columns ``base .. base + keys`` of a bias by position, one base a batch entry; behind its end the last one."""
    if len(set(bases)) <= 1:
        base = bases[0] if bases else 0
        return bias[..., base : base + keys]
    columns = xp.minimum(xp.asarray(bases).reshape((-1, 1)) + xp.arange(keys), bias.shape[3] - 1)
    columns = columns.reshape((len(bases), 1, 1, keys))
    lead = (len(bases), *bias.shape[1:3])
    spread = xp.broadcast_to(bias, (*lead, bias.shape[3]))
    return xp.take_along_axis(spread, xp.broadcast_to(columns, (*lead, keys)), axis=3)
