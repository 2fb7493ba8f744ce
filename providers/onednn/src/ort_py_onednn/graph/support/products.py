"""Products of matrices, and attention, which is made of them."""

from __future__ import annotations

from ort_py.contracts import GraphView, NodeSpec
from ort_py_onednn.graph.support.rule import Rule, Rules, shape_of, used_outputs, value_name

__all__ = ["RULES"]


def _gemm(node: NodeSpec, graph: GraphView) -> str | None:
    if value_name(node, 2) and node.attributes.get("beta", 1.0) != 1.0:
        return "beta is not 1"
    return None


def _matmul(node: NodeSpec, graph: GraphView) -> str | None:
    return "a product of scalars" if not shape_of(node, 0) or not shape_of(node, 1) else None


def _attention(node: NodeSpec, graph: GraphView) -> str | None:
    if any(value_name(node, place) for place in (3, 4, 6, 7, 8, 9)) or used_outputs(node) > 1:
        return "a bias of projections, a mask of keys, a past or a present"
    if node.attributes.get("unidirectional", 0):
        return "causal attention"
    heads = node.attributes["num_heads"]
    for place in range(3):
        shape = shape_of(node, place)
        if len(shape) == 4 and place and not isinstance(shape[2], int):
            return "keys and values of a number that changes from run to run: a plan would serve one run"
        if len(shape) != 3 and not (len(shape) == 4 and place and shape[1] == heads):
            return "queries that are not of three dimensions, or keys or values of neither three nor four"
        if not isinstance(shape[-1], int) or (len(shape) == 3 and shape[2] % heads):
            return "a size of heads that is not known"
    return None


RULES: Rules = {
    ("", "Gemm"): Rule(_gemm, heavy=True),
    ("", "MatMul"): Rule(_matmul, heavy=True),
    ("com.microsoft", "MultiHeadAttention"): Rule(_attention, heavy=True),
}
