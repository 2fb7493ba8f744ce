"""Rules whose modules are imported by models that have the operators they are about.

A rule is known by its name, level and operators before its module is needed: users switch rules off by name, reports
list all of them, and the work-list asks which operators they look at. Many models have neither attention nor
quantisation nor loops nor transpositions, and importing what is written about these takes longer than optimising a
small model.
`builtin` has these rules at their places. It does not know what they do.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from importlib import import_module
from typing import Any

from ort_py.contracts import GraphEditor, Level, NodeSpec, RewriteRule, TransformContext

__all__ = ["LATE", "LateRule", "late"]


class LateRule(RewriteRule):
    """A rule that is imported when a model has one of some operators.

    Args:
        name, level, op_types: As of the rule.
        needs: Operators of which the rule needs at least one in a model.
        module: Module below this package.
        cls: Name of the rule's class there.
    """

    name = ""
    level = Level.BASIC
    op_types: frozenset[str] | None = None

    def __init__(self, name: str, level: Level, op_types: str, needs: str, module: str, cls: str) -> None:
        self.name, self.level, self.op_types = name, level, frozenset(op_types.split())
        self._needs = frozenset(needs.split())
        self._module, self._cls = module, cls

    @cached_property
    def rule(self) -> RewriteRule:
        """The rule itself."""
        found: Any = getattr(import_module(f"{__package__}.{self._module}"), self._cls)
        made: RewriteRule = found()
        return made

    def concerns(self, op_type: str, present: Collection[str]) -> bool:
        if self.op_types is None or op_type not in self.op_types or self._needs.isdisjoint(present):
            return False
        return self.rule.concerns(op_type, present)

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        return self.rule.rewrite(node, graph, context)


_ATTENTION, _QUANTIZE = "MultiHeadAttention", "QuantizeLinear"
_ACTIVATIONS = "quantization.quantized_activations"
_CHAIN = "functions.layer_normalization"
_DYNAMIC = "quantization.dynamic_quantization"
_OPERATOR = "attention.operator"
_NORMALISED = "LayerNormalization RMSNormalization SimplifiedLayerNormalization"

_ROWS: tuple[tuple[str, int, str, str, str, str], ...] = (
    ("LoopConstants", 1, "Loop", "Loop", "folding.loop_constants", "ReadLoopConstants"),
    ("LoopUnrolling", 1, "Loop", "Loop", "folding.loop_unrolling", "UnrollLoops"),
    ("Pad_Fusion", 1, "AveragePool Conv MaxPool", "Pad", "linear.padding", "FoldPad"),
    ("GemmTransposeFusion", 1, "Gemm MatMul", "Transpose", "movement.transposed_products", "FoldTransposedOperands"),
    ("TransposeOptimizer", 1, "Transpose", "Transpose", "movement.transpose_pushing", "PushTransposes"),
    ("PowToMul", 1, "Pow", "Pow", "functions.powers", "ExpandCube"),
    ("SoftmaxFusion", 1, "Div", "Exp", "functions.softmax_chain", "FuseSoftmax"),
    ("AttentionFusion", 2, "FusedMatMul MatMul", "Softmax", "attention.multi_head", "FuseAttention"),
    ("RotaryEmbeddingFusion", 2, "Add", "Neg", "attention.rotary", "FuseRotaryEmbedding"),
    ("GroupQueryAttentionFusion", 2, _ATTENTION, _ATTENTION, "attention.grouped", "FuseGroupedAttention"),
    ("AttentionSharedHeads", 2, "Attention", "Attention", _OPERATOR, "ShareAttentionHeads"),
    ("AttentionPast", 2, "Attention", "Attention", _OPERATOR, "TakeAttentionPast"),
    ("AttentionColumns", 2, "Attention", "Attention", _OPERATOR, "JoinAttentionHeads"),
    ("QDQMovement", 2, _QUANTIZE, _QUANTIZE, "quantization.quantized_movement", "MoveQuantized"),
    ("QDQActivationFusion", 2, _QUANTIZE, _QUANTIZE, _ACTIVATIONS, "FuseQuantizedActivation"),
    ("DynamicQuantizeMatMulFusion", 2, "Mul", "DynamicQuantizeLinear", _DYNAMIC, "FuseDynamicQuantizeMatMul"),
    ("MatMulIntegerToFloatFusion", 2, "Mul", "MatMulInteger", _DYNAMIC, "FuseMatMulIntegerToFloat"),
    ("QuantizedMatMulBiasFusion", 2, "Add", "DynamicQuantizeMatMul MatMulIntegerToFloat", _DYNAMIC, "FuseProductBias"),
    ("GeluFusion", 2, "Div Mul", "Erf", "functions.gelu", "FuseGelu"),
    ("FastGeluFusion", 2, "Div Mul", "Tanh", "functions.gelu", "FuseTanhGelu"),
    ("QuickGeluFusion", 2, "Mul", "Sigmoid", "functions.gelu", "FuseQuickGelu"),
    ("BiasGeluFusion", 2, "FastGelu Gelu", "FastGelu Gelu", "functions.gelu", "FuseBiasGelu"),
    ("LayerNormFusion", 2, "Mul", "ReduceMean", _CHAIN, "FuseLayerNormalization"),
    ("LayerNormBiasFusion", 2, "Add", "LayerNormalization", _CHAIN, "FuseNormalizationBias"),
    ("SimplifiedLayerNormFusion", 2, "Mul", "ReduceMean", _CHAIN, "FuseSimplifiedLayerNormalization"),
    ("SkipLayerNormFusion", 2, _NORMALISED, _NORMALISED, _CHAIN, "FuseSkipNormalization"),
    ("GroupNormFusion", 2, "Add", "InstanceNormalization", "functions.group_normalization", "FuseGroupNormalization"),
)

LATE = {row[0]: row for row in _ROWS}
"""Name, level, operators that it looks at, those of which it needs one, module and class of each rule, by name."""


def late(*names: str) -> list[LateRule]:
    """New rules of these names."""
    return [LateRule(row[0], Level(row[1]), *row[2:]) for row in map(LATE.__getitem__, names)]
