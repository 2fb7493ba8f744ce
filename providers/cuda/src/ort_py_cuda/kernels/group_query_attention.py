"""GroupQueryAttention of com.microsoft with its caches on the device.

The presents are new arrays, as everywhere: a feed is never written to, so a buffer that past and present share cannot
be had from the engine; a kernel copies the past behind which it writes the new rows. Caches in pages are those of
`paged_attention`. Quantised caches, sliding ones and the matrix of scores are left to the array library.
"""

from __future__ import annotations

from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef, tensors
from ort_py.dtypes import DataType
from ort_py_array.contrib.cached_keys import check_cache
from ort_py_array.contrib.group_query_attention import group_query_attention as library
from ort_py_array.contrib.grouped_heads import Places, check_heads, places_of, separated
from ort_py_array.contrib.rotary import check_caches, position_error
from ort_py_cuda.kernels.grouped_attention import attend_few, attend_many, default_scale, stored, turned_queries
from ort_py_cuda.kernels.grouped_forms import Lengths, Rotary, Scoring
from ort_py_cuda.kernels.pictures import aligned
from ort_py_cuda.settings import current

__all__ = ["KERNELS", "group_query_attention"]

_UNIT = 8
"""Elements that a head of our kernels is a multiple of."""

_LARGEST_HEAD = 256


def group_query_attention(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.GroupQueryAttention-1: see the array library's, whose meaning this has.

    Positions that are fed are not waited for: where one is outside the caches of cosines and sines, the nearest row is
    taken.

    Raises:
        InvalidArgument: Shapes, lengths or attributes that do not belong together.
    """
    attributes, outputs = ctx.node.attributes, ctx.node.outputs
    others = library(ctx)  # it says what is wrong with the attributes
    quantized = any(attributes.get(f"{side}_quant_type", "NONE") != "NONE" for side in "kv")
    matrix = len(outputs) > 3 and outputs[3] is not None
    if quantized or matrix or attributes.get("sliding_window_cache", 0):
        return others
    node = _Node(ctx)

    def run(*inputs: Any) -> tuple[Any, ...]:
        given = (*inputs, *(None,) * (16 - len(inputs)))
        found = node.run(*given)
        return others(*inputs) if found is None else found

    return run


class _Node:
    """A node's attributes, read once."""

    def __init__(self, ctx: KernelContext) -> None:
        attributes = ctx.node.attributes
        self._ctx = ctx
        self._heads, self._key_heads = check_heads(ctx)
        self._scale = float(attributes.get("scale") or 0.0)
        self._softcap = float(attributes.get("softcap", 0.0))
        self._rotary = bool(attributes.get("do_rotary", 0))
        self._interleaved = bool(attributes.get("rotary_interleaved", 0))
        self._causal = bool(attributes.get("causal", 1))
        self._window = max(0, int(attributes.get("local_window_size", -1)))
        self._smooth = int(attributes.get("smooth_softmax", -1)) == 1
        self._epsilon = float(attributes.get("qk_norm_epsilon", 1e-6))
        self._tf32 = current().tf32

    def run(
        self,
        query: Array,
        key: Array | None,
        value: Array | None,
        past_key: Array | None,
        past_value: Array | None,
        seqlens_k: Array,
        total_sequence_length: Array,
        cos: Array | None,
        sin: Array | None,
        position_ids: Array | None,
        bias: Array | None,
        sinks: Array | None,
        _k_scale: Array | None,
        _v_scale: Array | None,
        q_norm: Array | None,
        k_norm: Array | None,
    ) -> tuple[Any, ...] | None:
        """The outputs; None for what only the library runs, or refuses."""
        ctx, xp = self._ctx, self._ctx.xp
        q, k, v = separated(ctx, query, key, value, self._heads, self._key_heads)
        batch, rows, _, size = q.shape
        held = check_cache(ctx, past_key, past_value, batch, self._key_heads, (size, size))
        places = places_of(ctx, (batch, rows), k.shape[1], held, seqlens_k, total_sequence_length)
        if size % _UNIT or size > _LARGEST_HEAD or not batch or not rows:
            return None
        if past_key is not None and past_key.dtype != q.dtype:
            return None
        wanted = ((1, batch), (1, self._heads), (1, rows), (places.total,))
        if bias is not None and (bias.ndim != 4 or any(s not in w for s, w in zip(bias.shape, wanted, strict=True))):
            return None
        if (q_norm is None) != (k_norm is None) or (q_norm is not None and q_norm.shape != (size,)):
            return None
        if self._rotary and (cos is None or sin is None):
            return None
        lengths = Lengths.of(xp, places.starts, places.totals)
        turning = self._turning(q, places, cos, sin, position_ids)
        if turning is None:
            return None
        of_q, of_k = (_with_norm(turning, weight, q.dtype, self._epsilon) for weight in (q_norm, k_norm))
        length = max(held, places.total)
        ctx.check_allocation((batch, self._key_heads, length, size), q.dtype)
        past_key, past_value = aligned(xp, past_key, past_value)
        keys, values = (
            stored(xp, past, new, length, lengths, *how)
            for past, new, how in ((past_key, k, (of_k,)), (past_value, v, ()))
        )
        scoring = Scoring(
            self._heads,
            self._heads // self._key_heads,
            self._scale or default_scale(size),
            self._softcap,
            self._window,
            self._causal,
            self._smooth,
            None if bias is None else bias.astype(q.dtype, copy=False),
            None if sinks is None else sinks.astype(q.dtype, copy=False),
        )
        turned = turned_queries(xp, q, lengths, of_q)
        if rows == 1:
            y = attend_few(xp, turned, keys, values, lengths, scoring)
        else:
            seen = keys[:, :, : places.total], values[:, :, : places.total]
            y = attend_many(xp, turned, *seen, lengths, scoring, tf32=self._tf32)
        return y.reshape((batch, rows, self._heads * size)), keys, values, None

    def _turning(
        self, q: Array, places: Places, cos: Array | None, sin: Array | None, position_ids: Array | None
    ) -> Rotary | None:
        """The rotation of heads. None if positions have a shape that the library refuses."""
        if not self._rotary or cos is None or sin is None:
            return Rotary()
        ctx = self._ctx
        check_caches(ctx, cos, sin, q.shape[3])
        if position_ids is None and places.starts:
            last = max(places.starts) + places.rows - 1
            if min(places.starts) < 0 or last >= cos.shape[0]:
                raise position_error(ctx, min(*places.starts, last) if min(places.starts) < 0 else last, cos.shape[0])
        first = position_ids is not None and places.first and position_ids.size > 0
        if position_ids is not None and not first and tuple(position_ids.shape) != tuple(q.shape[:2]):
            return None
        cosines, sines = (one.astype(q.dtype, copy=False) for one in (cos, sin))
        return Rotary(cosines, sines, position_ids, first, self._interleaved)


def _with_norm(how: Rotary, weight: Array | None, dtype: Any, epsilon: float) -> Rotary:
    if weight is None:
        return how
    return Rotary(
        how.cosines,
        how.sines,
        how.positions,
        how.first,
        how.interleaved,
        weight.astype(dtype, copy=False),
        epsilon,
    )


_FLOATS = tensors(DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16)

KERNELS = [
    KernelDef(
        "GroupQueryAttention",
        group_query_attention,
        domain="com.microsoft",
        since=1,
        types={"T": _FLOATS},
        outputs=4,
        host_inputs=frozenset({5, 6}),
        implementation=f"{__name__}:group_query_attention",
    )
]
