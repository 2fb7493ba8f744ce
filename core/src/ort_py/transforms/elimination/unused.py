"""Removal of nodes and constants that no output needs, and of optional outputs without readers.

Kernels need not compute such outputs, and rules see simpler nodes.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

from ort_py.contracts import (
    GraphEditor,
    GraphTransform,
    NodeSpec,
    NodeTemplate,
    RewriteRule,
    TransformContext,
    TransformResult,
)
from ort_py.onnx_operators import find, newest_opsets


class EliminateDeadCode(GraphTransform):
    """Removes nodes and constants that no output needs. Overridable initializers stay: callers may name them."""

    name = "EliminateDeadCode"

    cleans = True

    def run(self, graph: GraphEditor, context: TransformContext) -> TransformResult:
        return TransformResult(graph.remove_unused())


class DropUnusedOutputs(RewriteRule):
    """Leaves out optional outputs without readers: masks of Dropout, indices of MaxPool, mean of LayerNormalization."""

    name = "UnusedOutputs"

    op_types = None

    def concerns(self, op_type: str, present: Collection[str]) -> bool:
        return bool(_optional_outputs(op_type, "", newest_opsets()[""]))  # none lost them later

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        if len(node.outputs) < 2:
            return False
        optional = _optional_outputs(node.op_type, node.domain, node.since_version)
        kept = [
            value.name if value is not None and not (index in optional and not graph.uses(value)) else ""
            for index, value in enumerate(node.outputs)
        ]
        if kept == [value.name if value is not None else "" for value in node.outputs]:
            return False
        while kept and not kept[-1]:
            kept.pop()
        if not kept:
            return False  # the node is not needed at all
        if node.op_type == "BatchNormalization" and node.attributes.get("training_mode", 0):
            return "in training mode all outputs have to be there"
        inputs = tuple(["" if value is None else value.name for value in node.inputs])
        graph.replace_nodes([node], [NodeTemplate(node.op_type, inputs, tuple(kept), node.attributes, node.domain)])
        return True


@cache
def _optional_outputs(op_type: str, domain: str, version: int) -> frozenset[int]:
    """Positions of outputs that a node may leave out; the first is never one."""
    operator = find(op_type, domain, version)
    if operator is None:
        return frozenset()
    return frozenset(index for index, output in enumerate(operator.outputs) if index and output.optional)
