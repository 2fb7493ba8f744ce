"""The needs of a model's outputs: a node whose result is not used need not be refused."""

from __future__ import annotations

import re

import onnx

__all__ = ["pruned", "read_by", "without_unread"]

_READ_SHAPES = frozenset({"Shape", "Size"})
"""Operators that read the shape of a value, but none of its elements."""


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


def without_unread(model: onnx.ModelProto, refusal: str) -> onnx.ModelProto | None:
    """The model without a node that a refusal names, and without the outputs that follow from its shape.

    A Loop of which some results are read stays, without what it stacks for nobody.

    Args:
        model: The model.
        refusal: What a provider said.

    Returns:
        A copy; None if some output needs the elements that the node computes.
    """
    # The outermost of the nodes whose graphs contain it is named first.
    inside = re.search(r"inside ('[^']*')", refusal)
    where = f"node {inside[1]}" if inside is not None else refusal
    nodes = [node for node in model.graph.node if node.output and f"node '{node.name or node.output[0]}'" in where]
    if len(nodes) != 1:
        return None
    if _elements_read(model) & set(nodes[0].output):
        return _with_read_results(model, nodes[0])
    follows = set(nodes[0].output)
    for node in model.graph.node:
        if follows & read_by(node):
            follows |= set(node.output)
    made = onnx.ModelProto()
    made.CopyFrom(model)
    del made.graph.output[:]
    made.graph.output.extend([one for one in model.graph.output if one.name not in follows])
    return pruned(made)


def _with_read_results(model: onnx.ModelProto, loop: onnx.NodeProto) -> onnx.ModelProto | None:
    """The model with a Loop that stacks only what is read; None where it stacks nothing else."""
    states = len(loop.input) - 2
    read = {one.name for one in model.graph.output}.union(*(read_by(node) for node in model.graph.node))
    kept = [place for place, name in enumerate(loop.output) if place < states or name in read]
    made = onnx.ModelProto()
    made.CopyFrom(model)
    (shorter,) = (node for node in made.graph.node if node == loop)
    bodies = [one.g for one in shorter.attribute if one.name == "body"]
    if loop.op_type != "Loop" or loop.domain or len(bodies[0].output) == len(kept) + 1:
        return None
    results = [bodies[0].output[0], *(bodies[0].output[place + 1] for place in kept)]
    del bodies[0].output[:]
    bodies[0].output.extend(results)
    shorter.output[:] = [loop.output[place] for place in kept]
    return made


def _elements_read(model: onnx.ModelProto) -> set[str]:
    """Names of the values whose elements the outputs are computed from."""
    needed = {one.name for one in model.graph.output}
    for node in reversed(model.graph.node):
        if needed & set(node.output) and (node.domain or node.op_type not in _READ_SHAPES):
            needed |= read_by(node)
    return needed


def read_by(node: onnx.NodeProto) -> set[str]:
    """Names that a node reads, also in the graphs inside it."""
    found = set(node.input)
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                found |= read_by(inner)
    return found - {""}
