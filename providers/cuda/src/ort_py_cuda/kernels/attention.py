"""Attention-23 to 25 and com.microsoft's MultiHeadAttention through cuDNN's fused attention.

Reads what inputs and attributes say and hands it to `fused_attention`. What cuDNN does not have (float32, a soft cap,
windows, the matrix of scores, caches outside, beams) and short queries are the array library's.
"""

from __future__ import annotations

import math
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelFactory, tensors
from ort_py.dtypes import DataType
from ort_py_array.contrib.attention_masks import padding_mask
from ort_py_array.precision import rounded, widened
from ort_py_cuda.cudnn.frontend import missing_frontend
from ort_py_cuda.kernels.fused_attention import FusedAttention
from ort_py_cuda.kernels.standing import note_fallback, over_library

__all__ = ["KERNELS", "attention", "multi_head_attention"]


_NOTED = 8
"""Different reasons of one node that go to the log."""


def _asks_for(ctx: KernelContext, output: int) -> bool:
    outputs = ctx.node.outputs
    return len(outputs) > output and outputs[output] is not None


def _refusal(ctx: KernelContext) -> str | None:
    """Explain why no call of an Attention node can use cuDNN, or return None."""
    attributes = ctx.node.attributes
    missing = missing_frontend()
    if missing is not None:
        return missing
    if attributes.get("softcap", 0.0):
        return "a soft cap"
    if any(attributes.get(name, -1) != -1 for name in ("left_window_size", "right_window_size")):
        return "a window"
    if _asks_for(ctx, 3):
        return "the matrix of scores is an output"
    if attributes.get("softmax_precision") == DataType.DOUBLE:
        return "a softmax in float64"
    return None


def attention(ctx: KernelContext, library: KernelFactory) -> KernelCallable:
    """Attention-23..25 of halves: ``softmax(q kᵀ · scale + mask) v``, everything else by the array library."""
    by_library = library(ctx)
    refusal = _refusal(ctx)
    if refusal is not None:
        note_fallback(ctx, refusal)
        return by_library
    xp, attributes = ctx.xp, ctx.node.attributes
    causal = bool(attributes.get("is_causal", 0))
    heads, key_heads = attributes.get("q_num_heads"), attributes.get("kv_num_heads")
    scale = attributes.get("scale")
    fused = FusedAttention(ctx)
    noted: set[str | None] = set()

    def run(
        q: Array,
        k: Array,
        v: Array,
        mask: Array | None = None,
        past_key: Array | None = None,
        past_value: Array | None = None,
        nonpad: Array | None = None,
    ) -> Any:
        packed = q.ndim == 3
        split = _split((q, k, v), (heads, key_heads, key_heads)) if packed else (q, k, v)
        reason: str | None = "shapes that are the array library's to judge"
        if split is not None and nonpad is None and _has_past(split, past_key, past_value) is not None:
            offset = 0 if past_key is None else past_key.shape[2]
            reason = fused.refusal(*split, causal=causal, offset=offset, masked=mask is not None)
            if reason is None:
                queries, *present = split
                if past_key is not None:
                    present = [
                        xp.concatenate(pair, axis=2) for pair in zip((past_key, past_value), present, strict=True)
                    ]
                result = fused(
                    queries,
                    *present,
                    scale=1.0 / math.sqrt(queries.shape[-1] or 1) if scale is None else float(scale),
                    masks=() if mask is None else (mask,),
                    causal=causal,
                    offset=offset,
                    packed=packed,
                )
                if not isinstance(result, str):
                    return result, *present, None
                reason = result
        if reason not in noted and len(noted) < _NOTED:
            noted.add(reason)
            note_fallback(ctx, reason)
        return by_library(q, k, v, mask, past_key, past_value, nonpad)

    return run


def _split(operands: tuple[Array, ...], heads: tuple[int | None, ...]) -> tuple[Array, Array, Array] | None:
    """``(batch, length, heads · size)`` as views ``(batch, heads, length, size)``; None where they are not that."""
    views = []
    for x, count in zip(operands, heads, strict=True):
        if x.ndim != 3 or not count or x.shape[2] % count:
            return None
        views.append(x.reshape((x.shape[0], x.shape[1], count, x.shape[2] // count)).swapaxes(1, 2))
    return views[0], views[1], views[2]


def _has_past(split: tuple[Array, Array, Array], past_key: Array | None, past_value: Array | None) -> bool | None:
    """Return whether there are keys before the new ones; None where what there is does not fit them."""
    if past_key is None and past_value is None:
        return False
    pairs = ((past_key, split[1]), (past_value, split[2]))
    fits = all(
        past is not None and past.ndim == 4 and (past.shape[:2], past.shape[3]) == (new.shape[:2], new.shape[3])
        for past, new in pairs
    )
    return True if fits else None


def multi_head_attention(ctx: KernelContext, library: KernelFactory) -> KernelCallable:
    """com.microsoft.MultiHeadAttention-1 of halves with queries, keys and values apart; else by the array library."""
    by_library = library(ctx)
    missing = missing_frontend() or ("the matrix of scores is an output" if _asks_for(ctx, 3) else None)
    if missing is not None:
        note_fallback(ctx, missing)
        return by_library
    xp, attributes = ctx.xp, ctx.node.attributes
    heads = int(attributes["num_heads"])
    scale = attributes.get("scale") or None
    causal = bool(attributes.get("unidirectional", 0))
    asked = [_asks_for(ctx, index) for index in (1, 2)]
    fused = FusedAttention(ctx)

    def run(*inputs: Array | None) -> Any:
        found = served(*inputs)
        return by_library(*inputs) if found is None else found

    def served(
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
    ) -> Any:
        if key is None or value is None or past_length is not None or beams is not None:
            return None
        if bias is not None:
            widths = [x.shape[-1] for x in (query, key, value)]
            if tuple(bias.shape) != (sum(widths),):
                return None
        split = _split((query, key, value), (heads,) * 3)
        if split is None or _has_past(split, past_key, past_value) is None:
            return None
        offset = 0 if past_key is None else past_key.shape[2]
        masked = mask is not None or attention_bias is not None
        if fused.refusal(*split, causal=causal, offset=offset, masked=masked) is not None:
            return None
        if bias is not None:
            parts = xp.split(widened(xp, bias), [widths[0], widths[0] + widths[1]])
            projected = [
                rounded(xp.add(widened(xp, x), part), x.dtype)
                for x, part in zip((query, key, value), parts, strict=True)
            ]
            split = _split((projected[0], projected[1], projected[2]), (heads,) * 3)
            assert split is not None  # of the same shapes as before
        q, k, v = split
        if past_key is not None and past_value is not None:
            k, v = (xp.concatenate(pair, axis=2) for pair in ((past_key, k), (past_value, v)))
        padding = padding_mask(ctx, mask, q.shape[0], q.shape[2], offset, k.shape[2])
        y = fused(
            q,
            k,
            v,
            scale=float(scale or 1.0 / math.sqrt(q.shape[3] or 1)),
            masks=tuple(one for one in (attention_bias, padding) if one is not None),
            causal=causal,
            offset=offset,
            packed=True,
        )
        if isinstance(y, str):
            return None
        # Without a past the present ones are views of the inputs, which an output may not be.
        fresh = past_key is None
        present = [
            (xp.array(x, order="C") if fresh else x) if wanted else None
            for x, wanted in zip((k, v), asked, strict=True)
        ]
        return y, *present, None

    return run


_HALVES = tensors(DataType.FLOAT16, DataType.BFLOAT16)

KERNELS = [
    *(
        definition.replace(types={**definition.types, "T1": _HALVES, "T2": _HALVES})
        for definition in over_library("Attention", attention)
    ),
    *over_library("MultiHeadAttention", multi_head_attention, domain="com.microsoft", types={"T": _HALVES}),
]
