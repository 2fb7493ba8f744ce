"""The table of constraints: the specification's requirements for every operator that a compiled region may hold.

There is one entry for each operator, independent of the provider. A region is checked against it before native code
sees its inputs; see `gate`. An operator that is not in the table cannot be checked. A family's module is imported when
one of its operators is asked about: few models have recurrent layers, attention and quantised numbers.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module

from ort_py.constraints.scope import Constraint

__all__ = ["constraint_of"]

_FAMILIES = {
    "attention": "Attention GroupQueryAttention MultiHeadAttention RotaryEmbedding",
    "indexing": "EmbedLayerNormalization Gather GatherElements GatherND GridSample Scatter ScatterElements ScatterND",
    "movement": "Concat DepthToSpace Expand Flatten Pad Reshape Slice SpaceToDepth Split Squeeze Tile Transpose"
    " Unsqueeze",
    "normalizations": "BatchNormalization GroupNormalization InstanceNormalization LRN LayerNormalization"
    " LpNormalization MeanVarianceNormalization RMSNormalization SimplifiedLayerNormalization SkipLayerNormalization"
    " SkipSimplifiedLayerNormalization",
    "products": "BiasSplitGelu DynamicQuantizeMatMul Einsum FusedGemm FusedMatMul Gemm MatMul MatMulInteger"
    " MatMulIntegerToFloat MatMulNBits QGemm QLinearMatMul",
    "quantized": "DequantizeLinear DynamicQuantizeLinear QLinearAdd QLinearConcat QLinearLeakyRelu QLinearMul"
    " QLinearReduceMean QLinearSigmoid QLinearSoftmax QuantizeLinear",
    "recurrent": "DynamicQuantizeLSTM GRU LSTM RNN",
    "reductions": "ArgMax ArgMin CumProd CumSum Hardmax LogSoftmax OneHot ReduceL1 ReduceL2 ReduceLogSum"
    " ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceSum ReduceSumSquare Softmax TopK",
    "resizing": "Resize Upsample",
    "windows": "AveragePool Conv ConvInteger ConvTranspose FusedConv GlobalAveragePool GlobalLpPool GlobalMaxPool"
    " LpPool MaxPool QLinearAveragePool QLinearConv QLinearGlobalAveragePool",
}
_FAMILY_OF = {name: family for family, names in _FAMILIES.items() for name in names.split()}
_OTHERS = ("numbers", "elementwise")
"""Families of all other operators; the first also follows the numbers that shapes are made of."""


@lru_cache(maxsize=512)
def constraint_of(domain: str, op_type: str) -> Constraint | None:
    """The constraint of an operator, or None if the table has none."""
    family = _FAMILY_OF.get(op_type)
    for name in _OTHERS if family is None else (family,):
        table: dict[tuple[str, str], Constraint] = import_module(f"ort_py.constraints.families.{name}").TABLE
        found = table.get((domain, op_type))
        if found is not None:
            return found
    return None
