"""MultiHeadAttention and DecoderMaskedMultiHeadAttention of com.microsoft: heads that are already projected.

Reads the many forms in which queries, keys, values and their past arrive and hands them to the library's attention.
Both operators are one function: the second is the first for one query, with its inputs in another order. It is
independent of weights.
"""

from __future__ import annotations

import math
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.devices import HOST
from ort_py.dtypes import numpy_dtype
from ort_py.errors import InvalidArgument
from ort_py_array.attention.core import Rule, attend, expect_entries, grown, split_heads
from ort_py_array.attention.one_row import one_row
from ort_py_array.checks import check_indices, shape_error
from ort_py_array.contrib.attention_masks import padding_mask
from ort_py_array.contrib.cached_keys import check_cache, one_number, written
from ort_py_array.contrib.schemas.notation import DOMAIN
from ort_py_array.precision import rounded, widened

__all__ = ["KERNELS", "decoder_masked_multi_head_attention", "multi_head_attention"]


def multi_head_attention(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.MultiHeadAttention-1: ``softmax(q kᵀ · scale + bias + mask) v`` by head.

    Queries ``(batch, length, heads · size)`` with keys and values of the same form, of one array ``(batch, length,
    heads, 2, size)``, or of caches ``(batch, heads, length, size)``; or all three in the query ``(batch, length,
    heads, 3, size)``. `bias` holds one entry per column of each. Past keys come before the new ones; with
    past_sequence_length the past is a buffer, and cache_indirection ``(batch / beams, beams, rows)`` says for one query
    which beam a row comes from. The fourth output holds the scores before the softmax,
    -inf where a query does not see a key.

    Raises:
        InvalidArgument: Shapes that do not belong together, or half a past.
        LimitError: A result would pass the session's limits.
    """
    run = _Attention(ctx)

    def call(
        query: Array,
        key: Array | None = None,
        value: Array | None = None,
        bias: Array | None = None,
        mask: Array | None = None,
        attention_bias: Array | None = None,
        past_key: Array | None = None,
        past_value: Array | None = None,
        past_length: Array | None = None,
        beams: Array | None = None,
    ) -> tuple[Any, ...]:
        shares = past_length is not None and past_key is not None
        if key is None and query.ndim != 5:
            raise InvalidArgument(
                f"There is no key, and the query has shape {list(query.shape)}.",
                where=ctx.node.location,
                fix="Connect the key, or pack all three into a query (batch, length, heads, 3, size).",
            )
        if run.on_host and query.ndim == 3 and bias is mask is past_length is beams is None:
            found = run.of_one_row(query, key, value, attention_bias, past_key, past_value)
            if found is not None:
                return found
        past = (past_key, past_value, past_length if shares else None, beams)
        return run(query, key, value, bias, mask, attention_bias, past, shares)

    return call


def decoder_masked_multi_head_attention(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.DecoderMaskedMultiHeadAttention-1: MultiHeadAttention for one query.

    Without a past it reads keys and values from caches; a query may also pack all three as ``(batch, 1, 3 · heads ·
    size)``. Keys of a shared buffer stay in the order ``(batch, heads, rows, size)``, as on onnxruntime's CPU.

    Raises:
        InvalidArgument: More than one query, beams without cache_indirection, or as MultiHeadAttention.
        LimitError: A result would pass the session's limits.
    """
    run = _Attention(ctx)
    shares = bool(ctx.node.attributes.get("past_present_share_buffer", 0))
    where = ctx.node.location

    def call(
        query: Array,
        key: Array | None = None,
        value: Array | None = None,
        mask: Array | None = None,
        attention_bias: Array | None = None,
        past_key: Array | None = None,
        past_value: Array | None = None,
        past_length: Array | None = None,
        beam_width: Array | None = None,
        beams: Array | None = None,
        bias: Array | None = None,
    ) -> tuple[Any, ...]:
        if query.ndim < 2 or query.shape[1] != 1:
            raise InvalidArgument(
                f"The query has shape {list(query.shape)}.",
                where=where,
                why="DecoderMaskedMultiHeadAttention decodes one position at a time",
                fix="Feed (batch, 1, size), or use MultiHeadAttention.",
            )
        if beam_width is not None and beams is None:
            one_number(
                ctx, "beam_width", beam_width, 1, 1, "there is no cache_indirection to say where beams come from"
            )
        past = (past_key, past_value, past_length if shares else None, beams)
        return run(query, key, value, bias, mask, attention_bias, past, shares and past_key is not None)

    return call


class _Attention:
    """The common part of both operators, with the attributes read once."""

    def __init__(self, ctx: KernelContext) -> None:
        attributes = ctx.node.attributes
        self._ctx = ctx
        self.on_host = ctx.device == HOST
        self._heads = int(attributes["num_heads"])
        self._scale = attributes.get("scale") or None
        self._causal = bool(attributes.get("unidirectional", 0))
        self._rules: dict[tuple[int, bool], Rule] = {}
        outputs = ctx.node.outputs
        self._asked = [len(outputs) > index and outputs[index] is not None for index in range(4)]
        kind = outputs[3].data_type if self._asked[3] and outputs[3] is not None else None
        self._kind = None if kind is None else numpy_dtype(kind)

    def of_one_row(
        self,
        query: Array,
        key: Array | None,
        value: Array | None,
        attention_bias: Array | None,
        past_key: Array | None,
        past_value: Array | None,
    ) -> tuple[Any, ...] | None:
        """The outputs where queries of three dimensions have one row and nothing is unusual; None elsewhere."""
        if query.shape[1] != 1 or key is None or value is None or self._asked[3]:
            return None
        if key.ndim == 4 if past_key is not None else self._asked[1] or self._asked[2]:
            return None  # a cache has no past; without a past, what is returned would be a view of an input
        heads = self._heads
        found = one_row(self._ctx, self._scale, heads, heads, query, key, value, attention_bias, past_key, past_value)
        if found is None:
            return None
        y, k, v = found
        return y.reshape((query.shape[0], 1, heads * y.shape[3])), k, v, None

    def __call__(
        self,
        query: Array,
        key: Array | None,
        value: Array | None,
        bias: Array | None,
        mask: Array | None,
        attention_bias: Array | None,
        past: tuple[Array | None, Array | None, Array | None, Array | None],
        shares: bool,
    ) -> tuple[Any, ...]:
        ctx = self._ctx
        past_key, past_value, past_length, beams = past
        cached = key is not None and key.ndim == 4
        q, k, v = self._separate(query, key, value)
        if bias is not None:
            q, k, v = self._biased([q, k, v], bias, cached)
        batch, added = q.shape[0], k.shape[2]
        if cached and past_key is not None:
            raise shape_error("Keys that are a cache have no past.", ctx.node.location, [query.shape, past_key.shape])
        if (k.shape[0], *v.shape[:3]) != (batch, *k.shape[:3]):
            raise shape_error(
                "Query, key and value do not belong together.", ctx.node.location, [q.shape, k.shape, v.shape]
            )
        length = held = check_cache(ctx, past_key, past_value, batch, self._heads, (k.shape[3], v.shape[3]))
        if shares:
            why = f"the past is a buffer of {held} rows, and {added} are added"
            length = one_number(ctx, "past_sequence_length", past_length, 0, held - added, why)
        present = [k, v]
        if past_key is not None and past_value is not None and not shares and beams is None and k.dtype == query.dtype:
            k, v = present = [grown(ctx, past_key, k), grown(ctx, past_value, v)]
        elif past_key is not None and past_value is not None:
            size = held if shares else length + added
            present = [
                written(ctx, old, new, (length,) * batch, size, keep=shares)
                for old, new in ((past_key, k), (past_value, v))
            ]
            k, v = (x[:, :, : length + added] for x in present)
            if beams is not None:
                k, v = self._of_beams(present, beams, length, length + added)
        expect_entries(attention_bias, k, "attention bias", ctx.node.location)
        y, scores = self._attend(q, k, v, mask, attention_bias, length)
        made = [
            self._new(x, query.dtype, reused=past_key is not None) if asked else None
            for x, asked in zip(present, self._asked[1:3], strict=True)
        ]
        if scores is not None:
            scores = rounded(scores, query.dtype if self._kind is None else self._kind)
        return rounded(y, query.dtype), *made, scores

    def _attend(
        self, q: Array, k: Array, v: Array, mask: Array | None, attention_bias: Array | None, length: int
    ) -> tuple[Array, Array | None]:
        rows = q.shape[2]
        masks = () if attention_bias is None else (attention_bias,)
        if mask is not None:
            padding = padding_mask(self._ctx, mask, q.shape[0], rows, length, k.shape[2])
            masks = masks if padding is None else (*masks, padding)
        rule = self._rule(q.shape[3], self._causal and rows > 1)
        return attend(self._ctx, q, k, v, rule, mask=masks, offsets=length, packed=True)

    def _rule(self, size: int, causal: bool) -> Rule:
        """The rule for heads of `size`, made once."""
        rule = self._rules.get((size, causal))
        if rule is None:
            rule = self._rules[size, causal] = Rule(
                scale=self._scale or 1.0 / math.sqrt(size or 1),
                right=0 if causal else None,
                stage="biased" if self._asked[3] else None,
            )
        return rule

    def _separate(self, query: Array, key: Array | None, value: Array | None) -> list[Array]:
        """Queries, keys and values ``(batch, heads, length, size)``, views."""
        ctx, heads = self._ctx, self._heads
        if key is not None and value is not None and query.ndim == key.ndim == value.ndim == 3:
            return [split_heads(ctx, x, heads) for x in (query, key, value)]
        packed = query.ndim == 5 or key is None
        shapes = [x.shape for x in (query, key, value) if x is not None]
        if packed:
            three = query
            if query.ndim == 3 and heads > 0 and query.shape[2] % (3 * heads) == 0:
                three = query.reshape((query.shape[0], query.shape[1], 3, heads, query.shape[2] // (3 * heads)))
                three = three.swapaxes(2, 3)
            if three.ndim != 5 or three.shape[2:4] != (heads, 3) or key is not None or value is not None:
                raise shape_error(
                    f"A query that packs keys and values has {heads} heads of each and no other input beside it.",
                    ctx.node.location,
                    shapes,
                )
            return [three[:, :, :, index].swapaxes(1, 2) for index in range(3)]
        q = split_heads(ctx, query, heads)
        if key is not None and key.ndim == 5:
            if key.shape[0] != query.shape[0] or key.shape[2:] != (heads, 2, q.shape[3]) or value is not None:
                raise shape_error(
                    f"A key that packs values has the shape (batch, length, {heads}, 2, {q.shape[3]}), without values "
                    "beside it.",
                    ctx.node.location,
                    shapes,
                )
            return [q, *(key[:, :, :, index].swapaxes(1, 2) for index in range(2))]
        if key is None or value is None or key.ndim != value.ndim:
            raise shape_error("Keys and values must be given in one form.", ctx.node.location, shapes)
        k, v = (x if x.ndim == 4 else split_heads(ctx, x, heads) for x in (key, value))
        if k.shape[1] != heads:
            raise shape_error(f"The keys do not have {heads} heads.", ctx.node.location, shapes)
        return [q, k, v]

    def _biased(self, parts: list[Array], bias: Array, cached: bool) -> list[Array]:
        """With the bias of the projections added, one entry per column; keys and values from caches have theirs."""
        xp = self._ctx.xp
        columns = [x.shape[1] * x.shape[3] for x in parts]
        if tuple(bias.shape) != (sum(columns),):
            raise shape_error(
                f"The bias must have {sum(columns)} entries, one per column of queries, keys and values.",
                self._ctx.node.location,
                [bias.shape],
            )
        wide, done = widened(xp, bias), 0
        results = []
        for x, count in zip(parts[: 1 if cached else 3], columns, strict=False):
            own = wide[done : done + count].reshape((1, x.shape[1], 1, x.shape[3]))
            results.append(xp.add(widened(xp, x), own))
            done += count
        return [*results, *parts[len(results) :]]

    def _of_beams(self, present: list[Array], beams: Array, length: int, keys: int) -> list[Array]:
        """Keys and values with the rows of the past taken from the beams that they came from."""
        ctx, xp = self._ctx, self._ctx.xp
        batch = present[0].shape[0]
        width = beams.shape[1] if beams.ndim == 3 else 0
        if beams.ndim != 3 or beams.shape[0] * width != batch or beams.shape[2] < length:
            raise shape_error(
                f"cache_indirection must be (batch / beams, beams, rows) for {batch} entries and {length} past rows.",
                ctx.node.location,
                [beams.shape],
            )
        chosen = beams[:, :, :length]
        if chosen.size and xp.min(chosen).item() < 0:
            raise InvalidArgument(
                "cache_indirection names a beam below 0.",
                where=ctx.node.location,
                fix=f"Beams count from 0 to {width - 1}.",
            )
        check_indices(ctx, chosen, width)
        first = xp.arange(beams.shape[0]).reshape((-1, 1, 1)) * width
        sources = (first + chosen).reshape((batch, length))
        rows = xp.arange(length)
        found = []
        for x in present:
            y = xp.empty((*x.shape[:2], keys, x.shape[3]), x.dtype)
            xp.moveaxis(y, 1, 2)[:, :length] = xp.moveaxis(x, 1, 2)[sources, rows]
            y[:, :, length:] = x[:, :, length:keys]
            found.append(y)
        return found

    def _new(self, x: Array, dtype: Any, *, reused: bool) -> Array:
        """Return an output that is not a view of an input."""
        return rounded(x, dtype) if reused else self._ctx.xp.array(x, dtype=dtype, order="C")


KERNELS = [
    KernelDef(
        "MultiHeadAttention",
        multi_head_attention,
        domain=DOMAIN,
        since=1,
        outputs=4,
        strided=True,
        host_inputs=frozenset({8}),
        implementation=f"{__name__}:multi_head_attention",
    ),
    KernelDef(
        "DecoderMaskedMultiHeadAttention",
        decoder_masked_multi_head_attention,
        domain=DOMAIN,
        since=1,
        outputs=4,
        strided=True,
        host_inputs=frozenset({7, 8}),
        implementation=f"{__name__}:decoder_masked_multi_head_attention",
    ),
]
