"""Reshapes of reshapes: nodes that only give the same elements another shape, one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from ort_py.contracts import GraphEditor, NodeSpec, NodeTemplate, RewriteRule, TransformContext
from ort_py.transforms.chains import chain_of

__all__ = ["MergeReshapes"]

_SHAPING = frozenset({"Flatten", "Reshape", "Squeeze", "Unsqueeze"})


class MergeReshapes(RewriteRule):
    """Reshape, Squeeze, Unsqueeze or Flatten behind another of them: one Reshape of what the first one reads.

    The new shape must not depend on the shape between: all sizes but one are known.
    """

    name = "ReshapeMerging"
    op_types = _SHAPING

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        chain = chain_of(node, graph, _SHAPING)
        if chain is None or node.opset_version < 5:
            return False
        shape = _target(node, graph)
        if shape is None:
            return "more than one size of its result is not known before it runs"
        name = graph.add_constant(f"{chain.result.name}/shape", np.array(shape, np.int64))
        attributes = {"allowzero": 1} if 0 in shape else {}
        merged = NodeTemplate("Reshape", (chain.source.name, name), (chain.result.name,), attributes)
        graph.replace_nodes(chain.replaced(graph), [merged])
        return True


def _target(node: NodeSpec, graph: GraphEditor) -> list[int] | None:
    """The shape to reshape to, with -1 where one size is unknown; None where it must come from the shape between."""
    result = node.outputs[0]
    known = result.shape if result is not None else None
    shape = None if known is None else [size if isinstance(size, int) else -1 for size in known]
    if shape is None or shape.count(-1) > 1:
        shape = _asked(node, graph)
    if shape is None or shape.count(-1) > 1:
        return None
    # A size of 0 leaves -1 nothing to be computed from, and older opsets cannot ask for it.
    if 0 in shape and (-1 in shape or node.opset_version < 14):
        return None
    return shape


def _asked(node: NodeSpec, graph: GraphEditor) -> list[int] | None:
    """The shape a Reshape asks for by number; None where a size is to be copied."""
    if node.op_type != "Reshape" or len(node.inputs) < 2:
        return None
    wanted: Any = graph.constant(node.inputs[1])
    if wanted is None or (0 in wanted and not node.attributes.get("allowzero", 0)):
        return None
    return [int(size) for size in wanted]
