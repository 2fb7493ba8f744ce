"""RotaryEmbedding and MRotaryEmbedding of com.microsoft, and `turned`, with which attention turns its heads.

Positions choose rows of caches of cosines and sines; the library's `rotated` does the turning.
"""

from __future__ import annotations

from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext, kernel
from ort_py.errors import InvalidArgument
from ort_py_array.attention.rotary_embedding import rotated
from ort_py_array.checks import shape_error
from ort_py_array.contrib.schemas.notation import DOMAIN
from ort_py_array.precision import rounded, widened

__all__ = ["check_caches", "mrotary_embedding", "rotary_embedding", "rows_of", "turned"]


def check_caches(ctx: KernelContext, cos: Array, sin: Array, size: int) -> int:
    """Pairs of a head of `size` elements that two caches ``(positions, pairs)`` turn.

    Raises:
        InvalidArgument: They are not two matrices of one shape, or turn more than there is.
    """
    if cos.ndim != 2 or cos.shape != sin.shape or 2 * cos.shape[1] > size:
        raise shape_error(
            f"cos_cache and sin_cache must both be (positions, pairs), with at most {size // 2} pairs.",
            ctx.node.location,
            [cos.shape, sin.shape],
        )
    return int(cos.shape[1])


def rows_of(ctx: KernelContext, cos: Array, sin: Array, positions: Array) -> tuple[Array, Array]:
    """Rows of both caches by position, checked, which on a device waits for them.

    Raises:
        InvalidArgument: A position is outside the caches.
    """
    xp = ctx.xp
    if positions.size:
        low, high = xp.min(positions).item(), xp.max(positions).item()
        if low < 0 or high >= cos.shape[0]:
            raise position_error(ctx, low if low < 0 else high, cos.shape[0])
    return xp.take(cos, positions, axis=0), xp.take(sin, positions, axis=0)


def position_error(ctx: KernelContext, position: int, rows: int) -> InvalidArgument:
    """The error for a position that the caches do not have."""
    return InvalidArgument(
        f"Position {position} is outside the caches of cosines and sines.",
        where=ctx.node.location,
        fix=f"They have rows for the positions 0 to {rows - 1}; feed longer caches, or other positions.",
    )


def turned(
    ctx: KernelContext, x: Array, cos: Array, sin: Array, starts: tuple[int, ...] | Array, *, interleaved: bool
) -> Array:
    """Heads ``(batch, length, heads, size)`` turned by the angles of their positions, as a new array.

    Args:
        ctx: Context of the node.
        x: Heads, any strides.
        cos: Cache of cosines ``(positions, pairs)``.
        sin: Cache of sines.
        starts: Position of each batch entry's first element, on the host; or all positions ``(batch or 1, length)``.
        interleaved: Whether a pair is two neighbours.

    Raises:
        InvalidArgument: A position is outside the caches.
    """
    xp = ctx.xp
    length = x.shape[1]
    y = xp.empty(x.shape, x.dtype)
    if not isinstance(starts, tuple):
        rows = rows_of(ctx, cos, sin, starts)
    elif length and starts:
        low, high = min(starts), max(starts) + length - 1
        if low < 0 or high >= cos.shape[0]:
            raise position_error(ctx, low if low < 0 else high, cos.shape[0])
        if low == max(starts):
            rows = cos[None, low : low + length], sin[None, low : low + length]
        else:
            positions = xp.asarray(starts).reshape((-1, 1)) + xp.arange(length)
            rows = xp.take(cos, positions, axis=0), xp.take(sin, positions, axis=0)
    else:
        return y
    rotated(ctx, x, *rows, y, interleaved=interleaved)
    return y


def _heads_of(ctx: KernelContext, x: Array, size: int) -> Array:
    """An input of either form as ``(batch, length, heads, size)``, a view."""
    if x.ndim == 4 and x.shape[3] == size:
        return x.swapaxes(1, 2)
    if x.ndim != 3 or size < 1 or x.shape[2] % size:
        raise shape_error(
            f"The input must be (batch, length, heads · {size}) or (batch, heads, length, {size}).",
            ctx.node.location,
            [x.shape],
        )
    return x.reshape((x.shape[0], x.shape[1], x.shape[2] // size, size))


def _head_size(ctx: KernelContext, x: Array, pairs: int, heads: int, dim: int) -> int:
    """Elements of a head: the input's last axis, its share of all heads, or what the caches turn.

    Raises:
        InvalidArgument: The attributes contradict each other or the caches.
    """
    if dim and (heads < 1 or dim != 2 * pairs):
        raise InvalidArgument(
            f"rotary_embedding_dim is {dim}, num_heads {heads}, and the caches have {pairs} columns.",
            where=ctx.node.location,
            fix="Set num_heads beside it; the caches have half as many columns as elements are turned.",
        )
    if x.ndim == 4:
        return int(x.shape[3])
    return int(x.shape[2]) // heads if dim and x.ndim == 3 else 2 * pairs


def _turned_heads(ctx: KernelContext, x: Array, size: int, cos: Array, sin: Array, interleaved: int) -> Array:
    """An input of either form, turned by cosines and sines of its places ``(batch or 1, length, pairs)``."""
    heads = _heads_of(ctx, x, size)
    if cos.shape[0] not in (1, heads.shape[0]) or cos.shape[1] != heads.shape[1]:
        raise shape_error(
            "The positions are not one a place of the input.", ctx.node.location, [x.shape, cos.shape[:2]]
        )
    y = ctx.xp.empty(x.shape, x.dtype)
    out = y.swapaxes(1, 2) if x.ndim == 4 else y.reshape(heads.shape)
    rotated(ctx, heads, cos, sin, out, interleaved=bool(interleaved))
    return y


@kernel("RotaryEmbedding", domain=DOMAIN, since=1, strided=True)
def rotary_embedding(
    ctx: KernelContext,
    x: Array,
    position_ids: Array,
    cos_cache: Array,
    sin_cache: Array,
    *,
    interleaved: int = 0,
    is_packed_batching: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    scale: float = 1.0,
) -> Array:
    """com.microsoft.RotaryEmbedding-1: each head turned by the angles of its position.

    `x` is ``(batch, length, heads · size)`` or ``(batch, heads, length, size)``. `position_ids` is one number, the
    position of the first place, or ``(batch, length)``. A head has as many elements as the caches turn, unless
    `rotary_embedding_dim` and `num_heads` say otherwise. `scale` and `is_packed_batching` change nothing, as in
    onnxruntime.

    Raises:
        InvalidArgument: Shapes or attributes that do not fit, or a position outside the caches.
    """
    size = _head_size(ctx, x, cos_cache.shape[-1] if cos_cache.ndim else 0, num_heads, rotary_embedding_dim)
    check_caches(ctx, cos_cache, sin_cache, size)
    length = _heads_of(ctx, x, size).shape[1]
    if position_ids.size == 1 and (position_ids.ndim < 2 or length != 1):
        first = int(position_ids.item())
        if length and (first < 0 or first + length > cos_cache.shape[0]):
            raise position_error(ctx, first if first < 0 else first + length - 1, cos_cache.shape[0])
        rows = slice(first, first + length)
        return _turned_heads(ctx, x, size, cos_cache[None, rows], sin_cache[None, rows], interleaved)
    if position_ids.ndim != 2:
        raise shape_error(
            "position_ids must be one number or (batch, length).", ctx.node.location, [position_ids.shape]
        )
    cos, sin = rows_of(ctx, cos_cache, sin_cache, position_ids)
    return _turned_heads(ctx, x, size, cos, sin, interleaved)


@kernel("MRotaryEmbedding", domain=DOMAIN, since=1, strided=True)
def mrotary_embedding(
    ctx: KernelContext,
    x: Array,
    position_ids: Array,
    cos_cache: Array,
    sin_cache: Array,
    *,
    mrope_section: tuple[int, ...],
    interleaved: int = 0,
    is_packed_batching: int = 0,
    mrope_layout: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    scale: float = 1.0,
) -> Array:
    """com.microsoft.MRotaryEmbedding-1: pairs turned by one of three positions of a place: time, height and width.

    `position_ids` is ``(3, batch, length)``. `mrope_section` says how many pairs each of the three turns, one after the
    other, or with `mrope_layout` 1 in turns until height and width have theirs. Cosines and sines are multiplied by
    `scale`.

    Raises:
        InvalidArgument: Shapes or attributes that do not fit, or a position outside the caches.
    """
    xp, where = ctx.xp, ctx.node.location
    size = x.shape[3] if x.ndim == 4 else x.shape[-1] // num_heads if num_heads > 0 and x.ndim else 0
    pairs = check_caches(ctx, cos_cache, sin_cache, size) if size else 0
    if size < 1 or pairs != (rotary_embedding_dim or size) // 2:
        raise InvalidArgument(
            f"The caches have {pairs} columns for an input of shape {list(x.shape)}, num_heads {num_heads} and "
            f"rotary_embedding_dim {rotary_embedding_dim}.",
            where=where,
            fix="Set num_heads; the caches have half as many columns as elements of a head are turned.",
        )
    if len(mrope_section) != 3 or min(mrope_section) < 0 or sum(mrope_section) != pairs or mrope_layout not in (0, 1):
        raise InvalidArgument(
            f"mrope_section is {list(mrope_section)} and mrope_layout {mrope_layout}.",
            where=where,
            fix=f"Give three counts that are not negative and add up to {pairs}, and layout 0 or 1.",
        )
    lead = tuple(_heads_of(ctx, x, size).shape[:2])
    if tuple(position_ids.shape) != (3, *lead):
        raise shape_error(f"position_ids must have the shape {[3, *lead]}.", where, [position_ids.shape])
    rows = rows_of(ctx, cos_cache, sin_cache, position_ids)
    cos, sin = (_chosen(xp, table, mrope_section, mrope_layout) for table in rows)
    if scale != 1.0:
        cos, sin = (rounded(xp.multiply(widened(xp, table), scale), x.dtype) for table in (cos, sin))
    return _turned_heads(ctx, x, size, cos, sin, interleaved)


def _chosen(xp: Any, tables: Array, section: tuple[int, ...], layout: int) -> Array:
    """From three tables ``(3, batch, length, pairs)``, the columns that each has to give."""
    result = xp.array(tables[0])
    bounds = (0, section[0], section[0] + section[1], sum(section))
    for stream in (1, 2):
        at = slice(stream, 3 * section[stream], 3) if layout else slice(bounds[stream], bounds[stream + 1])
        result[..., at] = tables[stream][..., at]
    return result
