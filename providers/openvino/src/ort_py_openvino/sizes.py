"""Sizes that OpenVINO has to know when it compiles a node, though its reader converts the node without them.

The plug-in for the processor then fails for the whole region, so such a node is refused before it is claimed. It does
not depend on what the operations compute; `defects` does.
"""

from __future__ import annotations

import numpy as np

from ort_py.contracts import GraphView, NodeSpec, ValueSpec
from ort_py_openvino.graph_walk import moved_from

__all__ = ["refusal_of_sizes"]

_WANTED: dict[str, tuple[tuple[int, slice], ...]] = {
    **dict.fromkeys(("Conv", "ConvTranspose", "FusedConv"), ((1, slice(None)),)),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), ((1, slice(1, 2)), (2, slice(1, 2)))),
    "GlobalLpPool": ((0, slice(2)),),
}
"""By operator, inputs, and their axes whose sizes it wants to know."""

_STATES = {"GRU": (5,), "LSTM": (5, 6), "RNN": (5,)}
"""Initial states: if one is constant, it wants to know the number of sequences, too."""

_PRODUCTS = frozenset({"FusedMatMul", "Gemm", "MatMul"})

_ROWS = {"Add": 0, "BatchNormalization": 1, "Div": 0, "Gemm": 2, "Mul": 0, "PRelu": 1, "Sub": 0}
"""Operators that it makes part of a product before them, and the first input whose numbers it copies for that."""

_PASSED = frozenset({*_ROWS, "Abs", "Clip", "Elu", "LeakyRelu", "Neg", "Relu", "Sigmoid", "Sqrt", "Tanh"}) - {"Gemm"}
_STEPS = 16


def refusal_of_sizes(node: NodeSpec, graph: GraphView) -> str | None:
    """Explain which sizes would have to be known for OpenVINO to compile a node.

    Args:
        node: The node.
        graph: Its graph.
    """
    wanted = _WANTED.get(node.op_type, ())
    if any(_constant_size(_input(node, place), graph) for place in _STATES.get(node.op_type, ())):
        wanted = (*wanted, (0, slice(1, 2)))
    for place, axes in wanted:
        value = _input(node, place)
        if value is None or value.shape is None:
            continue
        if not all(isinstance(size, int) for size in value.shape[axes]):
            return f"'{value.name}' has sizes that are not known, and OpenVINO compiles no {node.op_type} without them"
    if node.op_type in _ROWS and _follows_an_open_product(node, graph):
        return "OpenVINO does not compile a transposed product of unknown width together with constants for each column"
    return None


def _input(node: NodeSpec, place: int) -> ValueSpec | None:
    return node.inputs[place] if place < len(node.inputs) else None


def _constant_size(value: ValueSpec | None, graph: GraphView) -> int:
    """Length of the last axis of a constant; 0 if a value is not constant."""
    constant = None if value is None else graph.constant(value.name)
    return 0 if constant is None else np.shape(constant)[-1] if np.ndim(constant) else 1


def _follows_an_open_product(node: NodeSpec, graph: GraphView) -> bool:
    """Return whether a node reads a constant row and a product that transposes and whose last size is unknown."""
    first = _ROWS[node.op_type]
    if all(_constant_size(value, graph) < 2 for value in node.inputs[first:]):
        return False
    if node.op_type == "Gemm":
        return _transposes(node, graph) and (_is_open(node.outputs[0]) or _width_is_open(node))
    pending = [value for value in node.inputs if value is not None]
    for _ in range(_STEPS):
        if not pending:
            return False
        index = graph.producer(pending.pop().name)
        maker = None if index is None else graph.nodes[index]
        if maker is None or not _is_open(maker.outputs[0]):
            continue
        if maker.op_type in _PRODUCTS and _transposes(maker, graph):
            return True
        if maker.op_type in _PASSED:
            pending += [value for value in maker.inputs if value is not None]
    return False


def _transposes(product: NodeSpec, graph: GraphView) -> bool:
    if any(product.attributes.get(name, 0) for name in ("transA", "transB", "transBatchA", "transBatchB")):
        return True
    operands = [value.name for value in product.inputs[:2] if value is not None]
    return any(maker.op_type == "Transpose" for name in operands for maker in moved_from(name, graph))


def _is_open(value: ValueSpec | None) -> bool:
    if value is None or not value.shape:
        return False
    return not isinstance(value.shape[-1], int)


def _width_is_open(gemm: NodeSpec) -> bool:
    """The weights of a Gemm say it, even if the bias tells the size of the result."""
    weights = gemm.inputs[1]
    if weights is None or not weights.shape:
        return True
    return not isinstance(weights.shape[0 if gemm.attributes.get("transB", 0) else -1], int)
