"""The transforms that every session runs, by level and family."""

from __future__ import annotations

from ort_py.contracts import Transform
from ort_py.transforms.activations import activation_fusions
from ort_py.transforms.attention import FuseAttention
from ort_py.transforms.attention_operator import attention_operator_rules
from ort_py.transforms.batch_normalization import FoldBatchNormalization
from ort_py.transforms.bounds import MergeBounds
from ort_py.transforms.casts import MergeCasts
from ort_py.transforms.channel_arithmetic import channel_rules
from ort_py.transforms.common_subexpressions import EliminateCommonSubexpressions
from ort_py.transforms.concatenation import EliminateWholeGather, MergeConcats, MergeSlices
from ort_py.transforms.constant_chains import MergeConstantChains
from ort_py.transforms.constant_folding import ConstantFolding
from ort_py.transforms.constant_if import ConstantIf
from ort_py.transforms.dead_code import EliminateDeadCode
from ort_py.transforms.duplicate_initializers import MergeDuplicateInitializers
from ort_py.transforms.dynamic_quantization import dynamic_quantization_rules
from ort_py.transforms.elimination import EliminateDropout, EliminateIdentity, noop_rules
from ort_py.transforms.fused_convolution import FuseConvActivation, FuseConvAdd
from ort_py.transforms.fused_gemm import FuseGemmActivation, FuseMatMulAdd
from ort_py.transforms.fused_matmul import FuseMatMulScale, FuseMatMulTranspose
from ort_py.transforms.gelu import FuseBiasGelu, FuseGelu, FuseQuickGelu, FuseTanhGelu
from ort_py.transforms.identities import identity_rules
from ort_py.transforms.input_scaling import FoldInputScale
from ort_py.transforms.layer_normalization import (
    FuseLayerNormalization,
    FuseNormalizationBias,
    FuseSimplifiedLayerNormalization,
)
from ort_py.transforms.loop_unrolling import UnrollLoops
from ort_py.transforms.padding import FoldPad
from ort_py.transforms.powers import ExpandCube
from ort_py.transforms.quantized_activations import FuseQuantizedActivation
from ort_py.transforms.quantized_movement import MoveQuantized
from ort_py.transforms.reshapes import MergeReshapes
from ort_py.transforms.rotary import FuseRotaryEmbedding
from ort_py.transforms.shape_computation import ShapeComputationFolding
from ort_py.transforms.skip_normalization import FuseSkipNormalization
from ort_py.transforms.softmax_chain import FuseSoftmax
from ort_py.transforms.transpose_pushing import PushTransposes
from ort_py.transforms.transposed_products import FoldTransposedOperands
from ort_py.transforms.transposes import MergeTransposes
from ort_py.transforms.unused_outputs import DropUnusedOutputs

__all__ = ["builtin_transforms"]


def builtin_transforms() -> list[Transform]:
    """New instances, in the order in which they run: what makes graphs smaller comes before what looks at pairs."""
    return [
        ShapeComputationFolding(),
        ConstantFolding(),
        ConstantIf(),
        UnrollLoops(),
        EliminateIdentity(),
        EliminateDropout(),
        *noop_rules(),
        MergeCasts(),
        MergeTransposes(),
        MergeReshapes(),
        DropUnusedOutputs(),
        MergeBounds(),
        *identity_rules(),
        MergeConcats(),
        MergeSlices(),
        EliminateWholeGather(),
        FoldBatchNormalization(),
        *channel_rules(),
        MergeConstantChains(),
        FoldInputScale(),
        FoldPad(),
        FoldTransposedOperands(),
        PushTransposes(),
        ExpandCube(),
        FuseSoftmax(),
        FuseMatMulAdd(),
        MergeDuplicateInitializers(),
        EliminateCommonSubexpressions(),
        EliminateDeadCode(),
        FuseAttention(),
        FuseRotaryEmbedding(),
        *attention_operator_rules(),
        MoveQuantized(),
        FuseQuantizedActivation(),
        *dynamic_quantization_rules(),
        FuseGelu(),
        FuseTanhGelu(),
        FuseQuickGelu(),
        *activation_fusions(),
        FuseLayerNormalization(),
        FuseNormalizationBias(),
        FuseSimplifiedLayerNormalization(),
        FuseConvAdd(),
        FuseConvActivation(),
        FuseGemmActivation(),
        FuseMatMulTranspose(),
        FuseMatMulScale(),
        FuseBiasGelu(),
        FuseSkipNormalization(),
    ]
