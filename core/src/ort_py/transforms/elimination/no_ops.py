"""Nodes that return their input as it is: Identity, Dropout outside training, and no-op forms of other operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ort_py.contracts import GraphEditor, NodeSpec, RewriteRule, TransformContext, ValueSpec

_MOST_VALUES = 64
"""Values that are looked at to find out what a shape is made of."""


class EliminateIdentity(RewriteRule):
    """Identity nodes, except those that give a graph output its name."""

    name = "EliminateIdentity"
    op_types = frozenset({"Identity"})

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        if node.domain or node.inputs[0] is None:
            return False
        return graph.bypass(node, node.inputs[0])


class EliminateDropout(RewriteRule):
    """Remove Dropout in inference mode if its mask is not read."""

    name = "EliminateDropout"
    op_types = frozenset({"Dropout"})

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        if node.domain or node.inputs[0] is None:
            return False
        mask = node.outputs[1] if len(node.outputs) > 1 else None
        if mask is not None and graph.uses(mask):
            return "its mask is read"
        if self._trains(node, graph):
            return "it is in training mode, or may be"
        return graph.bypass(node, node.inputs[0])

    @staticmethod
    def _trains(node: NodeSpec, graph: GraphEditor) -> bool:
        if node.since_version < 7:
            return not node.attributes.get("is_test", 0)
        mode = node.inputs[2] if len(node.inputs) > 2 else None
        if mode is None:
            return False
        value = graph.constant(mode)
        return value is None or bool(np.any(value))


_Check = Callable[[NodeSpec, GraphEditor], bool]


class EliminateNoop(RewriteRule):
    """Nodes of some operators whose attributes and constants make them return their input.

    Args:
        checks: For each operator, what says that a node of it changes nothing.
    """

    name = ""

    def __init__(self, name: str, checks: Mapping[str, _Check]) -> None:
        self.name = name
        self._checks = checks

    @property
    def op_types(self) -> frozenset[str]:
        return frozenset(self._checks)

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        if node.domain or len(node.outputs) != 1 or not node.inputs or node.inputs[0] is None:
            return False
        if not self._checks[node.op_type](node, graph):
            return False
        source = node.inputs[0]
        if source.constant and node.op_type in _ADDING and node.inputs[1] is not None:
            source = node.inputs[1]
        return graph.bypass(node, source)


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


def _squeezes_nothing(node: NodeSpec, graph: GraphEditor) -> bool:
    """The same, without axes: inference passes over axes that are out of range, and a run refuses them."""
    return "axes" not in node.attributes and len(node.inputs) == 1 and _same_shape(node, graph)


def _expands_nothing(node: NodeSpec, graph: GraphEditor) -> bool:
    """The same, for a shape that follows from others: one that is fed may be none that the input broadcasts to."""
    return _same_shape(node, graph) and _follows_from_shapes(node.inputs[1] if len(node.inputs) > 1 else None, graph)


def _follows_from_shapes(value: ValueSpec | None, graph: GraphEditor) -> bool:
    """Return whether a value is computed only from constants and sizes."""
    pending, seen = [value], set[str]()
    while pending:
        one = pending.pop()
        if one is None or one.name in seen or graph.constant(one) is not None:
            continue
        seen.add(one.name)
        maker = graph.producer(one)
        if maker is None or len(seen) > _MOST_VALUES:
            return False
        if maker.op_type not in {"Shape", "Size"}:
            pending.extend(maker.inputs)
    return True


def _only_input(node: NodeSpec, graph: GraphEditor) -> bool:
    ranked = node.inputs[0] is not None and node.inputs[0].shape is not None
    return len(node.inputs) == 1 and (ranked or node.op_type != "Concat")


def _identity_permutation(node: NodeSpec, graph: GraphEditor) -> bool:
    source = node.inputs[0]
    permutation = node.attributes.get("perm")
    if source is None or source.shape is None:
        return False
    rank = len(source.shape)
    return rank < 2 if permutation is None else tuple(permutation) == tuple(range(rank))


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
    shape = node.inputs[0].shape if node.inputs[0] is not None else None
    if shape is None:
        return False  # the axes may not be there
    if np.all(ends >= np.iinfo(np.int32).max):  # how exporters write "to the end"
        return True
    sizes = [shape[axis] for axis in (range(len(starts)) if axes is None else np.asarray(axes).tolist())]
    return all(isinstance(size, int) and end >= size for size, end in zip(sizes, ends.tolist(), strict=True))


def _no_padding(node: NodeSpec, graph: GraphEditor) -> bool:
    pads: Any = _constant(node, graph, 1) if node.since_version >= 11 else node.attributes.get("pads")
    return pads is not None and not np.any(pads)


def _constant(node: NodeSpec, graph: GraphEditor, index: int) -> Any:
    value: ValueSpec | None = node.inputs[index] if index < len(node.inputs) else None
    return graph.constant(value)


_ADDING = frozenset({"Add", "Mul"})


def _neutral(node: NodeSpec, graph: GraphEditor) -> bool:
    """Adding or subtracting 0, multiplying with or dividing by 1, where that broadcasts nothing."""
    first, second = (*node.inputs, None)[:2]
    if first is None or second is None:
        return False
    if first.constant and node.op_type in _ADDING:
        first, second = second, first
    if not second.constant or second.shape is None or first.shape is None or len(second.shape) > len(first.shape):
        return False
    if any(size != 1 for size in second.shape):
        return False
    array = graph.constant(second)
    return array is not None and bool(array.item() == (0 if node.op_type in ("Add", "Sub") else 1))


def noop_rules() -> list[EliminateNoop]:
    """One rule for each kind, so that each can be switched off; called as in onnxruntime where it has the same."""
    return [
        EliminateNoop("CastElimination", {"Cast": _same_type}),
        EliminateNoop("EliminateSlice", {"Slice": _whole_slice}),
        EliminateNoop("ExpandElimination", {"Expand": _expands_nothing}),
        EliminateNoop("NoopElimination", dict.fromkeys(("Add", "Div", "Mul", "Sub"), _neutral)),
        EliminateNoop("PadElimination", {"Pad": _no_padding}),
        EliminateNoop(
            "ReshapeElimination", {"Flatten": _same_shape, "Reshape": _same_shape, "Squeeze": _squeezes_nothing}
        ),
        EliminateNoop("SingleInputElimination", dict.fromkeys(("Concat", "Max", "Mean", "Min", "Sum"), _only_input)),
        EliminateNoop("TransposeElimination", {"Transpose": _identity_permutation}),
    ]
