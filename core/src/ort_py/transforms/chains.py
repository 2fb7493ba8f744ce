"""Two nodes in a row of which a rule makes one: a Cast of a Cast, a Transpose of a Transpose.

It does not depend on operators: the rules of `elimination` and `movement` say which they mean, and what becomes of
them.
"""

from __future__ import annotations

from collections.abc import Collection

from ort_py.contracts import GraphEditor, NodeSpec, ValueSpec
from ort_py.light_tuple import NamedTuple


class Chain(NamedTuple):
    """A node of ONNX's own domain, and the one whose first output is its first input.

    Attributes:
        outer: The node behind it.
        source: First input of the first.
    """

    inner: NodeSpec
    outer: NodeSpec
    source: ValueSpec
    between: ValueSpec
    result: ValueSpec

    def replaced(self, graph: GraphEditor) -> list[NodeSpec]:
        """The nodes that a replacement of the second node replaces: the first too, if it has no other reader."""
        return [self.inner, self.outer] if graph.uses(self.between) == 1 else [self.outer]


def chain_of(node: NodeSpec, graph: GraphEditor, op_types: Collection[str]) -> Chain | None:
    """The chain that ends with a node and begins with one of some operators, or None."""
    inner = graph.producer(node.inputs[0])
    if node.domain or inner is None or inner.op_type not in op_types or inner.domain:
        return None
    source, between, result = inner.inputs[0], node.inputs[0], node.outputs[0]
    if source is None or between is None or result is None:
        return None
    return Chain(inner, node, source, between, result)
