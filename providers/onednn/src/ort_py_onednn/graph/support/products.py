"""Products of matrices."""

from __future__ import annotations

from ort_py.contracts import GraphView, NodeSpec
from ort_py_onednn.graph.support.rule import Rule, Rules, shape_of, value_name

__all__ = ["RULES"]


def _gemm(node: NodeSpec, graph: GraphView) -> str | None:
    if value_name(node, 2) and node.attributes.get("beta", 1.0) != 1.0:
        return "beta is not 1"
    return None


def _matmul(node: NodeSpec, graph: GraphView) -> str | None:
    return "it is a product of scalars" if not shape_of(node, 0) or not shape_of(node, 1) else None


RULES: Rules = {
    ("", "Gemm"): Rule(_gemm, heavy=True),
    ("", "MatMul"): Rule(_matmul, heavy=True),
}
