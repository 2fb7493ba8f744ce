"""Conv and ConvTranspose."""

from __future__ import annotations

from ort_py.contracts import GraphView, NodeSpec
from ort_py_onednn.graph.support.rule import Rule, Rules, shape_of

__all__ = ["RULES"]


def _convolution(node: NodeSpec, graph: GraphView) -> str | None:
    rank = len(shape_of(node, 0)) - 2
    if not 1 <= rank <= 3:
        return f"it is a convolution over {rank} dimensions; 1 to 3 are supported"
    if not all(isinstance(dim, int) for dim in shape_of(node, 1)):
        return "the weight's shape is not known"
    return None


RULES: Rules = {
    ("", "Conv"): Rule(_convolution, heavy=True),
    ("", "ConvTranspose"): Rule(_convolution, heavy=True),
}
