"""The transforms that every session runs, by level and family."""

from __future__ import annotations

from ort_py.contracts import Transform
from ort_py.transforms.elimination.bounds import MergeBounds
from ort_py.transforms.elimination.casts import MergeCasts
from ort_py.transforms.elimination.duplicates import EliminateCommonSubexpressions, MergeDuplicateInitializers
from ort_py.transforms.elimination.identities import identity_rules
from ort_py.transforms.elimination.no_ops import EliminateDropout, EliminateIdentity, noop_rules
from ort_py.transforms.elimination.unused import DropUnusedOutputs, EliminateDeadCode
from ort_py.transforms.folding.constant_folding import ConstantFolding
from ort_py.transforms.folding.constant_if import ConstantIf
from ort_py.transforms.folding.shape_computation import ShapeComputationFolding
from ort_py.transforms.functions.activations import activation_fusions
from ort_py.transforms.late import late
from ort_py.transforms.linear.batch_normalization import FoldBatchNormalization
from ort_py.transforms.linear.channel_arithmetic import channel_rules
from ort_py.transforms.linear.constant_chains import MergeConstantChains
from ort_py.transforms.linear.fused_products import FuseMatMulAdd, product_fusions
from ort_py.transforms.linear.input_scaling import FoldInputScale
from ort_py.transforms.movement.concatenation import EliminateWholeGather, MergeConcats, MergeSlices
from ort_py.transforms.movement.loop_invariants import MoveLoopInvariants
from ort_py.transforms.movement.reshapes import MergeReshapes
from ort_py.transforms.movement.transposes import MergeTransposes
from ort_py.transforms.movement.unit_transposes import MergeUnitTransposes


def builtin_transforms() -> list[Transform]:
    """New instances, in the order in which they run: what makes graphs smaller comes before what looks at pairs."""
    return [
        ShapeComputationFolding(),
        ConstantFolding(),
        ConstantIf(),
        *late("LoopConstants", "LoopUnrolling"),
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
        *late("Pad_Fusion", "GemmTransposeFusion", "TransposeOptimizer"),
        MergeUnitTransposes(),
        *late("PowToMul", "SoftmaxFusion"),
        FuseMatMulAdd(),
        MergeDuplicateInitializers(),
        EliminateCommonSubexpressions(),
        EliminateDeadCode(),
        *late("AttentionFusion", "RotaryEmbeddingFusion", "GroupQueryAttentionFusion"),
        *late("AttentionSharedHeads", "AttentionPast", "AttentionColumns"),
        *late("QDQMovement", "QDQActivationFusion", "DynamicQuantizeMatMulFusion"),
        *late("MatMulIntegerToFloatFusion", "QuantizedMatMulBiasFusion"),
        *late("GeluFusion", "FastGeluFusion", "QuickGeluFusion"),
        *activation_fusions(),
        FoldInputScale(),
        *late("LayerNormFusion", "LayerNormBiasFusion", "SimplifiedLayerNormFusion", "GroupNormFusion"),
        *product_fusions(),
        *late("BiasGeluFusion", "SkipLayerNormFusion"),
        MoveLoopInvariants(),
    ]
