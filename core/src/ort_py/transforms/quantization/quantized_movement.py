"""Elements that are only moved between DequantizeLinear and QuantizeLinear are moved as the integers they are.

The QuantizeLinear must use the scale, zero point and type of the DequantizeLinear, so that it gives back the integers
that went in: ``round((x - z) · s / s) + z`` is `x` for 8 and 16 bits and any scale of usual size. Standard operators
only; what computes with elements is `quantized_activations`.
"""

from __future__ import annotations

import numpy as np

from ort_py.contracts import GraphEditor, Level, NodeSpec, NodeTemplate, RewriteRule, TransformContext
from ort_py.dtypes import DataType

_TYPES = (DataType.UINT8, DataType.INT8, DataType.UINT16, DataType.INT16)

_MOVES = """
    Concat DepthToSpace Expand Flatten Gather Identity MaxPool Reshape Slice SpaceToDepth Squeeze Tile Transpose
    Unsqueeze
"""
"""Operators whose result has no other elements than their first input, or for Concat all inputs."""

_MAX_POOL_OF_BYTES = 12
"""Version from which MaxPool takes integers, of 8 bits."""


_LARGEST_SCALE = 1e30
"""With larger scales a number of 16 bits may become infinite, and does not come back."""


class MoveQuantized(RewriteRule):
    """Drops the conversions around an operator that moves elements, or around nothing."""

    name = "QDQMovement"
    level = Level.EXTENDED
    op_types = frozenset({"QuantizeLinear"})

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        if node.domain or node.inputs[0] is None or node.outputs[0] is None:
            return False
        source = graph.producer(node.inputs[0])
        if source is None or source.domain:
            return False
        if source.op_type == "DequantizeLinear":
            reason = _differs(graph, source, node)
            integers = source.inputs[0]
            return reason or (integers is not None and graph.bypass(node, integers))
        if source.op_type not in _MOVES.split() or len(source.outputs) != 1:
            return False
        count = len(source.inputs) if source.op_type == "Concat" else 1
        makers = [graph.producer(one) for one in source.inputs[:count]]
        if any(one is None or one.domain or one.op_type != "DequantizeLinear" for one in makers):
            return False
        integers_of: list[str] = []
        for maker in makers:
            integers = maker.inputs[0] if maker is not None else None
            if maker is None or integers is None:
                return False
            reason = _differs(graph, maker, node)
            if reason:
                return reason
            integers_of.append(integers.name)
        if graph.uses(node.inputs[0]) != 1:
            return f"'{node.inputs[0].name}' is read elsewhere too: elements would be moved twice"
        kind = node.outputs[0].data_type
        if source.op_type == "MaxPool" and (
            source.since_version < _MAX_POOL_OF_BYTES or kind not in (DataType.UINT8, DataType.INT8)
        ):
            return f"MaxPool of version {source.since_version} does not take {kind.name.lower() if kind else 'these'}"
        rest = [one.name if one is not None else "" for one in source.inputs[count:]]
        moved = NodeTemplate(source.op_type, (*integers_of, *rest), (node.outputs[0].name,), source.attributes, name="")
        graph.replace_nodes([source, node], [moved])
        return True


def parameters_of(graph: GraphEditor, node: NodeSpec) -> tuple[float, int, DataType] | str:
    """Scale, zero point and integer type of a node that converts with one constant scale, or why it has none."""
    scale = graph.constant(node.inputs[1]) if len(node.inputs) > 1 else None
    given = node.inputs[2] if len(node.inputs) > 2 else None
    zero = graph.constant(given)
    if scale is None or (given is not None and zero is None):
        return f"scale or zero point of {node.op_type} '{node.name}' is not a constant"
    if scale.size != 1 or (zero is not None and zero.size != 1):
        return f"{node.op_type} '{node.name}' has a scale for each entry of an axis"
    value = float(scale.item())
    if scale.dtype != np.float32 or not np.finfo(np.float32).tiny <= value <= _LARGEST_SCALE:
        return f"the scale of {node.op_type} '{node.name}' is {value} of {scale.dtype}, not a float32 of usual size"
    whole = node.inputs[0] if node.op_type == "DequantizeLinear" else node.outputs[0]
    kind = whole.data_type if whole is not None else None
    if kind not in _TYPES:
        return f"{node.op_type} '{node.name}' converts {kind.name.lower() if kind else 'an unknown type'}"
    return value, 0 if zero is None else int(zero.item()), kind


def _differs(graph: GraphEditor, before: NodeSpec, after: NodeSpec) -> str:
    """Explain why a QuantizeLinear does not undo a DequantizeLinear; empty if it does."""
    left, right = parameters_of(graph, before), parameters_of(graph, after)
    if isinstance(left, str) or isinstance(right, str):
        return left if isinstance(left, str) else str(right)
    if left != right:
        shown = [
            f"{kind.name.lower()} with scale {scale:g} and zero point {zero}" for scale, zero, kind in (left, right)
        ]
        return f"it goes from {shown[0]} to {shown[1]}"
    return ""
