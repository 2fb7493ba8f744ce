"""GroupQueryAttention of com.microsoft: grouped heads over a cache, as decoders of large language models use it.

Says where queries and new keys stand, turns them, moves the cache on, and hands the rest to the library's attention.
The first prompt may be padded on the right; what padded queries get is of no meaning. It does not depend on weights.
"""

from __future__ import annotations

import math
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext, KernelDef, KernelForms
from ort_py.devices import HOST
from ort_py.errors import InvalidArgument
from ort_py_array.attention.core import Rule, Stage, attend
from ort_py_array.checks import shape_error
from ort_py_array.contrib.cached_keys import check_cache, written, written_over
from ort_py_array.contrib.grouped_cache import GroupedCache
from ort_py_array.contrib.grouped_heads import Places, check_heads, normalized, places_of, separated
from ort_py_array.contrib.one_position import one_position
from ort_py_array.contrib.quantized_cache import cache_format
from ort_py_array.contrib.rotary import check_caches, turned
from ort_py_array.contrib.schemas.notation import DOMAIN
from ort_py_array.contrib.window_cache import columns_of, last_rows, resident

__all__ = ["KERNELS", "group_query_attention"]

_STAGES: tuple[Stage | None, ...] = (None, "biased", "probabilities")


def group_query_attention(ctx: KernelContext) -> KernelForms:
    """com.microsoft.GroupQueryAttention-1: causal attention of `num_heads` query to `kv_num_heads` key heads.

    Queries ``(batch, length, heads · size)`` with keys and values, or packed with them; a past ``(batch, key heads,
    rows, size)``, which may be a buffer longer than what is filled. Each sequence has ``seqlens_k + 1`` keys, of which
    the last `length` are new; in a first prompt, which is as long as total_sequence_length, they are the first.
    The presents are new arrays, as long as the past or total_sequence_length, with zeros behind the last key. Where the
    caller gave one buffer for a past and its present, new rows are written into it and all others stay; what is behind
    the last key has no meaning.

    Raises:
        InvalidArgument: Shapes, lengths or attributes that do not belong together.
        LimitError: A result would pass the session's limits.
    """
    node = _Node(ctx)

    def run(
        query: Array,
        key: Array | None,
        value: Array | None,
        past_key: Array | None,
        past_value: Array | None,
        seqlens_k: Array,
        total_sequence_length: Array,
        cos: Array | None = None,
        sin: Array | None = None,
        position_ids: Array | None = None,
        attention_bias: Array | None = None,
        head_sink: Array | None = None,
        k_scale: Array | None = None,
        v_scale: Array | None = None,
        q_norm: Array | None = None,
        k_norm: Array | None = None,
        *,
        over: tuple[Array | None, ...] = (),
    ) -> tuple[Any, ...]:
        plain = position_ids is attention_bias is head_sink is k_scale is v_scale is q_norm is k_norm is None
        if plain and node.is_plain and past_key is not None and past_value is not None:
            shares = len(over) > 2 and over[1] is not None and over[2] is not None
            found = node.of_one_position(
                query, key, value, past_key, past_value, seqlens_k, total_sequence_length, cos, sin, over=shares
            )
            if found is not None:
                return (*found, None)
        q, k, v = separated(ctx, query, key, value, node.heads, node.key_heads)
        size = q.shape[3]
        formats = [
            None if how is None else (how, how.scale(scale, node.key_heads, size))
            for how, scale in zip(node.formats, (k_scale, v_scale), strict=True)
        ]
        stored = [size if one is None else size * one[0].bits // 8 for one in formats]
        held = check_cache(ctx, past_key, past_value, q.shape[0], node.key_heads, (stored[0], stored[1]))
        places = places_of(
            ctx, q.shape[:2], k.shape[1], None if node.evicts else held, seqlens_k, total_sequence_length
        )
        q, k = normalized(ctx, q, k, q_norm, k_norm, node.epsilon)
        q, k = node.turned(q, k, places, cos, sin, position_ids)
        caches = [
            GroupedCache(ctx, past, one, new.swapaxes(1, 2), size, over=place < len(over) and over[place] is not None)
            for place, (past, one, new) in enumerate(zip((past_key, past_value), formats, (k, v), strict=True), 1)
        ]
        seen = node.attend_windowed if node.evicts else node.attend
        y, matrix = seen(q.swapaxes(1, 2), caches, places, held, attention_bias, head_sink)
        return y, caches[0].present, caches[1].present, matrix

    count = len(ctx.node.inputs)

    def update(*arrays: Array) -> tuple[Any, ...]:
        return run(*arrays[:count], over=arrays[count:])

    return KernelForms(count, run, None, update)


class _Node:
    """A node's attributes, read once, and the steps of its calls."""

    def __init__(self, ctx: KernelContext) -> None:
        attributes = ctx.node.attributes
        self.ctx = ctx
        self.heads, self.key_heads = check_heads(ctx)
        self.formats = (cache_format(ctx, "k"), cache_format(ctx, "v"))
        if (self.formats[0] is None) != (self.formats[1] is None):
            raise InvalidArgument(
                "Only one of k_quant_type and v_quant_type is 'NONE'.",
                where=ctx.node.location,
                why="keys and values are stored in one type",
                fix="Quantise both, or neither.",
            )
        self.evicts = bool(attributes.get("sliding_window_cache", 0))
        self._scale = attributes.get("scale") or None
        self._softcap = float(attributes.get("softcap", 0.0))
        self._rotary = bool(attributes.get("do_rotary", 0))
        self._interleaved = bool(attributes.get("rotary_interleaved", 0))
        self._causal = bool(attributes.get("causal", 1))
        self._window = int(attributes.get("local_window_size", -1))
        self._smooth = int(attributes.get("smooth_softmax", -1)) == 1
        self.epsilon = float(attributes.get("qk_norm_epsilon", 1e-6))
        output = int(attributes.get("qk_output", 0))
        wrong = self._window == 0 or self._window < -1 or (self._window > 0 and not self._causal)
        if wrong or not 0 <= output <= 2 or (self.evicts and self._window < 1):
            raise InvalidArgument(
                f"local_window_size is {self._window}, sliding_window_cache {int(self.evicts)}, causal "
                f"{int(self._causal)} and qk_output {output}.",
                where=ctx.node.location,
                why="only causal attention has a window, a sliding cache needs one, and qk_output is 0, 1 or 2",
                fix="Use -1 for no window, otherwise the number of keys that a query sees, itself included.",
            )
        outputs = ctx.node.outputs
        self._stage = _STAGES[output] if len(outputs) > 3 and outputs[3] is not None else None
        unusual = self.evicts or self._softcap or self._smooth or self._stage is not None or self.formats[0] is not None
        self.is_plain = ctx.device == HOST and not unusual

    def of_one_position(
        self,
        query: Array,
        key: Array | None,
        value: Array | None,
        past_key: Array,
        past_value: Array,
        seqlens_k: Array,
        total: Array,
        cos: Array | None,
        sin: Array | None,
        *,
        over: bool,
    ) -> tuple[Array, Array, Array] | None:
        """Outputs of the usual call of a decoder; None where the call is another one."""
        angles = None
        if self._rotary:
            if cos is None or sin is None:
                return None
            angles = cos, sin
        return one_position(
            self.ctx,
            self._scale,
            self.heads,
            self.key_heads,
            query,
            key,
            value,
            past_key,
            past_value,
            seqlens_k,
            total,
            angles,
            interleaved=self._interleaved,
            over=over,
            window=self._window,
        )

    def turned(
        self, q: Array, k: Array, places: Places, cos: Array | None, sin: Array | None, position_ids: Array | None
    ) -> tuple[Array, Array]:
        """Queries and keys turned by the angles of their positions."""
        if not self._rotary:
            return q, k
        ctx, xp = self.ctx, self.ctx.xp
        if cos is None or sin is None:
            raise InvalidArgument(
                "do_rotary is set, but cos_cache or sin_cache is absent.",
                where=ctx.node.location,
                fix="Connect both, or turn the heads before the node.",
            )
        check_caches(ctx, cos, sin, q.shape[3])
        where: tuple[int, ...] | Array = places.starts
        if position_ids is not None:
            if places.first and position_ids.size:
                where = position_ids.reshape((-1,))[:1].reshape((1, 1)) + xp.arange(places.rows)
            elif tuple(position_ids.shape) == tuple(q.shape[:2]):
                where = position_ids
            else:
                raise shape_error(
                    f"position_ids must be {list(q.shape[:2])}, one per query.", ctx.node.location, [position_ids.shape]
                )
        interleaved = self._interleaved
        return (
            turned(ctx, q, cos, sin, where, interleaved=interleaved),
            turned(ctx, k, cos, sin, where, interleaved=interleaved) if places.added else k,
        )

    def attend(
        self,
        q: Array,
        caches: list[GroupedCache],
        places: Places,
        held: int,
        bias: Array | None,
        sink: Array | None,
    ) -> tuple[Array, Array | None]:
        """Attention to a cache that holds the whole sequence; sets the presents."""
        length = max(held, places.total)
        begins = places.starts if places.added else places.totals
        views = []
        for cache in caches:
            if cache.over and cache.past is not None and length == held:
                cache.present = written_over(self.ctx.xp, cache.past, cache.new, begins)
            else:
                cache.present = written(self.ctx, cache.past, cache.new, begins, length)
            views.append(cache.loaded(cache.present[:, :, : places.total]))
        return self._attention(q, views[0], views[1], places.starts, places.totals, bias, sink)

    def attend_windowed(
        self,
        q: Array,
        caches: list[GroupedCache],
        places: Places,
        capacity: int,
        bias: Array | None,
        sink: Array | None,
    ) -> tuple[Array, Array | None]:
        """Attention to a cache that holds a sequence's end, and moves on; sets the presents."""
        ctx, xp = self.ctx, self.ctx.xp
        if capacity < self._window or not places.added or self._stage is not None:
            raise InvalidArgument(
                f"A sliding cache of {capacity} rows for a window of {self._window}.",
                where=ctx.node.location,
                why="it holds at least the window, takes new keys, and has no matrix of all keys to give",
                fix="Feed a past of at least local_window_size rows and new keys, and drop the output output_qk.",
            )
        old = tuple(resident(start, capacity, self._window) for start in places.starts)
        kept = tuple(resident(total, capacity, self._window) for total in places.totals)
        ends = tuple(
            before + total - start for before, start, total in zip(old, places.starts, places.totals, strict=True)
        )
        keys = max(old, default=0) + places.added
        views = []
        for cache in caches:
            rows = written(ctx, cache.past, cache.new, old, keys)
            cache.present = last_rows(xp, rows, ends, kept, capacity)
            views.append(cache.loaded(rows))
        if bias is not None:
            bases = tuple(start - before for start, before in zip(places.starts, old, strict=True))
            bias = columns_of(xp, bias, bases, keys)
        return self._attention(q, views[0], views[1], old, ends, bias, sink)

    def _attention(
        self,
        q: Array,
        k: Array,
        v: Array,
        offsets: tuple[int, ...],
        lengths: tuple[int, ...],
        bias: Array | None,
        sink: Array | None,
    ) -> tuple[Array, Array | None]:
        xp = self.ctx.xp
        rule = Rule(
            scale=self._scale or 1.0 / math.sqrt(q.shape[3] or 1),
            left=self._window - 1 if self._window > 0 else None,
            right=0 if self._causal else None,
            softcap=self._softcap,
            stage=self._stage,
        )
        if sink is None and self._smooth:
            sink = xp.zeros((self.heads,), xp.float32)
        y, matrix = attend(
            self.ctx, q, k, v, rule, mask=bias, offsets=offsets, lengths=lengths, sinks=sink, packed=True
        )
        if matrix is not None and self._stage == "biased":
            self._blank(matrix, offsets, lengths)
        return y, matrix

    def _blank(self, scores: Array, offsets: tuple[int, ...], lengths: tuple[int, ...]) -> None:
        """Make scores of keys out of sight 0, as onnxruntime gives them, where the library has -inf."""
        xp = self.ctx.xp
        keys = xp.arange(scores.shape[3])
        end = xp.asarray(lengths).reshape((-1, 1, 1))
        if self._causal:
            position = xp.asarray(offsets).reshape((-1, 1, 1)) + xp.arange(scores.shape[2]).reshape((-1, 1))
            end = xp.minimum(position + 1, end)
        hidden = xp.greater_equal(keys, end)
        if self._window > 0:
            hidden = xp.logical_or(hidden, xp.less(keys, end - self._window))
        xp.copyto(scores, xp.zeros((), scores.dtype), where=hidden[:, None])


KERNELS = [
    KernelDef(
        "GroupQueryAttention",
        group_query_attention,
        domain=DOMAIN,
        since=1,
        outputs=4,
        strided=True,
        inplace=((3, 1), (4, 2)),
        host_inputs=frozenset({5, 6}),
        implementation=f"{__name__}:group_query_attention",
    )
]
