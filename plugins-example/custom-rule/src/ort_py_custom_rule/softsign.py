"""x / (1 + |x|), as it is written by hand: one Softsign."""

from __future__ import annotations

from ort_py.contracts import Match, NodeTemplate, Op, PatternRule, TransformContext, Var

__all__ = ["FuseSoftsign"]


class FuseSoftsign(PatternRule):
    """Three nodes become one operator of ONNX, which computes the same."""

    name = "SoftsignFusion"
    patterns = (Op("Div", Var("x"), Op("Add", Op("Abs", Var("x")), 1.0)),)

    def check(self, match: Match) -> str:
        source, result = match["x"], match.anchor.outputs[0]
        if result is None or source.shape is None or result.shape is None or len(source.shape) != len(result.shape):
            return "the constant may give the result more dimensions than the value has"
        if match.anchor.opset_version < 22 and source.data_type is not None and source.data_type.name == "BFLOAT16":
            return "before opset 22 there is no Softsign of bfloat16"
        return ""

    def replacement(self, match: Match, context: TransformContext) -> NodeTemplate:
        return NodeTemplate("Softsign", (match.name("x"),), (match.result,))
