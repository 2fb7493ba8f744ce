"""Schemas of layer normalisations of sums, and of SimplifiedLayerNormalization, which stands in ONNX's own domain."""

from __future__ import annotations

from collections.abc import Sequence

from ort_py.contracts import NodeSpec
from ort_py.dtypes import Shape
from ort_py_array.contrib.schemas.notation import dims, operator, same_shape

__all__ = ["SCHEMAS"]


def _skip_shapes(node: NodeSpec) -> Sequence[Shape | None]:
    """Result and sum have the input's shape, statistics one entry per row."""
    shape = dims(node, 0)
    statistic = None if shape is None else (*shape[:-1], 1)
    return shape, statistic, statistic, shape


def _embed_shapes(node: NodeSpec) -> Sequence[Shape | None]:
    ids, table = dims(node, 0), dims(node, 2)
    if ids is None or table is None or len(ids) != 2 or len(table) != 2:
        return [None]
    shape = (*ids, table[1])
    return shape, ids[:1], shape


SCHEMAS = [
    operator(
        "SkipLayerNormalization",
        "input: T, skip: T, gamma: T, beta: T?, bias: T?",
        "output: T, mean: U?, inv_std_var: U?, input_skip_bias_sum: T?",
        attributes={"epsilon": 1e-12},
        shapes=_skip_shapes,
        T="float float16 bfloat16",
        U="float",
    ),
    operator(
        "SkipSimplifiedLayerNormalization",
        "input: T, skip: T, gamma: T, bias: T?",
        "output: T, mean: U?, inv_std_var: U?, input_skip_bias_sum: T?",
        attributes={"epsilon": 1e-12},
        shapes=_skip_shapes,
        T="float float16 bfloat16",
        U="float",
    ),
    operator(
        "SimplifiedLayerNormalization",
        "X: T, scale: V",
        "Y: V, inv_std_var: U?",
        domain="",
        attributes={"axis": -1, "epsilon": 1e-5, "stash_type": 1},
        shapes=same_shape(0),
        T="float16 float double bfloat16",
        U="float double",
        V="float16 float double bfloat16",
    ),
    operator(
        "EmbedLayerNormalization",
        "input_ids: T1, segment_ids: T1?, word_embedding: T, position_embedding: T, segment_embedding: T?, gamma: T, "
        "beta: T, mask: T1?, position_ids: T1?",
        "output: T, mask_index: T1?, embedding_sum: T?",
        attributes={"epsilon": 1e-12, "mask_index_type": int | None},
        shapes=_embed_shapes,
        T="float float16",
        T1="int32",
    ),
]
