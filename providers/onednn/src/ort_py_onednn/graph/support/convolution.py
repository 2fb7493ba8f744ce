"""Conv and ConvTranspose."""

from __future__ import annotations

from ort_py.contracts import GraphView, NodeSpec
from ort_py_onednn.graph.support.rule import Rule, Rules, shape_of

__all__ = ["RULES"]


_WIDEST = 256
"""Largest stride of a ConvTranspose. Making oneDNN's code and running it take a time that grows with the square of the
stride: 20 s for one of 65536, where the result has 2 million elements."""


def _convolution(node: NodeSpec, graph: GraphView) -> str | None:
    rank = len(shape_of(node, 0)) - 2
    if not 1 <= rank <= 3:
        return f"it is a convolution over {rank} dimensions; 1 to 3 are supported"
    if not all(isinstance(dim, int) for dim in shape_of(node, 1)):
        return "the weight's shape is not known"
    return None


def _deconvolution(node: NodeSpec, graph: GraphView) -> str | None:
    if any(stride > _WIDEST for stride in node.attributes.get("strides") or ()):
        return f"it has strides above {_WIDEST}"
    return _convolution(node, graph)


RULES: Rules = {
    ("", "Conv"): Rule(_convolution, heavy=True),
    ("", "ConvTranspose"): Rule(_deconvolution, heavy=True),
}
