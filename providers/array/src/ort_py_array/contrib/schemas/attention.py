"""Schemas of attention over separate or packed queries, keys and values, with their caches and weights."""

from __future__ import annotations

from collections.abc import Sequence

from ort_py.contracts import NodeSpec
from ort_py.dtypes import Dim, Shape
from ort_py_array.contrib.schemas.notation import dims, operator

__all__ = ["SCHEMAS"]

_FLOATS = "float float16 bfloat16"


def _part(size: Dim, parts: int) -> Dim:
    return size // parts if isinstance(size, int) else None


def _self_attention_shapes(node: NodeSpec) -> Sequence[Shape | None]:
    """The result has the size of the values, which the weights' last axis holds behind queries and keys."""
    x, weights, past = dims(node, 0), dims(node, 1), dims(node, 4)
    if x is None or weights is None or len(x) != 3 or len(weights) != 2:
        return [None]
    sizes: Sequence[int] = node.attributes.get("qkv_hidden_sizes") or []
    whole = (x[0], x[1], sizes[2] if len(sizes) == 3 else _part(weights[1], 3))
    return [whole, (*past[:3], None, past[4]) if past is not None and len(past) == 5 else None]


def _cache(node: NodeSpec, index: int) -> Shape | None:
    """A present as its past, of any number of rows."""
    past = dims(node, index)
    return (*past[:2], None, past[3]) if past is not None and len(past) == 4 else None


def _multi_head_shapes(node: NodeSpec) -> Sequence[Shape | None]:
    first = 5 if node.op_type == "DecoderMaskedMultiHeadAttention" else 6
    return _multi_head_shape(node), _cache(node, first), _cache(node, first + 1)


def _multi_head_shape(node: NodeSpec) -> Shape | None:
    """Shape with the length of the queries and the width of the values of all heads."""
    query, key, value = (dims(node, index) for index in range(3))
    if query is None or len(query) not in (3, 5):
        return None
    if len(query) == 5:
        heads, size = query[2], query[4]
        return (query[0], query[1], heads * size if isinstance(heads, int) and isinstance(size, int) else None)
    if value is not None and len(value) == 3:
        return (query[0], query[1], value[2])
    if value is not None and len(value) == 4:
        heads, size = value[1], value[3]
        return (query[0], query[1], heads * size if isinstance(heads, int) and isinstance(size, int) else None)
    packed = len(node.inputs) < 2 or node.inputs[1] is None
    if len(query) == 3 and node.op_type == "DecoderMaskedMultiHeadAttention" and packed:
        return (query[0], query[1], _part(query[2], 3))
    return query if key is not None and len(key) == 5 else (query[0], query[1], None)


def _grouped_shapes(node: NodeSpec) -> Sequence[Shape | None]:
    return _grouped_shape(node), _cache(node, 3), _cache(node, 4)


def _grouped_shape(node: NodeSpec) -> Shape | None:
    """Queries alone give the shape; packed with keys and values, the part of them that the heads say."""
    query = dims(node, 0)
    if query is None or len(query) != 3:
        return None
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        return query
    heads, key_heads = (node.attributes.get(name, 0) for name in ("num_heads", "kv_num_heads"))
    known = isinstance(query[2], int) and heads > 0 and key_heads > 0
    return (query[0], query[1], query[2] // (heads + 2 * key_heads) * heads if known else None)


def _sparse_shapes(node: NodeSpec) -> Sequence[Shape | None]:
    return _grouped_shape(node), dims(node, 3), dims(node, 4)


def _paged_shapes(node: NodeSpec) -> Sequence[Shape | None]:
    """A token's values of all heads; the caches as they were."""
    query, cache = dims(node, 0), dims(node, 3)
    size = cache[3] if cache is not None and len(cache) == 4 else None
    width = int(node.attributes.get("v_head_size") or 0) or size
    known = query is not None and len(query) == 2
    heads = int(node.attributes.get("num_heads", 0))
    y = (query[0], width * heads if isinstance(width, int) else None) if known and query is not None else None
    return y, cache, dims(node, 4)


SCHEMAS = [
    operator(
        "Attention",
        "input: T, weights: T, bias: T?, mask_index: M?, past: T?, attention_bias: T?, past_sequence_length: M?",
        "output: T, present: T?",
        attributes={
            "do_rotary": int | None,
            "mask_filter_value": float | None,
            "num_heads": int,
            "past_present_share_buffer": int | None,
            "qkv_hidden_sizes": tuple | None,
            "rotary_embedding_dim": int | None,
            "scale": float | None,
            "unidirectional": 0,
        },
        shapes=_self_attention_shapes,
        T=_FLOATS,
        M="int32",
    ),
    operator(
        "QAttention",
        "input: T1, weight: T2, bias: T3, input_scale: T3, weight_scale: T3, mask_index: T4?, input_zero_point: T1?, "
        "weight_zero_point: T2?, past: T3?",
        "output: T3, present: T3?",
        attributes={
            "do_rotary": int | None,
            "mask_filter_value": float | None,
            "num_heads": int,
            "past_present_share_buffer": int | None,
            "scale": float | None,
            "unidirectional": 0,
        },
        shapes=_self_attention_shapes,
        T1="int8 uint8",
        T2="int8 uint8",
        T3="float float16",
        T4="int32",
    ),
    operator(
        "MultiHeadAttention",
        "query: T, key: T?, value: T?, bias: T?, key_padding_mask: M?, attention_bias: T?, past_key: T?, "
        "past_value: T?, past_sequence_length: M?, cache_indirection: M?",
        "output: T, present_key: T?, present_value: T?, qk: QK?",
        attributes={
            "mask_filter_value": float | None,
            "num_heads": int,
            "scale": float | None,
            "unidirectional": 0,
        },
        shapes=_multi_head_shapes,
        T=_FLOATS,
        QK=_FLOATS,
        M="int32",
    ),
    operator(
        "DecoderMaskedMultiHeadAttention",
        "query: T, key: T?, value: T?, mask_index: M?, attention_bias: T?, past_key: T?, past_value: T?, "
        "past_sequence_length: M?, beam_width: M?, cache_indirection: M?, bias: T?",
        "output: T, present_key: T?, present_value: T?, qk: QK?",
        attributes={
            "mask_filter_value": float | None,
            "num_heads": int,
            "output_qk": int | None,
            "past_present_share_buffer": int | None,
            "scale": float | None,
        },
        shapes=_multi_head_shapes,
        T="float float16",
        QK="float float16",
        M="int32",
    ),
    operator(
        "GroupQueryAttention",
        "query: T, key: T?, value: T?, past_key: T_CACHE?, past_value: T_CACHE?, seqlens_k: M, "
        "total_sequence_length: M, cos_cache: T?, sin_cache: T?, position_ids: tensor(int64)?, attention_bias: T?, "
        "head_sink: T?, k_scale: T_KV_SCALE?, v_scale: T_KV_SCALE?, q_norm_weight: T?, k_norm_weight: T?",
        "output: T, present_key: T_CACHE?, present_value: T_CACHE?, output_qk: T?",
        attributes={
            "causal": 1,
            "do_rotary": int | None,
            "k_quant_type": "NONE",
            "kv_cache_bit_width": int | None,
            "kv_num_heads": int,
            "local_window_size": -1,
            "num_heads": int,
            "qk_norm_epsilon": 1e-6,
            "qk_output": 0,
            "rotary_interleaved": int | None,
            "scale": float | None,
            "sliding_window_cache": 0,
            "smooth_softmax": -1,
            "softcap": float | None,
            "v_quant_type": "NONE",
        },
        shapes=_grouped_shapes,
        T=_FLOATS,
        T_CACHE=f"{_FLOATS} uint8 int8 float8e4m3fn",
        T_KV_SCALE="float",
        M="int32",
    ),
    operator(
        "PagedAttention",
        "query: T, key: T?, value: T?, key_cache: T_CACHE, value_cache: T_CACHE?, cumulative_sequence_length: S, "
        "past_seqlens: S, block_table: S, cos_cache: T?, sin_cache: T?, slot_mapping: S?, head_sink: T?, "
        "q_norm_weight: T?, k_norm_weight: T?, k_scale: T_KV_SCALE?, v_scale: T_KV_SCALE?, attention_metadata: S?",
        "output: T, key_cache_out: T_CACHE?, value_cache_out: T_CACHE?",
        attributes={
            "do_rotary": int | None,
            "is_causal": 1,
            "k_cache_dtype": "",
            "k_quant_type": "NONE",
            "kv_cache_layout": "SEPARATE",
            "kv_num_heads": int,
            "local_window_size": -1,
            "num_heads": int,
            "qk_norm_epsilon": float | None,
            "rotary_interleaved": int | None,
            "rotary_offset": int | None,
            "scale": float | None,
            "softcap": float | None,
            "v_cache_dtype": "",
            "v_head_size": int | None,
            "v_quant_type": "NONE",
        },
        shapes=_paged_shapes,
        T="float16 bfloat16",
        T_CACHE="float16 bfloat16 int8 float8e4m3fn uint8",
        T_KV_SCALE="float",
        S="int32",
    ),
    operator(
        "SparseAttention",
        "query: T, key: T?, value: T?, past_key: T, past_value: T, block_row_indices: M, block_col_indices: M, "
        "total_sequence_length: M, key_total_sequence_lengths: M, cos_cache: T?, sin_cache: T?",
        "output: T, present_key: T, present_value: T",
        attributes={
            "do_rotary": int | None,
            "kv_num_heads": int,
            "num_heads": int,
            "rotary_interleaved": int | None,
            "scale": float | None,
            "sparse_block_size": int,
        },
        shapes=_sparse_shapes,
        T=_FLOATS,
        M="int32",
    ),
]
