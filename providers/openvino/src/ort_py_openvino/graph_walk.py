"""Origin of a value of a graph, and what is known of its sign: for refusals that depend on what a node is fed.

Follows producers without recursion and only so far as the operators in its tables; knows nothing of OpenVINO.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ort_py.contracts import GraphView, NodeSpec

__all__ = ["MOVES", "is_nonnegative", "is_positive", "moved_from"]

MOVES = frozenset(
    {"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Expand", "Slice", "Split", "Tile"}
)
"""Operators whose first output holds elements of their first input and nothing else."""

_NONNEGATIVE = frozenset(
    {"Abs", "Relu", "Exp", "Sigmoid", "Softmax", "ReduceL1", "ReduceL2", "ReduceSumSquare", "Sqrt"}
)
_AVERAGES = frozenset({"ReduceMean", "ReduceSum", "ReduceMax", "GlobalAveragePool", "AveragePool", *MOVES})
_STEPS = 32


def moved_from(name: str, graph: GraphView) -> Iterator[NodeSpec]:
    """Nodes that a value's elements were moved by, the one that computed them last."""
    for _ in range(_STEPS):
        index = graph.producer(name)
        if index is None:
            return
        node = graph.nodes[index]
        yield node
        if node.domain or node.op_type not in MOVES | {"Gather", "Cast"} or node.inputs[0] is None:
            return
        name = node.inputs[0].name


def is_positive(name: str, graph: GraphView, depth: int = 4) -> bool:
    """Return whether no element can be zero or less, as far as a few producers tell."""
    constant = graph.constant(name)
    if constant is not None:
        return bool((np.asarray(constant) > 0).all())
    node = _producer(name, graph)
    if node is None or not depth:
        return False
    inputs = [value.name for value in node.inputs if value is not None]
    match node.op_type:
        case "Add" | "Max":
            pairs = (inputs, inputs[::-1])
            other = is_nonnegative if node.op_type == "Add" else _is_anything
            return len(inputs) == 2 and any(
                is_positive(a, graph, depth - 1) and other(b, graph, depth - 1) for a, b in pairs
            )
        case "Sqrt":
            return is_positive(inputs[0], graph, depth - 1)
        case "Clip":
            return len(inputs) > 1 and is_positive(inputs[1], graph, depth - 1)
    return node.op_type in MOVES and is_positive(inputs[0], graph, depth - 1)


def is_nonnegative(name: str, graph: GraphView, depth: int = 4) -> bool:
    """Return whether no element can be less than zero, as far as a few producers tell."""
    constant = graph.constant(name)
    if constant is not None:
        return bool((np.asarray(constant) >= 0).all())
    node = _producer(name, graph)
    if node is None or not depth:
        return False
    if node.op_type in _NONNEGATIVE:
        return True
    inputs = [value.name for value in node.inputs if value is not None]
    if node.op_type in {"Mul", "Add"} and len(inputs) == 2:
        same = node.op_type == "Mul" and inputs[0] == inputs[1]
        return same or all(is_nonnegative(one, graph, depth - 1) for one in inputs)
    if node.op_type == "Pow":
        exponent = graph.constant(inputs[1])
        return exponent is not None and bool((np.asarray(exponent) % 2 == 0).all())
    return node.op_type in _AVERAGES and is_nonnegative(inputs[0], graph, depth - 1)


def _is_anything(name: str, graph: GraphView, depth: int) -> bool:
    return True


def _producer(name: str, graph: GraphView) -> NodeSpec | None:
    index = graph.producer(name)
    node = None if index is None else graph.nodes[index]
    return node if node is not None and not node.domain and node.body is None else None
