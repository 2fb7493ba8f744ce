"""Ranks that the readers of a value demand: a Conv reads what has as many axes as its weights.

Used by `shapes` where inference found no shape. Branches of an If may differ in rank, as PyTorch's exporter writes them
for a `squeeze` of a size that it does not know, and inference knows nothing behind such an If. All nodes of a graph are
run, so a value of another rank would be an error of the run in any case. Only ranks follow, never sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ort_py.dtypes import TensorType
from ort_py.graph.ir import Graph, Node, Value

__all__ = ["demanded_types"]

_SAME = frozenset(
    {"Abs", "Cast", "Ceil", "Clip", "Elu", "Erf", "Exp", "Floor", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu"}
    | {"Log", "Neg", "Not", "Relu", "Round", "Selu", "Sigmoid", "Softplus", "Softsign", "Sqrt", "Tanh"}
)
"""Operators whose result has the shape of their first input."""

_STATES = {0: 3, 5: 3, 6: 3}
"""Inputs of recurrent layers: the sequence and the initial states."""


def demanded_types(graph: Graph) -> dict[Value, TensorType]:
    """Types with the ranks that follow from readers, which are set in `Value.type`, too: from the last node on."""
    found: dict[Value, TensorType] = {}
    for node in reversed(graph.nodes):
        rule = None if node.domain else _RULES.get(node.op_type)
        if rule is None or not any(_open(value, graph) is not None for value in node.inputs):
            continue
        if not any(one is not None and (one.uses or one.is_graph_output) for one in node.outputs):
            continue  # a node whose results are not read may be left out
        for place, rank in rule(node).items():
            value = node.inputs[place] if place < len(node.inputs) else None
            known = _open(value, graph)
            if value is not None and known is not None:
                value.type = found[value] = replace(known, shape=(None,) * rank)
    return found


def _open(value: Value | None, graph: Graph) -> TensorType | None:
    """The type of a value that a node of this graph makes, if its rank is unknown."""
    known = None if value is None or value.producer is None or value.graph is not graph else value.type
    return known if isinstance(known, TensorType) and known.shape is None else None


def _rank(value: Value | None) -> int | None:
    """The rank of a value, if more than a declaration of the model says so."""
    known = None if value is None or value in value.graph.model.trusted else value.type
    return len(known.shape) if isinstance(known, TensorType) and known.shape is not None else None


def _convolution(node: Node) -> Mapping[int, int]:
    rank = _rank(node.inputs[1]) if len(node.inputs) > 1 else None
    return {} if rank is None else {0: rank}


def _same(node: Node) -> Mapping[int, int]:
    rank = _rank(node.outputs[0])
    return {} if rank is None else {0: rank}


def _axes(node: Node) -> int | None:
    """The number of axes that a Squeeze or an Unsqueeze names; None where that is not known."""
    given = node.attributes.get("axes")
    if given is not None:
        return len(given)
    value = node.inputs[1] if len(node.inputs) > 1 else None
    known = None if value is None else value.type
    if not isinstance(known, TensorType) or known.shape is None or len(known.shape) != 1:
        return None
    count = known.shape[0]
    return count if isinstance(count, int) else None


def _moved(sign: int) -> Callable[[Node], Mapping[int, int]]:
    def rule(node: Node) -> Mapping[int, int]:
        rank, count = _rank(node.outputs[0]), _axes(node)
        if rank is None or count is None or rank + sign * count < 0:
            return {}
        return {0: rank + sign * count}

    return rule


_RULES: Mapping[str, Callable[[Node], Mapping[int, int]]] = {
    **dict.fromkeys(("Conv", "ConvTranspose"), _convolution),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), lambda _node: _STATES),
    "Gemm": lambda _node: {0: 2, 1: 2},
    **dict.fromkeys(_SAME, _same),
    "Squeeze": _moved(1),
    "Unsqueeze": _moved(-1),
}
"""For each operator, the ranks of inputs by their place."""
