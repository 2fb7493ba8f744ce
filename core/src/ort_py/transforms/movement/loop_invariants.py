"""Loop invariants: values that every iteration recomputes from unchanged values are computed once, in front of the
loop.

The body still reads it, as a value of the graph around, which outlives the iterations. A loop may run zero times:
so only what cannot fail moves (`unfailing`), unless the loop is known to run. What a loop that never runs would compute
stays where it is.

Rules that look at pairs of nodes see a body before anything leaves it, since this runs behind them: an operand's
Transpose, say, is part of a product then, and does not move by itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ort_py.contracts import GraphEditor, GraphTransform, GraphView, Level, NodeSpec, TransformContext, TransformResult
from ort_py.transforms.movement.unfailing import unfit, unsafe

_LOOPS = frozenset({"Loop", "Scan"})


class MoveLoopInvariants(GraphTransform):
    """Nodes in the body of a Loop or Scan that read nothing of it, or only what such nodes write."""

    name = "LoopInvariants"
    level = Level.EXTENDED

    def run(self, graph: GraphEditor, context: TransformContext) -> TransformResult:
        graphs = [graph]
        for editor in graphs:
            graphs.extend(editor.subgraphs())
        changes = 0
        notes: list[str] = []
        for editor in reversed(graphs):  # the innermost first: what leaves one loop may leave the next
            # A body has inputs, and names are unique in a model.
            bodies = {value.name: inside for inside in editor.subgraphs() for value in inside.view.inputs[:1]}
            for node in editor.nodes if bodies else ():
                body = node.attributes.get("body")
                if node.op_type in _LOOPS and not node.domain and isinstance(body, GraphView) and body.inputs:
                    changes += _emptied(node, editor, bodies[body.inputs[0].name], notes)
        return TransformResult(changes, tuple(notes))


def _emptied(node: NodeSpec, graph: GraphEditor, inside: GraphEditor, notes: list[str]) -> int:
    """Move what can leave the body of one loop; returns how many nodes did."""
    runs = _runs(node, graph)
    if runs is False:
        return 0
    changing = {value.name for value in inside.view.inputs}
    leaving: list[NodeSpec] = []
    for inner in inside.nodes:
        if all(value is None or value.name not in changing for value in inner.inputs) and inner.inputs:
            reason = unfit(inner) or ("" if runs else unsafe(inner, inside))
            if not reason:
                leaving.append(inner)
                continue
            if inner.op_type != "Identity":  # it gives what a body returns its name
                notes.append(f"'{inner.name}' stays in '{node.name}': {reason}")
        changing.update(value.name for value in inner.outputs if value is not None)
    if leaving:
        inside.move_out(leaving)
    return len(leaving)


def _runs(node: NodeSpec, graph: GraphEditor) -> bool | None:
    """Return whether a loop runs at least once, according to constants. None if they do not determine it."""
    if node.op_type == "Scan":
        return None
    count, condition = [_scalar(node, position, graph) for position in range(2)]
    if (count is not None and count < 1) or condition is False:
        return False
    return True if count is not None and condition is not None else None


def _scalar(node: NodeSpec, position: int, graph: GraphEditor) -> Any:
    """The trip count or the condition of a Loop; without one, it does not end the loop."""
    value = node.inputs[position] if len(node.inputs) > position else None
    if value is None:
        return True
    array = graph.constant(value)
    return None if array is None or array.size != 1 else np.reshape(array, ()).item()
