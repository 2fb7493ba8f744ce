"""Rules written as patterns, where the nodes found cannot become one."""

from __future__ import annotations

from core.tests.transforms.support import notes, operators
from ort_py.contracts import Match, NodeTemplate, Op, PatternRule, TransformContext
from ort_py_kit.rules import apply_rules


class FuseExpNeg(PatternRule):
    """``-exp(x)`` as an operator of somebody's own, which carries the two nodes."""

    name = "ExpNegFusion"
    patterns = (Op("Neg", Op("Exp", "x")),)
    carries_function = True

    def replacement(self, match: Match, context: TransformContext) -> NodeTemplate:
        match.graph.add_constant("unused", 1.0)
        return NodeTemplate("ExpNeg", (match.name("x"),), (match.result,), domain="org.example")


def _model(opset: int) -> str:
    return f"""<ir_version: 10, opset_import: ["" : 17, "f" : 1]>
        g (float[2] x) => (float[2] y) {{ a = Exp(x) y = f.Minus(a) }}
        <domain: "f", opset_import: ["" : {opset}]> Minus (x) => (y) {{ y = Neg(x) }}"""


def test_a_function_has_one_opset() -> None:
    """A node that a function of the model brought, with an opset of its own, stays beside the others: with a reason."""
    model, report = apply_rules(_model(13), FuseExpNeg())
    assert operators(model) == {"Exp": 1, "Neg": 1}
    assert "'y' is of opset 13, other nodes of opset 17" in notes(report)
    model, _ = apply_rules(_model(17), FuseExpNeg())
    assert operators(model) == {"ExpNeg": 1}
