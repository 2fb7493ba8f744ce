"""Nodes and constants that no output needs."""

from __future__ import annotations

from ort_py.contracts import GraphEditor, GraphTransform, TransformContext, TransformResult

__all__ = ["EliminateDeadCode"]


class EliminateDeadCode(GraphTransform):
    """Removes them, nested graphs included. Overridable initializers stay: callers may name them."""

    name = "EliminateDeadCode"

    def run(self, graph: GraphEditor, context: TransformContext) -> TransformResult:
        return TransformResult(graph.remove_unused())
