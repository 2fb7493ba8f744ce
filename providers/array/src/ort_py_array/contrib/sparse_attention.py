"""SparseAttention of com.microsoft: causal attention in which each block of queries sees some blocks of keys.

The layouts arrive as rows and columns of blocks and become one table; queries are taken in runs of rows, so that no
mask of all queries and keys is made. It is independent of windows and quantised caches.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np  # of layouts and lengths on the host

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.errors import InvalidArgument
from ort_py_array.attention.core import Rule, attend
from ort_py_array.checks import LARGE, shape_error
from ort_py_array.contrib.cached_keys import check_cache, one_number, written
from ort_py_array.contrib.grouped_heads import check_heads, lengths_of, separated
from ort_py_array.contrib.rotary import check_caches, turned
from ort_py_array.contrib.schemas.notation import DOMAIN

__all__ = ["KERNELS", "sparse_attention"]

_ELEMENTS = 1 << 22
"""Entries of a mask that is made at once: megabytes, as it has one byte each."""


def sparse_attention(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.SparseAttention-1: GroupQueryAttention over a buffer, with a table of visible blocks.

    Query head `h` has the layout ``h % layouts``. A row of a layout belongs to `sparse_block_size` queries by position,
    its columns to as many keys; block_row_indices ``(layouts, blocks + 1)`` says which part of block_col_indices
    ``(layouts, columns)`` belongs to a row. Each sequence has ``key_total_sequence_lengths`` keys, the last ones new.

    Raises:
        InvalidArgument: Shapes, lengths, layouts or attributes that do not belong together.
        LimitError: A result would pass the session's limits.
    """
    attributes = ctx.node.attributes
    where = ctx.node.location
    heads, key_heads = check_heads(ctx)
    block = int(attributes["sparse_block_size"])
    scale = attributes.get("scale") or None
    rotary, interleaved = bool(attributes.get("do_rotary", 0)), bool(attributes.get("rotary_interleaved", 0))
    if block < 1:
        raise InvalidArgument(f"sparse_block_size is {block}.", where=where, fix="Use a positive number of positions.")

    def run(
        query: Array,
        key: Array | None,
        value: Array | None,
        past_key: Array,
        past_value: Array,
        row_indices: Array,
        col_indices: Array,
        total_sequence_length: Array,
        key_lengths: Array,
        cos: Array | None = None,
        sin: Array | None = None,
    ) -> tuple[Array, Array, Array]:
        q, k, v = separated(ctx, query, key, value, heads, key_heads)
        batch, rows, _, size = q.shape
        held = check_cache(ctx, past_key, past_value, batch, key_heads, (size, size))
        table = block_table(ctx, row_indices, col_indices, heads)
        most = min(held, table.shape[1] * block)
        why = f"there are {rows} new positions, {held} rows of cache and layouts for {table.shape[1] * block} positions"
        longest = one_number(ctx, "total_sequence_length", total_sequence_length, rows, most, why)
        first = rows == longest
        lengths = lengths_of(ctx, "key_total_sequence_lengths", key_lengths, batch, 0 if first else rows, longest)
        starts = tuple(0 if first else length - rows for length in lengths)
        if rotary:
            if cos is None or sin is None:
                raise InvalidArgument(
                    "do_rotary is set, but cos_cache or sin_cache is absent.",
                    where=where,
                    fix="Connect both, or turn the heads before the node.",
                )
            check_caches(ctx, cos, sin, size)
            q, k = (turned(ctx, x, cos, sin, starts, interleaved=interleaved) for x in (q, k))
        presents = [
            written(ctx, past, new.swapaxes(1, 2), starts, held, keep=True)
            for past, new in ((past_key, k), (past_value, v))
        ]
        keys, values = (present[:, :, :longest] for present in presents)
        rule = Rule(scale=scale or 1.0 / math.sqrt(size or 1), right=0)
        y = _attention(ctx, q.swapaxes(1, 2), keys, values, rule, table, block, starts, lengths)
        return y, presents[0], presents[1]

    return run


def block_table(ctx: KernelContext, row_indices: Array, col_indices: Array, heads: int) -> Any:
    """The layouts as one table of the host, ``(layouts, blocks, blocks)``: whether a row sees a column.

    Raises:
        InvalidArgument: The indices have other shapes, or name blocks that do not exist.
    """
    where = ctx.node.location
    layouts = row_indices.shape[0] if row_indices.ndim == 2 else 0
    fits = layouts and row_indices.shape[1] > 1 and heads % layouts == 0 and col_indices.ndim == 2
    if not fits or col_indices.shape[0] != layouts:
        raise shape_error(
            f"block_row_indices must be (layouts, blocks + 1) and block_col_indices (layouts, columns), with layouts "
            f"that divide {heads} heads.",
            where,
            [row_indices.shape, col_indices.shape],
        )
    blocks = row_indices.shape[1] - 1
    ctx.check_allocation((layouts, blocks, blocks), np.bool_)
    table = np.zeros((layouts, blocks, blocks), np.bool_)
    counts = np.diff(row_indices, axis=1)
    used = np.arange(col_indices.shape[1]) < row_indices[:, -1:]
    columns = col_indices[used]
    wrong = (row_indices[:, 0] != 0).any() or (counts < 0).any() or (row_indices[:, -1] > col_indices.shape[1]).any()
    if wrong or (columns.size and not 0 <= columns.min() <= columns.max() < blocks):
        raise InvalidArgument(
            f"The layouts name blocks outside their {blocks} rows and columns.",
            where=where,
            fix="Rows must begin at 0 and not fall, and end within the columns, each of which must be a block.",
        )
    rows = np.repeat(np.tile(np.arange(blocks), layouts), counts.reshape(-1))
    table[np.nonzero(used)[0], rows, columns] = True
    return table


def _attention(
    ctx: KernelContext,
    q: Array,
    k: Array,
    v: Array,
    rule: Rule,
    table: Any,
    block: int,
    starts: tuple[int, ...],
    lengths: tuple[int, ...],
) -> Array:
    """Attention in runs of query rows, each with the mask of its rows."""
    xp = ctx.xp
    batch, heads, rows, size = q.shape
    keys = k.shape[2]
    causal = np.tri(table.shape[1], dtype=np.bool_)
    if (table | ~causal).all():
        return attend(ctx, q, k, v, rule, offsets=starts, lengths=lengths, packed=True)[0]
    same = len(set(starts)) <= 1
    own = starts[:1] if same else starts
    layouts = table.shape[0]
    step = max(1, _ELEMENTS // max(1, len(own) * layouts * heads // layouts * keys))
    if rows <= step:
        mask = _mask(xp, table, block, own, range(rows), keys, heads)
        return attend(ctx, q, k, v, rule, mask=mask, offsets=starts, lengths=lengths, packed=True)[0]
    if batch * rows * heads * size > LARGE:
        ctx.check_allocation((batch, rows, heads * size), q.dtype)
    y = xp.empty((batch, rows, heads * size), q.dtype)
    for begin in range(0, rows, step):
        some = range(begin, min(begin + step, rows))
        part = slice(some.start, some.stop)
        # Keys behind the last row of the run are hidden from it by causality: they need no mask.
        reach = min(keys, max(starts, default=0) + some.stop)
        mask = _mask(xp, table, block, own, some, reach, heads)
        offsets = tuple(start + begin for start in starts)
        y[:, part] = attend(
            ctx,
            q[:, :, part],
            k[:, :, :reach],
            v[:, :, :reach],
            rule,
            mask=mask,
            offsets=offsets,
            lengths=lengths,
            packed=True,
        )[0]
    return y


def _mask(xp: Any, table: Any, block: int, starts: tuple[int, ...], rows: range, keys: int, heads: int) -> Array:
    """The keys that the heads see from these rows: ``(batch or 1, heads or 1, rows, keys)``."""
    blocks = -(-keys // block)
    positions = np.asarray(starts, np.int64).reshape((-1, 1)) + np.arange(rows.start, rows.stop)
    places = np.clip(positions // block, 0, table.shape[1] - 1)
    seen = xp.asarray(np.moveaxis(table[:, places, :blocks], 0, 1))  # (batch, layouts, rows, blocks)
    seen = xp.repeat(seen, block, axis=3)[..., :keys]
    return seen if seen.shape[1] == 1 else xp.tile(seen, (1, heads // seen.shape[1], 1, 1))


KERNELS = [
    KernelDef(
        "SparseAttention",
        sparse_attention,
        domain=DOMAIN,
        since=1,
        outputs=3,
        strided=True,
        host_inputs=frozenset({5, 6, 7, 8}),
        implementation=f"{__name__}:sparse_attention",
    )
]
