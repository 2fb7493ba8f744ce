"""Behaviour of operators with floating types narrower than float32, as far as it matters for computing them in float32.

Used by `widening`. An operator that is in no set stays as it is: it is asked about nothing here. All of these take
float32 wherever they take float16 or bfloat16.
"""

from __future__ import annotations

from ort_py.contracts import NodeSpec
from ort_py.transforms.fusion import CONTRIB

__all__ = ["computes", "keeps_size", "moves"]

_COMPUTES = """
    Abs Acos Acosh Add Asin Asinh Atan Atanh Attention AveragePool BatchNormalization Celu Clip Conv ConvTranspose
    Cos Cosh CumSum DequantizeLinear Div Einsum Elu Erf Exp GRU Gelu Gemm GlobalAveragePool GlobalLpPool
    GlobalMaxPool GridSample GroupNormalization HardSigmoid HardSwish InstanceNormalization LRN LSTM
    LayerNormalization LeakyRelu Log LogSoftmax LpNormalization LpPool MatMul Max MaxPool Mean
    MeanVarianceNormalization Min Mish Mul Neg PRelu Pow RMSNormalization RNN Reciprocal ReduceL1 ReduceL2
    ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Resize
    RotaryEmbedding Selu Shrink Sigmoid Sin Sinh Softmax Softplus Softsign Sqrt Sub Sum Swish Tan Tanh
    ThresholdedRelu
"""

_MOVES = """
    Concat DepthToSpace Dropout Expand Flatten Gather GatherElements GatherND Identity Pad Reshape ScatterElements
    ScatterND Slice SpaceToDepth Split Squeeze Tile Transpose Unsqueeze Where
"""

_RESHAPES = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})

_CONTRIBUTED = """
    BiasGelu FastGelu FusedConv FusedGemm FusedMatMul Gelu GroupQueryAttention MultiHeadAttention QuickGelu
    RotaryEmbedding SkipLayerNormalization SkipSimplifiedLayerNormalization
"""


_ARITHMETIC = frozenset(_COMPUTES.split())
_CONTRIB_ARITHMETIC = frozenset(_CONTRIBUTED.split())
_MOVEMENT = frozenset(_MOVES.split())


def computes(node: NodeSpec) -> bool:
    """Return whether the node does arithmetic, so that float32 saves the conversions of its inputs and outputs.

    A node that carries a function stays: its function may name the narrow type.
    """
    if node.body is not None:
        return False
    if node.domain:
        return node.domain == CONTRIB and node.op_type in _CONTRIB_ARITHMETIC
    return node.op_type in _ARITHMETIC


def moves(node: NodeSpec) -> bool:
    """Return whether the node only moves elements, which is not slower in a narrow type."""
    return not node.domain and node.body is None and node.op_type in _MOVEMENT


def keeps_size(node: NodeSpec) -> bool:
    """Return whether the node returns the elements that it reads, in another shape or order."""
    return not node.domain and node.body is None and node.op_type in _RESHAPES
