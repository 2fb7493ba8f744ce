"""Calls of the kernels of grouped heads: turning heads, caches that grow or have pages, and attention.

One query a sequence is attended to by a kernel of our own that reads keys and values once, long caches in parts that
are put together; more queries by products and a softmax, some rows at a time. Comes before `group_query_attention`
and `paged_attention`; knows no node.
"""

from __future__ import annotations

import math
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py_cuda.cublaslt.products import multiply
from ort_py_cuda.kernels.grouped_forms import (
    IN_ORDER,
    NEAR,
    NOT_TURNED,
    Lengths,
    Places,
    Rotary,
    Scoring,
    grouped_kernel,
)

__all__ = ["attend_few", "attend_many", "default_scale", "stored", "stored_in_pages", "turned_queries"]

_REGISTERS = 64
"""Elements of sums that a thread holds for all of its queries: more would not stay in registers."""

_PART = 256
"""Keys of a part of the cache at least: fewer do not pay for putting parts together."""

_SCORES = 64 << 20
"""Scores that exist at once, of all heads: 256 MiB of float32."""


def _stream(xp: Any) -> int:
    return int(xp.cuda.get_current_stream().ptr)


def _warps(count: int) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Grid and block for one warp a piece of work."""
    return (-(-count // 4), 1, 1), (32, 4, 1)


def turned_queries(xp: Any, q: Array, lengths: Lengths, how: Rotary = NOT_TURNED) -> Array:
    """Heads ``(batch, rows, heads, size)``, perhaps columns of a wider array, as ``(batch, heads, rows, size)``."""
    batch, rows, heads, size = q.shape
    y = xp.empty((batch, heads, rows, size), q.dtype)
    kernel = grouped_kernel("grouped_queries", q.dtype.name, size)
    kernel(
        *_warps(batch * rows * heads),
        _stream(xp),
        q.data.ptr,
        y.data.ptr,
        *lengths.arguments,
        *how.arguments,
        heads,
        rows,
        _pitch(q),
    )
    return y


def _pitch(x: Array) -> int:
    """Elements from one row's heads to the next."""
    return int(x.strides[1] // x.itemsize) if x.shape[1] > 1 else int(x.strides[0] // x.itemsize)


def stored(xp: Any, past: Array | None, new: Array, length: int, lengths: Lengths, how: Rotary = NOT_TURNED) -> Array:
    """The present ``(batch, heads, length, size)``: what is kept of the past, the new rows, and zeros behind them.

    Args:
        xp: Array module.
        past: ``(batch, heads, held, size)``, contiguous; None where there is none.
        new: ``(batch, rows, heads, size)``, perhaps columns of a wider array; with no rows all are in the past.
        length: Rows of the present.
        lengths: Where the new ones go.
        how: What is done to them first.
    """
    batch, rows, heads, size = new.shape
    y = xp.empty((batch, heads, length, size), new.dtype)
    kernel = grouped_kernel("grouped_cache", new.dtype.name, size)
    kernel(
        *_warps(batch * heads * length),
        _stream(xp),
        0 if past is None else past.data.ptr,
        new.data.ptr,
        y.data.ptr,
        *lengths.arguments,
        *how.arguments,
        heads,
        0 if past is None else past.shape[2],
        rows,
        length,
        _pitch(new),
    )
    return y


def stored_in_pages(
    xp: Any, store: Array, slots: Array, new: Array, lengths: Lengths, how: Rotary = NOT_TURNED
) -> None:
    """Put new rows ``(batch, rows, heads, size)`` into pages, in place.

    Args:
        xp: Array module.
        store: ``(pages, heads, rows of a page, size)``, any strides but 1 along the last axis.
        slots: int32, for each new row where it goes, counted as if pages were one behind the other; what the cache
            does not have is not stored.
        new: New rows, perhaps columns of a wider array.
        lengths: Their positions.
        how: What is done to them first.
    """
    batch, rows, heads, size = new.shape
    kernel = grouped_kernel("grouped_pages", new.dtype.name, size)
    kernel(
        *_warps(batch * rows * heads),
        _stream(xp),
        new.data.ptr,
        store.data.ptr,
        slots.data.ptr,
        *lengths.arguments,
        *how.arguments,
        *IN_ORDER.arguments(store),
        heads,
        rows,
        _pitch(new),
    )


_processors: dict[int, int] = {}


def _processors_of(xp: Any) -> int:
    """Multiprocessors of the current device; asked for once, which takes as long as a kernel."""
    device = int(xp.cuda.runtime.getDevice())
    found = _processors.get(device)
    if found is None:
        found = _processors[device] = int(xp.cuda.Device(device).attributes["MultiProcessorCount"])
    return found


def attend_few(
    xp: Any,
    q: Array,
    keys: Array,
    values: Array,
    lengths: Lengths,
    how: Scoring,
    places: Places = IN_ORDER,
    out: Array | None = None,
) -> Array:
    """Attention of single queries, each to the keys of a sequence.

    Args:
        xp: Array module.
        q: ``(tokens, heads, 1, size)``, contiguous; the size is a multiple of 8.
        keys: ``(sequences, key heads, length, size)``; or pages ``(pages, key heads, rows of a page, size)``. Any
            strides but 1 along the last axis.
        values: The same, of the same strides.
        lengths: For each query its position, and the keys of its sequence.
        how: Scores.
        places: Where queries and keys are.
        out: Where to write, contiguous; a new array where None.

    Returns:
        ``(tokens, 1, heads, size)``.
    """
    batch, (heads, size), key_heads = len(lengths.starts), (q.shape[1], q.shape[3]), keys.shape[1]
    y = xp.empty((q.shape[0], 1, heads, size), q.dtype) if out is None else out
    queries = 1
    while queries < how.group and 2 * queries * (size // NEAR) <= _REGISTERS:
        queries *= 2
    pairs = key_heads * -(-how.group // queries)
    longest = max(lengths.totals, default=0)
    if how.window > 0:
        longest = min(longest, how.window)
    wanted = -(-2 * _processors_of(xp) // max(1, pairs * batch))
    splits = max(1, min(wanted, -(-longest // _PART)))
    parts = xp.empty((batch, heads, splits, size + 2), xp.float32) if splits > 1 else None
    address = 0 if parts is None else parts.data.ptr
    states = 0 if parts is None else address + 4 * batch * heads * splits * size
    grouped_kernel("grouped_decode", q.dtype.name, size, queries)(
        (batch, pairs, splits),
        (128, 1, 1),
        _stream(xp),
        q.data.ptr,
        keys.data.ptr,
        values.data.ptr,
        y.data.ptr,
        address,
        states,
        *lengths.arguments,
        *how.arguments(),
        *places.arguments(keys),
    )
    if parts is not None:
        grouped_kernel("grouped_combine", q.dtype.name, size)(
            (batch, heads, 1),
            (-(-size // 32) * 32, 1, 1),
            _stream(xp),
            address,
            states,
            y.data.ptr,
            *how.arguments(),
            *places.arguments(keys),
            splits,
        )
    return y


def attend_many(
    xp: Any, q: Array, keys: Array, values: Array, lengths: Lengths, how: Scoring, *, tf32: bool = False
) -> Array:
    """Attention of any number of queries, by products and a softmax over some rows at a time.

    Args:
        xp: Array module.
        q: ``(batch, heads, rows, size)``, contiguous.
        keys: ``(batch, key heads, length, size)``: as many rows as the longest sequence has, perhaps of a longer cache.
        values: The same.
        lengths: Starts and totals of sequences.
        how: Scores.
        tf32: Multiply float32 as TF32.

    Returns:
        ``(batch, rows, heads, size)``.
    """
    batch, heads, rows, size = q.shape
    key_heads, length = keys.shape[1], keys.shape[2]
    y = xp.empty((batch, rows, heads, size), q.dtype)
    grouped = q.reshape((batch, key_heads, how.group, rows, size))
    turned, columns = xp.swapaxes(keys[:, :, None], -1, -2), values[:, :, None]
    tile = max(1, min(rows, _SCORES // max(1, batch * heads * length)))
    for first in range(0, rows, tile):
        count = min(tile, rows - first)
        scores = multiply(
            grouped[:, :, :, first : first + count], turned, alpha=how.scale, result=xp.float32, tf32=tf32
        )
        chances = scores if q.dtype == xp.float32 else xp.empty(scores.shape, q.dtype)
        grouped_kernel("grouped_probabilities", q.dtype.name, size)(
            (batch * heads * count, 1, 1),
            (128 if length > 32 else 32, 1, 1),
            _stream(xp),
            scores.data.ptr,
            chances.data.ptr,
            *lengths.arguments,
            *how.arguments(scaled=False),
            count,
            length,
            first,
        )
        part = multiply(chances, columns, tf32=tf32)
        y[:, first : first + count] = xp.swapaxes(part.reshape((batch, heads, count, size)), 1, 2)
    return y


def default_scale(size: int) -> float:
    """The default scale of heads of some size."""
    return 1.0 / math.sqrt(size or 1)
