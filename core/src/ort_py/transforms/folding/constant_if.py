"""If with a constant condition: the branch taken stands in its place."""

from __future__ import annotations

import numpy as np

from ort_py.contracts import GraphEditor, NodeSpec, RewriteRule, TransformContext


class ConstantIf(RewriteRule):
    """Moves the nodes of the branch into the graph. The other branch goes, with what only it needed."""

    name = "ConstantIf"
    op_types = frozenset({"If"})

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        condition = node.inputs[0]
        if node.domain or condition is None or not condition.constant:
            return False
        value = graph.constant(condition)
        if value is None or np.size(value) != 1:
            return "its condition is not one boolean"
        graph.inline_subgraph(node, "then_branch" if bool(np.reshape(value, ())) else "else_branch")
        return True
