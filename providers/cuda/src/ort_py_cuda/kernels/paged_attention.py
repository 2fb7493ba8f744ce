"""PagedAttention of com.microsoft with its caches on the device, read and written where they lie.

New rows go straight to their pages. Tokens of sequences that have few of them are attended to by the kernel that reads
pages, all in one launch; longer prompts, a group of equally long ones at a time, by products over their pages gathered
side by side. The caches that come out are written to what the engine gives; where that is the memory of those that
went in, nothing is copied. Quantised and latent caches are left to the array library, which this stands on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelForms, tensors
from ort_py.dtypes import DataType
from ort_py.lazy_dataclass import dataclass
from ort_py_array.contrib.paged_attention import INPUTS, rows_seen
from ort_py_array.contrib.paged_attention import KERNELS as LIBRARY
from ort_py_array.contrib.paged_attention import paged_attention as library
from ort_py_array.contrib.paged_heads import PagedNode
from ort_py_array.contrib.paged_sequences import Integers, Sequences, pages_of, sequences_of, slots_of
from ort_py_array.two_forms import two_forms
from ort_py_cuda.kernels.grouped_attention import (
    attend_few,
    attend_many,
    default_scale,
    stored_in_pages,
    turned_queries,
)
from ort_py_cuda.kernels.grouped_forms import Lengths, Places, Rotary, Scoring
from ort_py_cuda.settings import current

__all__ = ["KERNELS", "paged_attention"]

_FEW = 4
"""New tokens of a sequence that are attended to one by one: each reads all of the sequence's keys."""

_UNIT, _LARGEST_HEAD, _ALIGNMENT = 8, 256, 16


def paged_attention(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.PagedAttention-1: see the array library's, whose meaning this has.

    Raises:
        InvalidArgument: Shapes, lengths, pages or attributes that do not belong together.
        LimitError: A result would pass the session's limits.
    """
    others = library(ctx)  # it says what is wrong with the attributes
    assert isinstance(others, KernelForms)
    attributes = ctx.node.attributes
    node = PagedNode.of(ctx)
    if node.latent or any(attributes.get(f"{side}_quant_type", "NONE") != "NONE" for side in "kv"):
        return others
    runs = _Runs(node)

    def run(*inputs: Any, out: Any = None) -> tuple[Any, ...]:
        outs: tuple[Any, ...] = () if out is None else out if isinstance(out, tuple) else (out,)
        found = runs((*inputs, *(None,) * (INPUTS - len(inputs))), outs)
        if found is not None:
            return found
        result: tuple[Any, ...] = others(*inputs, *outs)
        return result

    return two_forms(ctx, run)


@dataclass(frozen=True, slots=True)
class _Call:
    """The description of a call, with its numbers on the device."""

    q: Array
    keys: Array
    values: Array
    sequences: Sequences
    pages: Integers
    few: Integers
    lengths: Lengths
    places: Places


class _Runs:
    """The calls of a node."""

    def __init__(self, node: PagedNode) -> None:
        self._node = node
        self._tf32 = current().tf32

    def __call__(self, given: tuple[Any, ...], outs: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """The outputs; None for what only the library runs."""
        node, ctx, xp = self._node, self._node.ctx, self._node.ctx.xp
        query, key, value, key_cache, value_cache, cumulative, past, table, cos, sin, mapping = given[:11]
        sink, q_norm, k_norm = given[11:14]
        q, k, v = node.operands(query, key, value)
        assert v is not None  # the cache is not latent
        tokens, heads, size = q.shape
        node.value_size(size)
        blocks, rows = node.check_cache(key_cache, value_cache, size)
        sequences = sequences_of(ctx, tokens, cumulative, past)
        pages = pages_of(ctx, table, sequences, blocks, rows)
        slots = slots_of(ctx, mapping, sequences, pages, blocks, rows)
        normed = node.check_norm(q_norm, k_norm, size)
        positions, totals, owners = sequences.positions, sequences.totals, sequences.owners
        pairs = node.check_rotary(cos, sin, size, int(positions.max(initial=-1)))
        targets = (*outs[1:3], None, None)[:2]
        aligned = all(one is None or one.data.ptr % _ALIGNMENT == 0 for one in targets)
        if size % _UNIT or size > _LARGEST_HEAD or key_cache.dtype != q.dtype or not tokens or not aligned:
            return None
        ctx.check_allocation((tokens, heads * size), q.dtype)
        caches = [_writable(xp, one, out) for one, out in zip((key_cache, value_cache), targets, strict=True)]

        few = np.flatnonzero(sequences.counts[owners] <= _FEW)
        lasts = positions[few] + 1 if node.causal else totals[owners[few]]
        parts = (positions, positions + 1, slots, positions[few], lasts, owners[few], few, pages)
        device = xp.asarray(np.concatenate([part.reshape((-1,)) for part in parts]).astype(np.int32))
        ends = np.cumsum([part.size for part in parts]).tolist()
        each = Lengths(tuple(positions.tolist()), tuple((positions + 1).tolist()), device[: ends[1]])
        turning = [self._turning(q.dtype, cos, sin, pairs, one if normed else None) for one in (q_norm, k_norm)]
        stores = [one.swapaxes(1, 2) for one in caches]
        for store, new, how in ((stores[0], k, turning[1]), (stores[1], v, Rotary())):
            stored_in_pages(xp, store, device[ends[1] : ends[2]], new[:, None], each, how)
        call = _Call(
            turned_queries(xp, q[:, None], each, turning[0]),
            stores[0],
            stores[1],
            sequences,
            pages,
            few,
            Lengths(tuple(positions[few].tolist()), tuple(lasts.tolist()), device[ends[2] : ends[4]]),
            Places(device[ends[6] :].reshape(pages.shape), device[ends[4] : ends[5]], device[ends[5] : ends[6]]),
        )
        y = outs[0] if outs and outs[0] is not None else xp.empty((tokens, heads * size), q.dtype)
        self._attend(call, y.reshape((tokens, 1, heads, size)), caches, sink)
        return y, *caches

    def _turning(self, dtype: Any, cos: Any, sin: Any, pairs: int, weight: Array | None) -> Rotary:
        node = self._node
        angles = [one.astype(dtype, copy=False) if pairs else None for one in (cos, sin)]
        gain = None if weight is None else weight.astype(dtype, copy=False)
        return Rotary(
            angles[0],
            angles[1],
            interleaved=node.interleaved,
            weight=gain,
            epsilon=node.epsilon,
            offset=node.offset if pairs else 0,
        )

    def _attend(self, call: _Call, y: Array, caches: list[Array], sink: Array | None) -> None:
        """Write the attention of all tokens ``(tokens, 1, heads, size)``."""
        node, xp = self._node, self._node.ctx.xp
        size = y.shape[3]
        scoring = Scoring(
            node.heads,
            node.heads // node.key_heads,
            node.scale or default_scale(size),
            node.softcap,
            node.window,
            node.causal,
            sinks=None if sink is None else sink.astype(y.dtype, copy=False),
        )
        if call.few.size:
            attend_few(xp, call.q, call.keys, call.values, call.lengths, scoring, call.places, y)
        sequences = call.sequences
        for members in sequences.by_count():
            count = int(sequences.counts[members[0]])
            if count <= _FEW:
                continue
            at = xp.asarray((sequences.begins[members][:, None] + np.arange(count)).reshape((-1,)))
            queries = xp.take(call.q[:, :, 0], at, axis=0).reshape((members.size, count, *call.q.shape[1::2]))
            totals = sequences.totals[members]
            keys, values = rows_seen(node, (caches[0], caches[1]), (None, None), call.pages[members], totals)
            lengths = Lengths.of(xp, tuple(sequences.starts[members].tolist()), tuple(totals.tolist()))
            turned = xp.ascontiguousarray(queries.swapaxes(1, 2))
            found = attend_many(xp, turned, keys, values, lengths, scoring, tf32=self._tf32)
            y[at] = found.reshape((-1, 1, *found.shape[2:]))


def _writable(xp: Any, cache: Array, out: Array | None) -> Array:
    """A cache that may be written to: what is given, with the cache's content, or a copy."""
    if out is None:
        return xp.array(cache, order="C")
    if out.data.ptr != cache.data.ptr:
        out[...] = cache
    return out


_FLOATS = tensors(DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16)

KERNELS = [
    definition.replace(
        factory=paged_attention,
        types={**definition.types, "T": _FLOATS},
        implementation=f"{__name__}:paged_attention",
    )
    for definition in LIBRARY
]
"""With all that the library's declare, which may be called in their place."""
