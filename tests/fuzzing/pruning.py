"""The needs of a model's outputs: a node whose result is not used need not be refused."""

from __future__ import annotations

import onnx

__all__ = ["pruned", "read_by"]


def pruned(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy without the nodes, constants and inputs that no output needs."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    needed = {one.name for one in model.graph.output}
    nodes = []
    for node in reversed(model.graph.node):
        if needed & set(node.output):
            nodes.append(node)
            needed |= read_by(node)
    del made.graph.node[:], made.graph.initializer[:], made.graph.input[:]
    made.graph.node.extend(reversed(nodes))
    made.graph.initializer.extend([one for one in model.graph.initializer if one.name in needed])
    made.graph.input.extend([one for one in model.graph.input if one.name in needed])
    del made.graph.value_info[:]
    return made


def read_by(node: onnx.NodeProto) -> set[str]:
    """Names that a node reads, also in the graphs inside it."""
    found = set(node.input)
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                found |= read_by(inner)
    return found - {""}
