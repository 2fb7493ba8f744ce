"""Nodes that return their input as it is: Identity, Dropout outside training, and no-op forms of other operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ort_py.contracts import GraphEditor, NodeSpec, RewriteRule, TransformContext, ValueSpec
from ort_py.transforms.bypass import bypass, is_output

__all__ = ["EliminateDropout", "EliminateIdentity", "EliminateNoop"]


class EliminateIdentity(RewriteRule):
    """Identity nodes, except those that give a graph output its name."""

    name = "EliminateIdentity"
    op_types = frozenset({"Identity"})

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        if node.domain or node.inputs[0] is None:
            return False
        return bypass(graph, node, node.inputs[0])


class EliminateDropout(RewriteRule):
    """Dropout in inference mode whose mask nobody reads."""

    name = "EliminateDropout"
    op_types = frozenset({"Dropout"})

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        if node.domain or node.inputs[0] is None:
            return False
        mask = node.outputs[1] if len(node.outputs) > 1 else None
        if mask is not None and (graph.view.consumers(mask.name) or is_output(graph, mask.name)):
            return "its mask is read"
        if self._trains(node, graph):
            return "it is in training mode, or may be"
        return bypass(graph, node, node.inputs[0])

    @staticmethod
    def _trains(node: NodeSpec, graph: GraphEditor) -> bool:
        if node.since_version < 7:
            return not node.attributes.get("is_test", 0)
        mode = node.inputs[2] if len(node.inputs) > 2 else None
        if mode is None:
            return False
        value = graph.view.constant(mode.name)
        return value is None or bool(np.any(value))


class EliminateNoop(RewriteRule):
    """Nodes of many operators whose attributes and constants make them return their input."""

    name = "EliminateNoop"

    @property
    def op_types(self) -> frozenset[str]:
        return frozenset(_CHECKS)

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        if node.domain or len(node.outputs) != 1 or not node.inputs or node.inputs[0] is None:
            return False
        return _CHECKS[node.op_type](node, graph) and bypass(graph, node, node.inputs[0])


def _same_type(node: NodeSpec, graph: GraphEditor) -> bool:
    source, result = node.inputs[0], node.outputs[0]
    # The attribute `to` decides, not the inferred type: a declaration could be wrong.
    return source is not None and result is not None and source.data_type == node.attributes.get("to")


def _same_shape(node: NodeSpec, graph: GraphEditor) -> bool:
    """Input and output have one shape, each size known or called by the same name."""
    source, result = node.inputs[0], node.outputs[0]
    if source is None or result is None or source.shape is None:
        return False
    return None not in source.shape and source.shape == result.shape


def _only_input(node: NodeSpec, graph: GraphEditor) -> bool:
    return len(node.inputs) == 1


def _identity_permutation(node: NodeSpec, graph: GraphEditor) -> bool:
    source = node.inputs[0]
    permutation = node.attributes.get("perm")
    if permutation is None:
        return source is not None and source.shape is not None and len(source.shape) < 2
    return tuple(permutation) == tuple(range(len(permutation)))


def _whole_slice(node: NodeSpec, graph: GraphEditor) -> bool:
    if node.since_version < 10:
        starts = np.asarray(node.attributes.get("starts", (1,)))
        ends = np.asarray(node.attributes.get("ends", ()))
        axes, steps = node.attributes.get("axes"), None
    else:
        starts, ends = _constant(node, graph, 1), _constant(node, graph, 2)
        axes, steps = _constant(node, graph, 3), _constant(node, graph, 4)
        if any(value is not None for value in node.inputs[3:]) and (
            axes is None or (len(node.inputs) > 4 and steps is None)
        ):
            return False
    if starts is None or ends is None or np.any(starts) or (steps is not None and np.any(np.asarray(steps) != 1)):
        return False
    if np.all(ends >= np.iinfo(np.int32).max):  # how exporters write "to the end"
        return True
    shape = node.inputs[0].shape if node.inputs[0] is not None else None
    if shape is None:
        return False
    sizes = [shape[axis] for axis in (range(len(starts)) if axes is None else np.asarray(axes).tolist())]
    return all(isinstance(size, int) and end >= size for size, end in zip(sizes, ends.tolist(), strict=True))


def _no_padding(node: NodeSpec, graph: GraphEditor) -> bool:
    pads: Any = _constant(node, graph, 1) if node.since_version >= 11 else node.attributes.get("pads")
    return pads is not None and not np.any(pads)


def _constant(node: NodeSpec, graph: GraphEditor, index: int) -> Any:
    value: ValueSpec | None = node.inputs[index] if index < len(node.inputs) else None
    return None if value is None else graph.view.constant(value.name)


_CHECKS: dict[str, Callable[[NodeSpec, GraphEditor], bool]] = {
    "Cast": _same_type,
    "Concat": _only_input,
    "Expand": _same_shape,
    "Flatten": _same_shape,
    "Max": _only_input,
    "Mean": _only_input,
    "Min": _only_input,
    "Pad": _no_padding,
    "Reshape": _same_shape,
    "Slice": _whole_slice,
    "Squeeze": _same_shape,
    "Sum": _only_input,
    "Transpose": _identity_permutation,
    "Unsqueeze": _same_shape,
}
