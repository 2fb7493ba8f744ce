"""Values that two runs of one model have in common, and the nodes that compute one of them from the others.

Used by `forcing`. Transforms take values away and make others; what both sides have is where they can be compared. A
value of the model as it was written means the same on both sides. One that a transform made has a name that may be
something else on the other side: it is a common one where the same node computes it from common ones.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from ort_py.graph.ir import Graph, Node, Value
from ort_py.inspection.comparison.stepping import SteppedRun

__all__ = ["CommonValues"]


class CommonValues:
    """Both runs, and which values they have in common."""

    def __init__(self, a: SteppedRun, b: SteppedRun, written: Collection[str]) -> None:
        self.a, self.b = a, b
        self._values = {id(side): _computed(side) for side in (a, b)}
        same = _same_values(a.graph, b.graph, written)
        self.names = {name for name in self._values[id(b)] if name in self._values[id(a)] and name in same}
        self._order: dict[int, dict[Node, int]] = {}

    def cone(self, side: SteppedRun, value: str) -> tuple[Node, ...]:
        """The nodes that compute a value from common ones, in order."""
        end = self._values[id(side)][value]
        assert end.producer is not None  # it is computed
        found = {end.producer: None}
        pending = [end.producer]
        while pending:
            for read in pending.pop().reads():
                producer = read.producer
                inner = producer is not None and producer.graph is side.graph and read.name not in self.names
                if producer is not None and inner and producer not in found:
                    found[producer] = None
                    pending.append(producer)
        return tuple(sorted(found, key=self._positions(side.graph).__getitem__))

    def _positions(self, graph: Graph) -> dict[Node, int]:
        if id(graph) not in self._order:
            self._order[id(graph)] = {node: index for index, node in enumerate(graph.nodes)}
        return self._order[id(graph)]


def _computed(side: SteppedRun) -> dict[str, Value]:
    return {value.name: value for planned in side.steps for value in planned.outputs if value is not None}


def _same_values(a: Graph, b: Graph, written: Collection[str]) -> set[str]:
    """Names that mean the same in both graphs."""
    nodes = {node.name: node for node in a.nodes}
    same = set(written) | {value.name for value in a.inputs}
    same |= {name for name, value in b.initializers.items() if _same_constant(value, a.initializers.get(name))}
    for node in b.nodes:
        other = nodes.get(node.name)
        if other is not None and all(read.name in same for read in node.reads()) and _alike(node, other):
            same.update(value.name for value in node.outputs if value is not None)
    return same


def _same_constant(one: Value, other: Value | None) -> bool:
    if other is None or one.weight is None or other.weight is None:
        return False
    return one.weight.key == other.weight.key


def _alike(one: Node, other: Node) -> bool:
    """Return whether two nodes compute the same of values of the same names; those with graphs count as different."""
    if one.subgraphs or other.subgraphs:
        return False
    names = [
        [(side.op_type, side.domain), *(value and value.name for value in (*side.inputs, *side.outputs))]
        for side in (one, other)
    ]
    return (
        names[0] == names[1]
        and one.attributes.keys() == other.attributes.keys()
        and all(_same_attribute(value, other.attributes[name]) for name, value in one.attributes.items())
    )


def _same_attribute(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return bool(np.array_equal(one, other))
    return type(one) is type(other) and bool(one == other)
