"""Schemas of the operators around attention: rotary positions, linear attention and the causal convolution."""

from __future__ import annotations

from collections.abc import Sequence

from ort_py.contracts import NodeSpec
from ort_py.dtypes import Shape
from ort_py_array.contrib.schemas.notation import dims, operator, same_shape

__all__ = ["SCHEMAS"]

_FLOATS = "float float16 bfloat16"

_ROTARY = {
    "interleaved": int | None,
    "is_packed_batching": int | None,
    "num_heads": int | None,
    "rotary_embedding_dim": int | None,
    "scale": float | None,
}


def _linear_shapes(node: NodeSpec) -> Sequence[Shape | None]:
    """One entry per query head or, where there are more of them, a key head; the state is in its past's shape."""
    query, value = dims(node, 0), dims(node, 2)
    heads, key_heads = (node.attributes.get(name, 0) for name in ("q_num_heads", "kv_num_heads"))
    if query is None or value is None or len(query) != 3 or len(value) != 3 or heads < 1 or key_heads < 1:
        return [None, dims(node, 3)]
    width = value[2] // key_heads * max(heads, key_heads) if isinstance(value[2], int) else None
    return (*query[:2], width), dims(node, 3)


SCHEMAS = [
    operator(
        "RotaryEmbedding",
        "input: T, position_ids: M, cos_cache: T, sin_cache: T",
        "output: T",
        attributes=_ROTARY,
        shapes=same_shape(0),
        T=_FLOATS,
        M="int64",
    ),
    operator(
        "MRotaryEmbedding",
        "input: T, position_ids: M, cos_cache: T, sin_cache: T",
        "output: T",
        attributes={**_ROTARY, "mrope_layout": int | None, "mrope_section": tuple},
        shapes=same_shape(0),
        T=_FLOATS,
        M="int64",
    ),
    operator(
        "LinearAttention",
        "query: T, key: T, value: T, past_state: S?, decay: T?, beta: T?",
        "output: T, present_state: S",
        attributes={
            "chunk_size": 64,
            "kv_num_heads": int,
            "q_num_heads": int,
            "scale": 0.0,
            "state_window": 0,
            "update_rule": "gated_delta",
        },
        shapes=_linear_shapes,
        T=_FLOATS,
        S=_FLOATS,
    ),
    operator(
        "CausalConvWithState",
        "input: T, weight: T, bias: T?, past_state: T?",
        "output: T, present_state: T",
        attributes={
            "activation": "none",
            "channels_last": 0,
            "dilation": 1,
            "ndim": 1,
            "state_window": 0,
        },
        shapes=same_shape(0, 3),
        T=_FLOATS,
    ),
]
