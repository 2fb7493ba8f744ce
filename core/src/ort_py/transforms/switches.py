"""Transforms switched off by name, those of onnxruntime included: which of ours does what one of its passes does.

Used where a session is optimised. Where one of ours does exactly what a pass of onnxruntime does, it has its name; the
table holds the rest. It does not depend on options.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ort_py.errors import InvalidArgument
from ort_py.suggestions import close_names, question

_PASSES = """
    AttentionFusion Avx2WeightS8ToU8Transformer BiasDropoutFusion BiasGeluFusion BiasSkipLayerNormFusion
    BiasSoftmaxFusion CastChainElimination CastElimination CastFloat16Transformer ClipQuantRewrite
    CommonSubexpressionElimination ConstantFolding ConstantFoldingDQ ConstantSharing ConvActivationFusion
    ConvAddActivationFusion ConvAddFusion ConvBNFusion ConvMulFusion DQMatMulNBitsFusion DivMulFusion
    DoubleQDQPairsRemover DynamicQuantizeMatMulFusion EliminateDropout EliminateIdentity EliminateSlice
    EmbedLayerNormFusion EnsureUniqueDQForNodeUnit ExpandElimination FastGeluFusion FreeDimensionOverrideTransformer
    FuseFp16InitializerToFp32NodeTransformer FuseReluClip GatherSliceToSplitFusion GatherToSliceFusion
    GeluApproximation GeluFusionL1 GeluFusionL2 GemmActivationFusion GemmSumFusion GemmTransposeFusion
    GqaValueLayoutTransformer GroupQueryAttentionFusion GroupQueryAttentionPreNormFusion LabelEncoderFusion
    LayerNormFusionL1 LayerNormFusionL2 MatMulActivationFusion MatMulAddFusion MatMulIntegerToFloatFusion
    MatMulNBitsFusion MatMulNBitsMlpFusion MatMulNBitsQkvFusion MatMulScaleFusion MatMul_BatchNormalization_Fusion
    MatmulTransposeFusion NchwcTransformer NhwcTransformer NoopElimination NotWhereFusion Pad_Fusion
    PreShapeNodeElimination QDQFinalCleanupTransformer QDQPropagationTransformer QDQS8ToU8Transformer
    QDQSelectorActionTransformer QuickGeluFusion ReluQuantRewrite RemoveDuplicateCastTransformer ReshapeFusion
    SimplifiedLayerNormFusion SkipLayerNormFusion SliceConcatToSpaceToDepthFusion TransposeOptimizer
    UnsqueezeElimination WeightBiasQuantization WhereDummyDq
"""

ONNXRUNTIME_PASSES = frozenset(_PASSES.split())
"""Names that `disabled_optimizers` may have in programs written for onnxruntime 1.31."""

SAME_AS: Mapping[str, tuple[str, ...]] = {
    "ConstantSharing": ("DuplicateInitializers",),
    "GeluFusionL1": ("GeluFusion",),
    "GeluFusionL2": ("GeluFusion",),
    "LayerNormFusionL1": ("LayerNormFusion",),
    "LayerNormFusionL2": ("LayerNormFusion",),
    "RemoveDuplicateCastTransformer": ("CastChainElimination",),
    "TransposeOptimizer": ("TransposeMerging",),
}
"""Passes of onnxruntime that are called otherwise here."""


def switched_off(names: Iterable[str], known: Iterable[str]) -> tuple[set[str], list[str]]:
    """Determine which transforms are switched off.

    Args:
        names: As the options say.

    Returns:
        Names of transforms, and lines about names that mean nothing here.

    Raises:
        InvalidArgument: A name is close to one that exists.
    """
    known = set(known)
    off: set[str] = set()
    notes: list[str] = []
    for name in dict.fromkeys(names):
        meant = known.intersection((name, *SAME_AS.get(name, ())))
        off |= meant
        if meant:
            continue
        if name in ONNXRUNTIME_PASSES:
            notes.append(f"nothing to switch off: no pass here does what onnxruntime's {name} does")
            continue
        close = close_names(name, known | ONNXRUNTIME_PASSES, cutoff=0.75)
        if close:
            raise InvalidArgument(f"There is no graph transform called '{name}' to switch off.", fix=question(close))
        notes.append(f"nothing to switch off: there is no graph transform called '{name}'")
    return off, notes
