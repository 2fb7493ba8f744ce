"""PagedAttention of com.microsoft: attention of a packed batch over a cache in pages, for servers of many sequences.

New rows go to the pages of their sequences, then each sequence attends to its own: sequences with equally many new
tokens in one piece, their pages gathered side by side. Comes after `paged_sequences` and `paged_heads`.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py_array.attention.core import attend
from ort_py_array.attention.rotary_embedding import rotated
from ort_py_array.contrib.grouped_heads import normalized
from ort_py_array.contrib.paged_heads import PagedNode
from ort_py_array.contrib.paged_sequences import Integers, Sequences, pages_of, sequences_of, slots_of
from ort_py_array.contrib.quantized_cache import CacheFormat
from ort_py_array.contrib.schemas.notation import DOMAIN
from ort_py_array.two_forms import two_forms

__all__ = ["INPUTS", "KERNELS", "Formats", "paged_attention", "rows_seen"]

INPUTS = 17
"""Of the operator, those that may be absent included."""

Formats: TypeAlias = tuple[tuple[CacheFormat, Array] | None, tuple[CacheFormat, Array] | None]
"""How keys and values are stored, each with its scale; None for as they are."""


def paged_attention(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.PagedAttention-1: `num_heads` query heads attend to `kv_num_heads` key heads of caches in pages.

    Tokens of all sequences ``(tokens, heads · size)`` with keys and values, or packed with them. Caches ``(blocks,
    rows, key heads, size)`` of the same type or in 8 or 4 bits with a scale, or one 'LATENT' cache. The resulting
    caches are new arrays, or the arrays given for them, which may share the memory of the input caches: then only the
    new rows are written.

    Raises:
        InvalidArgument: Shapes, lengths, pages or attributes that do not belong together.
        LimitError: A result, or what a group of sequences sees, would pass the session's limits.
    """
    node = PagedNode.of(ctx)
    how = (node.format_of("k"), None if node.latent else node.format_of("v"))

    def run(*inputs: Array | None, out: Any = None) -> tuple[Array | None, ...]:
        given = (*inputs, *(None,) * (INPUTS - len(inputs)))
        query, key, value, key_cache, value_cache, cumulative, past, table, cos, sin, mapping = given[:11]
        sink, q_norm, k_norm = given[11:14]
        assert query is not None
        assert key_cache is not None
        q, k, v = node.operands(query, key, value)
        size, xp = q.shape[2], ctx.xp
        value_size = node.value_size(size)
        blocks, rows = node.check_cache(key_cache, value_cache, size)
        formats = _formats(node, how, given[14:16], size)
        sequences = sequences_of(ctx, q.shape[0], cumulative, past)
        pages = pages_of(ctx, table, sequences, blocks, rows)
        slots = slots_of(ctx, mapping, sequences, pages, blocks, rows)
        if node.check_norm(q_norm, k_norm, size):
            q, k = (one[0] for one in normalized(ctx, q[None], k[None], q_norm, k_norm, node.epsilon))
        positions = sequences.positions
        if node.check_rotary(cos, sin, size, int(positions.max(initial=-1))):
            assert cos is not None
            assert sin is not None
            cosines, sines = (xp.take(one, xp.asarray(positions), axis=0)[None] for one in (cos, sin))
            q, k = (_turned(node, one, cosines, sines) for one in (q, k))
        outs: list[Any] = list(out) if isinstance(out, tuple) else [out]
        outs += [None] * (3 - len(outs))
        where = _Rows.of(xp, slots)
        keys = _stored(xp, key_cache, k, where, formats[0], outs[1])
        values = keys
        if value_cache is not None and v is not None:
            values = _stored(xp, value_cache, v, where, formats[1], outs[2])
        y = _attended(node, q, (keys, values), formats, sequences, pages, value_size, sink)
        if outs[0] is not None:
            outs[0][...] = y
            y = outs[0]
        return y, keys, None if node.latent else values

    return two_forms(ctx, run)


def _formats(node: PagedNode, how: tuple[CacheFormat | None, CacheFormat | None], scales: Any, size: int) -> Formats:
    """Storage formats of both sides. A latent cache has one, which serves both."""
    found = [
        None if one is None else (one, one.scale(scale, node.key_heads, size))
        for one, scale in zip(how, scales, strict=True)
    ]
    return found[0], found[0] if node.latent else found[1]


def _turned(node: PagedNode, x: Array, cos: Array, sin: Array) -> Array:
    """Heads ``(tokens, heads, size)`` turned from the node's offset on, as a new array."""
    y = node.ctx.xp.empty(x.shape, x.dtype)
    first = node.offset
    y[..., :first] = x[..., :first]
    rotated(node.ctx, x[None, :, :, first:], cos, sin, y[None, :, :, first:], interleaved=node.interleaved)
    return y


class _Rows:
    """Tokens that are stored, and the rows of a cache that they go to."""

    __slots__ = ("rows", "tokens")

    def __init__(self, tokens: Any, rows: Array) -> None:
        self.tokens = tokens
        self.rows = rows

    @classmethod
    def of(cls, xp: Any, slots: Integers) -> _Rows:
        """All tokens but those without a row."""
        kept = slots >= 0
        tokens = slice(None) if kept.all() else xp.asarray(np.flatnonzero(kept))
        return cls(tokens, xp.asarray(slots[kept]))


def _stored(
    xp: Any, cache: Array, new: Array, where: _Rows, how: tuple[CacheFormat, Array] | None, out: Array | None
) -> Array:
    """A cache ``(blocks, rows, heads, size)`` with the new rows ``(tokens, heads, size)`` in it; in `out` if given."""
    if out is None:
        out = xp.array(cache, order="C")
    elif out is not cache:
        out[...] = cache
    if how is not None:
        new = how[0].stored(new[None].swapaxes(1, 2), how[1], cache.dtype).swapaxes(1, 2)[0]
    flat = out.reshape((-1, *out.shape[2:]))
    flat[where.rows] = new[where.tokens].astype(cache.dtype, copy=False)
    return out


def _attended(
    node: PagedNode,
    q: Array,
    caches: tuple[Array, Array],
    formats: Formats,
    sequences: Sequences,
    pages: Integers,
    value_size: int,
    sink: Array | None,
) -> Array:
    """Attention of all tokens ``(tokens, heads · value size)``, a group of sequences at a time."""
    ctx, xp = node.ctx, node.ctx.xp
    tokens, heads, size = q.shape
    rule = node.rule(size)
    shape = (tokens, heads * value_size)
    ctx.check_allocation(shape, q.dtype)
    groups = sequences.by_count()
    y = None
    for members in groups:
        count, totals = int(sequences.counts[members[0]]), sequences.totals[members]
        at = (sequences.begins[members][:, None] + np.arange(count)).reshape((-1,))
        whole = at.size == tokens
        queries = (q if whole else xp.take(q, xp.asarray(at), axis=0)).reshape((members.size, count, heads, size))
        keys, values = rows_seen(node, caches, formats, pages[members], totals)
        found, _ = attend(
            ctx,
            queries.swapaxes(1, 2),
            keys,
            values[..., :value_size],
            rule,
            offsets=tuple(sequences.starts[members].tolist()),
            lengths=tuple(totals.tolist()),
            sinks=sink,
            packed=True,
        )
        found = found.reshape((at.size, heads * value_size))
        if whole:
            return found
        if y is None:
            y = xp.empty(shape, q.dtype)
        y[xp.asarray(at)] = found
    return xp.empty(shape, q.dtype) if y is None else y


def rows_seen(
    node: PagedNode, caches: tuple[Array, Array], formats: Formats, pages: Integers, totals: Integers
) -> tuple[Array, Array]:
    """Keys and values ``(sequences, key heads, rows of the longest, size)`` of some sequences, out of their pages.

    Args:
        node: The node.
        caches: Keys and values ``(blocks, rows, key heads, size)``.
        formats: How they are stored.
        pages: Pages of each sequence, on the host.
        totals: Rows of each sequence, on the host.

    Returns:
        New arrays, of float32 where caches are quantised; zeros behind the end of a sequence.

    Raises:
        LimitError: They would pass the session's limits.
    """
    ctx, xp = node.ctx, node.ctx.xp
    rows, longest = caches[0].shape[1], int(totals.max())
    which = xp.asarray(pages[:, : -(-longest // rows)])
    # The memory after a sequence's end may hold anything, and no number times NaN is 0.
    hidden = None
    if int(totals.min()) < longest:
        hidden = xp.asarray(np.arange(longest) >= totals[:, None])[:, None, :, None]
    found: list[Array] = []
    for cache, how in zip(caches, formats, strict=True):
        if found and node.latent:
            found.append(found[0])
            break
        shape = (which.shape[0], which.shape[1] * rows, *cache.shape[2:])
        ctx.check_allocation(shape, cache.dtype)
        gathered = xp.take(cache, which, axis=0).reshape(shape)[:, :longest].swapaxes(1, 2)
        if how is not None:
            gathered = how[0].loaded(gathered, how[1], cache.shape[3] * 8 // how[0].bits)
        if hidden is not None:
            xp.copyto(gathered, xp.zeros((), gathered.dtype), where=hidden)
        found.append(gathered)
    return found[0], found[1]


KERNELS = [
    KernelDef(
        "PagedAttention",
        paged_attention,
        domain=DOMAIN,
        since=1,
        outputs=3,
        out=True,
        inplace=((3, 1), (4, 2)),
        host_inputs=frozenset({5, 6, 7, 10, 16}),
        implementation=f"{__name__}:paged_attention",
    )
]
