"""Attention-23, 24 and 25 of ai.onnx: packed or split heads, the cache inside or outside, masks, windows, stages.

Reads what the operator's inputs and attributes say and hands it to `core`. It determines how keys are cached and where
queries stand among them, and computes nothing itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import ALL_FLOATS, ALL_NUMERIC, KernelCallable, KernelContext, KernelDef, tensors
from ort_py.devices import HOST
from ort_py.dtypes import DataType, numpy_dtype
from ort_py.errors import InvalidArgument
from ort_py_array.attention.core import Rule, Stage, attend, expect_entries, grown, split_heads
from ort_py_array.attention.one_row import one_row
from ort_py_array.checks import host_ints, shape_error

__all__ = ["KERNELS", "attention", "softmax_type"]

_STAGES: tuple[Stage, ...] = ("raw", "capped", "biased", "probabilities")

_PRECISIONS = (DataType.FLOAT, DataType.FLOAT16, DataType.DOUBLE, DataType.BFLOAT16)


def softmax_type(ctx: KernelContext) -> Any:
    """The dtype of the attribute `softmax_precision`, None where the node has none.

    Raises:
        InvalidArgument: It is not a floating-point type that the operator names.
    """
    given = ctx.node.attributes.get("softmax_precision")
    if given is None:
        return None
    if given not in _PRECISIONS:
        raise InvalidArgument(
            f"softmax_precision is {given}.",
            where=ctx.node.location,
            why="it must name a floating-point type",
            fix="Use 1 (float), 10 (float16), 11 (double) or 16 (bfloat16).",
        )
    return numpy_dtype(DataType(given))


def attention(ctx: KernelContext) -> KernelCallable:
    """Attention-23..25: ``softmax(softcap(q kᵀ · scale) + mask) v``.

    Queries, keys and values have the shape ``(batch, heads, length, size)``, or ``(batch, length, heads · size)`` with
    `q_num_heads` and `kv_num_heads`; past and present are always of the first form. Queries stand after the past keys,
    or, where the cache is outside (version 24), at the end of the `nonpad_kv_seqlen` keys of their batch entry. From
    version 24 on, a mask shorter than the keys hides the rest, one of a single key included; version 25 adds windows.

    float16 rounds after each step, as the operator's function body and onnxruntime do, unless the scale is negative,
    which has no root; `softmax_precision` makes its softmax more exact. bfloat16 is too short for that and rounds once.

    Raises:
        InvalidArgument: Shapes that do not belong together, half a cache, a cache inside and outside, or an attribute
            out of range.
        LimitError: The result, the present keys or the matrix asked for would pass the session's limits.
    """
    node = ctx.node
    attributes = node.attributes
    causal = bool(attributes.get("is_causal", 0))
    left, right = (_window(ctx, name) for name in ("left_window_size", "right_window_size"))
    softcap = float(attributes.get("softcap", 0.0))
    scale = attributes.get("scale")
    kind = softmax_type(ctx)
    stage = _stage(ctx)
    pads_mask = node.since_version >= 24 and node.body is None  # what a body stands for adds its mask
    rules: dict[tuple[int, bool], Rule] = {}
    counts = attributes.get("q_num_heads"), attributes.get("kv_num_heads")
    plain = ctx.device == HOST and not softcap and kind is None and stage is None and left is None and right is None

    def rule_of(q: Array) -> Rule:
        """The rule for queries of a size and type, made once."""
        key = q.shape[3], q.dtype == ctx.xp.float16
        rule = rules.get(key)
        if rule is None:
            rule = rules[key] = Rule(
                scale=1.0 / math.sqrt(q.shape[3] or 1) if scale is None else scale,
                left=left,
                right=0 if causal else right,
                softcap=softcap,
                softmax_type=kind,
                stage=stage,
                step_type=q.dtype if key[1] and (scale is None or scale >= 0) else None,
            )
        return rule

    def run(
        q: Array,
        k: Array,
        v: Array,
        mask: Array | None = None,
        past_key: Array | None = None,
        past_value: Array | None = None,
        nonpad: Array | None = None,
    ) -> tuple[Array, Array, Array, Array | None]:
        packed = q.ndim == 3
        if (
            plain
            and nonpad is None
            and 3 <= q.ndim == k.ndim <= 4
            and q.shape[-2] == 1
            and causal <= (k.shape[-2] == 1)
        ):
            heads, groups = counts if packed else (q.shape[1], k.shape[1])
            if heads and groups and (packed or counts in ((None, None), (heads, groups))):
                found = one_row(ctx, scale, heads, groups, q, k, v, mask, past_key, past_value)
                if found is not None:
                    y, k, v = found
                    shape = (q.shape[0], 1, heads * y.shape[3]) if packed else (q.shape[0], heads, 1, y.shape[3])
                    return y.reshape(shape), k, v, None
        q, k, v = _with_heads(ctx, q, k, v)
        offsets: tuple[int, ...] | int = 0
        lengths = None
        if past_key is not None or past_value is not None:
            if past_key is None or past_value is None or nonpad is not None:
                raise InvalidArgument(
                    "past_key and past_value belong together, and exclude nonpad_kv_seqlen.",
                    where=node.location,
                    fix="Give the node both past inputs, or a cache outside with nonpad_kv_seqlen, or neither.",
                )
            offsets = past_key.shape[2] if past_key.ndim == 4 else 0
            k, v = _appended(ctx, past_key, k), _appended(ctx, past_value, v)
        elif nonpad is not None:
            lengths = _valid_lengths(ctx, nonpad, k)
            offsets = tuple(length - q.shape[2] for length in lengths)
        if not pads_mask:
            expect_entries(mask, k, "mask", node.location)
        if pads_mask and mask is not None and mask.ndim and mask.shape[-1] == 1 < k.shape[2]:
            lengths = tuple(min(length, 1) for length in lengths or (1,) * q.shape[0])
        y, matrix = attend(ctx, q, k, v, rule_of(q), mask=mask, offsets=offsets, lengths=lengths, packed=packed)
        return y, k, v, matrix

    return run


def _window(ctx: KernelContext, name: str) -> int | None:
    size = ctx.node.attributes.get(name, -1)
    if size < -1:
        raise InvalidArgument(
            f"{name} is {size}.", where=ctx.node.location, fix="Use -1 for no bound, or the number of keys to see."
        )
    return None if size == -1 else int(size)


def _stage(ctx: KernelContext) -> Stage | None:
    """The content of the fourth output, or None if the node has no such output."""
    mode = ctx.node.attributes.get("qk_matmul_output_mode", 0)
    if not 0 <= mode < len(_STAGES):
        raise InvalidArgument(
            f"qk_matmul_output_mode is {mode}.",
            where=ctx.node.location,
            fix="Use 0 (product), 1 (after softcap), 2 (after the mask) or 3 (after softmax).",
        )
    outputs = ctx.node.outputs
    return _STAGES[mode] if len(outputs) > 3 and outputs[3] is not None else None


def _with_heads(ctx: KernelContext, q: Array, k: Array, v: Array) -> Sequence[Array]:
    """Queries, keys and values as ``(batch, heads, length, size)``, views."""
    where, attributes = ctx.node.location, ctx.node.attributes
    heads, key_heads = attributes.get("q_num_heads"), attributes.get("kv_num_heads")
    if not q.ndim == k.ndim == v.ndim or q.ndim not in (3, 4):
        raise shape_error(
            "Query, key and value must all have rank 3 or all rank 4.", where, [q.shape, k.shape, v.shape]
        )
    if q.ndim == 3:
        if heads is None or key_heads is None:
            raise InvalidArgument(
                "Inputs of rank 3 need the attributes q_num_heads and kv_num_heads.",
                where=where,
                why="the last axis holds all heads, and nothing else says how many",
                fix="Set both attributes, or feed inputs of shape (batch, heads, length, size).",
            )
        return [split_heads(ctx, x, count) for x, count in ((q, heads), (k, key_heads), (v, key_heads))]
    if heads not in (None, q.shape[1]) or key_heads not in (None, k.shape[1]):
        raise shape_error(
            f"q_num_heads {heads} and kv_num_heads {key_heads} contradict the inputs' second axes.",
            where,
            [q.shape, k.shape],
        )
    return q, k, v


def _appended(ctx: KernelContext, past: Array, new: Array) -> Array:
    """The present keys or values: the past ones and behind them the new."""
    if past.ndim != 4 or past.shape[:2] != new.shape[:2] or past.shape[3] != new.shape[3]:
        raise shape_error("The past does not fit the new keys or values.", ctx.node.location, [past.shape, new.shape])
    return grown(ctx, past, new)


def _valid_lengths(ctx: KernelContext, nonpad: Array, k: Array) -> tuple[int, ...]:
    where = ctx.node.location
    lengths = host_ints(nonpad) or ()
    if tuple(nonpad.shape) != (k.shape[0],):
        raise shape_error("nonpad_kv_seqlen is not one number per batch entry.", where, [nonpad.shape, k.shape])
    if lengths and not 0 <= min(lengths) <= max(lengths) <= k.shape[2]:
        raise InvalidArgument(
            f"nonpad_kv_seqlen {list(lengths)} goes beyond the {k.shape[2]} keys there are.",
            where=where,
            fix=f"Lengths must be in [0, {k.shape[2]}].",
        )
    return lengths


KERNELS: list[KernelDef] = [
    KernelDef(
        "Attention",
        attention,
        since=23,
        until=25,
        types={"T1": ALL_FLOATS, "T2": ALL_FLOATS, "U": ALL_NUMERIC | tensors(DataType.BOOL)},
        outputs=4,
        views=((1, 1), (2, 2)),  # without a past, the present keys and values are the new ones
        strided=True,
        host_inputs=frozenset({6}),
        implementation=f"{__name__}:attention",
    )
]
