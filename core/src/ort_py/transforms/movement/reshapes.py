"""Reshapes of reshapes: nodes that only give the same elements another shape, one after the other."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ort_py.contracts import GraphEditor, NodeSpec, NodeTemplate, RewriteRule, TransformContext, ValueSpec
from ort_py.dtypes import Shape
from ort_py.transforms.chains import Chain, chain_of
from ort_py.transforms.movement.unfailing import unsafe

_SHAPING = frozenset({"Flatten", "Reshape", "Squeeze", "Unsqueeze"})


class MergeReshapes(RewriteRule):
    """Reshape, Squeeze, Unsqueeze or Flatten behind another of them: one Reshape of what the first one reads.

    The new shape must not depend on the shape between: all sizes but one are known. A Squeeze of just what an Unsqueeze
    has added is nothing, whatever the sizes.
    """

    name = "ReshapeMerging"
    op_types = _SHAPING

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        chain = chain_of(node, graph, _SHAPING)
        if chain is None or node.opset_version < 5:
            return False
        if _undoes(chain, graph):
            kept = [NodeTemplate("Identity", (chain.source.name,), (chain.result.name,))]
            if not graph.is_output(chain.result):
                graph.replace_uses(chain.result, chain.source)
                kept = []
            graph.replace_nodes(chain.replaced(graph), kept)
            return True
        shape = _target(node, graph)
        if shape is None:
            return "more than one size of its result is not known before it runs"
        reason = _may_fail(chain.inner, shape, graph) or _may_fail(node, shape, graph)
        if reason:
            return reason
        name = graph.add_constant(f"{chain.result.name}/shape", np.array(shape, np.int64))
        attributes = {"allowzero": 1} if 0 in shape else {}
        merged = NodeTemplate("Reshape", (chain.source.name, name), (chain.result.name,), attributes)
        graph.replace_nodes(chain.replaced(graph), [merged])
        return True


def _undoes(chain: Chain, graph: GraphEditor) -> bool:
    """Return whether the second node squeezes the axes that the first one adds. Both count them in the shape
    between.
    """
    if (chain.inner.op_type, chain.outer.op_type) != ("Unsqueeze", "Squeeze"):
        return False
    added, removed = _axes(chain.inner, graph), _axes(chain.outer, graph)
    return added is not None and added == removed and _fit(added, chain.between.shape)


def _fit(axes: list[int], shape: Shape | None) -> bool:
    """Return whether axes name different ones of a shape; where the rank is unknown, only the first ones surely do."""
    if shape is None:
        return axes == list(range(len(axes)))
    return all(-len(shape) <= axis < len(shape) for axis in axes) and len({axis % len(shape) for axis in axes}) == len(
        axes
    )


def _may_fail(node: NodeSpec, target: list[int], graph: GraphEditor) -> str:
    """Why a run may refuse a node, which must not disappear then; empty where a Reshape in its place refuses the same.

    One whose sizes are all known only compares numbers of elements, and so does one in its place.
    """
    result = node.outputs[0]
    sizes = None if result is None else result.shape
    if node.op_type == "Reshape" and sizes is not None and -1 not in target:
        source = graph.constant(node.inputs[1]) if len(node.inputs) > 1 else None
        if (
            source is not None
            and source.ndim == 1
            and prod(target) == prod([size if isinstance(size, int) else -1 for size in sizes])
        ):
            return ""
    return unsafe(node, graph)


def _axes(node: NodeSpec, graph: GraphEditor) -> list[int] | None:
    """The axes of a Squeeze or an Unsqueeze, sorted. None if they are computed or not given."""
    axes: Any = node.attributes.get("axes") if len(node.inputs) < 2 else graph.constant(node.inputs[1])
    return None if axes is None else sorted(np.ravel(axes).tolist())


def _target(node: NodeSpec, graph: GraphEditor) -> list[int] | None:
    """The shape to reshape to, with -1 for one unknown size. None if it must come from the shape in between."""
    result = node.outputs[0]
    known = result.shape if result is not None else None
    if node.op_type == "Squeeze" and _axes(node, graph) is None and not _is_static(node.inputs[0]):
        return None  # the number of axes follows from the sizes of the run, whatever the model declares
    shape = None if known is None else [size if isinstance(size, int) else -1 for size in known]
    if shape is None or shape.count(-1) > 1:
        shape = _requested_shape(node, graph)
    if shape is None or shape.count(-1) > 1:
        return None
    # A size of 0 leaves -1 nothing to be computed from, and older opsets cannot ask for it.
    if 0 in shape and (-1 in shape or node.opset_version < 14):
        return None
    return shape


def _is_static(value: ValueSpec | None) -> bool:
    shape = None if value is None else value.shape
    return shape is not None and all(isinstance(size, int) for size in shape)


def _requested_shape(node: NodeSpec, graph: GraphEditor) -> list[int] | None:
    """The numeric shape that a Reshape requests, or None if it copies a size."""
    if node.op_type != "Reshape" or len(node.inputs) < 2:
        return None
    wanted: Any = graph.constant(node.inputs[1])
    if wanted is None or (0 in wanted and not node.attributes.get("allowzero", 0)):
        return None
    return [int(size) for size in wanted]
