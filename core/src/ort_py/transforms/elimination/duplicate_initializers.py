"""Merging of constants with equal content, so that equal inputs of nodes are recognised."""

from __future__ import annotations

from ort_py.contracts import GraphEditor, GraphTransform, TransformContext, TransformResult

__all__ = ["MergeDuplicateInitializers"]


class MergeDuplicateInitializers(GraphTransform):
    """Lets readers of the later constant read the first of the same graph. Those that callers may override stay."""

    name = "DuplicateInitializers"

    def run(self, graph: GraphEditor, context: TransformContext) -> TransformResult:
        changes = 0
        pending = [graph]
        while pending:
            editor = pending.pop()
            changes += self._run_one(editor)
            pending.extend(editor.subgraphs())
        return TransformResult(changes)

    @staticmethod
    def _run_one(graph: GraphEditor) -> int:
        changes = 0
        first: dict[str, str] = {}
        for value in graph.constants():
            if graph.is_output(value):
                continue  # its name is promised
            kept = first.setdefault(graph.constant_key(value), value.name)
            if kept != value.name and graph.uses(value):
                graph.replace_uses(value, kept)
                changes += 1
        return changes
