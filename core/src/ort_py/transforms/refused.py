"""Nodes that break a constraint of their operator, whatever a run feeds: no rule may replace or remove them.

Comes before the first transform. The table of constraints that compiled regions are checked with decides. It is asked
about few nodes, since it takes longer than most rules: inference has compared the operands of the others. Does not
depend on rules.
"""

from __future__ import annotations

from ort_py.dtypes import Shape, TensorType
from ort_py.graph.editing.edit import Editor
from ort_py.graph.ir import Node, Value, walk

_VECTORS = {
    "BatchNormalization": (1, 1),
    "Conv": (2, 1),
    "ConvTranspose": (2, 1),
    "Gemm": (2, -1),
    "GroupNormalization": (1, 1),
    "InstanceNormalization": (1, 1),
    "LayerNormalization": (1, -1),
}
"""Operators with operands that inference does not look at, because no shape follows from them: the first of these, and
the axis of the result that nearly all are as long as."""

_CHECKING_AXES = 11
"""Opset from which on inference compares axes that are attributes with the rank."""


def refused_nodes(editor: Editor) -> frozenset[Node]:
    """The nodes that their kernels will refuse."""
    refused: list[Node] = []
    for graph in walk(editor.graph):
        here = editor.state.editors.get(graph) or Editor(graph, editor.state)
        for node in graph.nodes:
            if _is_open(node):
                from ort_py.constraints.trace import examine  # few models need the table before they have regions

                if examine(here.record(node), here.constant).violations:
                    refused.append(node)
    return frozenset(refused)


def _is_open(node: Node) -> bool:
    """Return whether inference may have passed over a contradiction."""
    if "axes" in node.attributes and node.since_version < _CHECKING_AXES:
        return True
    trusted = node.graph.model.trusted
    shapes = [() if value is None else None if value in trusted else _shape(value) for value in node.outputs]
    if None in shapes or not shapes:
        return True
    first, axis = _VECTORS.get(node.op_type, (len(node.inputs), 0))
    vectors = [_shape(value) for value in node.inputs[first:] if value is not None]
    return any(not shapes[0] or shape != shapes[0][axis:][:1] for shape in vectors)


def _shape(value: Value) -> Shape | None:
    return value.type.shape if isinstance(value.type, TensorType) else None
