"""Bounds on bounds: Relu, Clip, Min and Max with constants, one after the other.

Each keeps a value between two numbers; two of them keep it between the bounds of the first as the second leaves them.
"""

from __future__ import annotations

import math

import numpy as np

from ort_py.contracts import GraphEditor, NodeSpec, NodeTemplate, RewriteRule, TransformContext, ValueSpec
from ort_py.dtypes import TensorType, numpy_dtype
from ort_py.light_tuple import NamedTuple


class _Bounds(NamedTuple):
    """A node that keeps `source` between two numbers."""

    source: ValueSpec
    low: float
    high: float

    def keep(self, number: float) -> float:
        return min(max(number, self.low), self.high)


class MergeBounds(RewriteRule):
    """Relu, Clip, Min or Max behind another of them: one Relu or Clip, or nothing where the second does nothing."""

    name = "FuseReluClip"
    op_types = frozenset({"Clip", "Max", "Min", "Relu"})

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        outer = _bounds(node, graph)
        inner_node = None if isinstance(outer, str) else graph.producer(outer.source)
        if inner_node is None or isinstance(outer, str) or inner_node.op_type not in self.op_types or inner_node.domain:
            return False
        inner = _bounds(inner_node, graph)
        if isinstance(inner, str):
            return inner
        low, high = outer.keep(inner.low), outer.keep(inner.high)
        if (low, high) == (inner.low, inner.high):
            return graph.bypass(node, outer.source)
        if graph.uses(outer.source) != 1:
            return "the result between is read elsewhere too"
        result = node.outputs[0]
        if result is None or (low, high) == (-math.inf, math.inf):
            return False
        made = _template(node, inner.source, low, high, result, graph)
        if isinstance(made, str):
            return made
        graph.replace_nodes([inner_node, node], [made])
        return True


def _template(
    node: NodeSpec, source: ValueSpec, low: float, high: float, result: ValueSpec, graph: GraphEditor
) -> NodeTemplate | str:
    assert isinstance(result.type, TensorType)  # `_bounds` has looked at it
    floating = np.issubdtype(numpy_dtype(result.type.data_type), np.floating)
    if (low, high) == (0.0, math.inf) and (floating or node.opset_version >= 14):
        return NodeTemplate("Relu", (source.name,), (result.name,))
    if node.opset_version < 6 or (node.opset_version < 12 and not floating):
        return "Clip of this opset cannot say it"
    if node.opset_version < 11:
        limits = {"min": low, "max": high}
        attributes = {name: number for name, number in limits.items() if math.isfinite(number)}
        return NodeTemplate("Clip", (source.name,), (result.name,), attributes)
    dtype = numpy_dtype(result.type.data_type)
    names = [
        graph.add_constant(f"{result.name}/{name}", np.array(number, dtype)) if math.isfinite(number) else ""
        for name, number in (("min", low), ("max", high))
    ]
    return NodeTemplate("Clip", (source.name, *names), (result.name,))


def _bounds(node: NodeSpec, graph: GraphEditor) -> _Bounds | str:
    """The bounds that a node applies to one of its inputs, or a reason why it does not."""
    source, result = node.inputs[0] if node.inputs else None, node.outputs[0]
    if node.domain or source is None or result is None or not isinstance(result.type, TensorType):
        return "a type is not known"
    if numpy_dtype(result.type.data_type).kind not in "fiu":
        return f"bounds of {result.type.data_type.name} are not looked at"
    if node.op_type == "Relu":
        return _Bounds(source, 0.0, math.inf)
    if node.op_type == "Clip" and node.since_version < 11:
        return _checked(source, node.attributes.get("min", -math.inf), node.attributes.get("max", math.inf))
    if node.op_type == "Clip":
        limits: list[float] = []
        for position, nothing in ((1, -math.inf), (2, math.inf)):
            value = node.inputs[position] if position < len(node.inputs) else None
            number = _number(value, graph) if value is not None else nothing
            if number is None:
                return "a bound is not constant"
            limits.append(number)
        return _checked(source, *limits)
    return _extreme(node, result, graph)


def _extreme(node: NodeSpec, result: ValueSpec, graph: GraphEditor) -> _Bounds | str:
    """The bounds of a Min or Max with one number."""
    if len(node.inputs) != 2:
        return "it compares more than two"
    for source, other in (node.inputs, node.inputs[::-1]):
        number = _number(other, graph) if other is not None else None
        if source is None or source.constant or other is None or number is None:
            continue
        if source.shape is None or other.shape is None or len(other.shape) > len(source.shape):
            return "the number may give the result another shape"
        if node.since_version < 8 and other.shape != source.shape:
            return "operands of other shapes are an error in this opset"
        return _checked(source, number, math.inf) if node.op_type == "Max" else _checked(source, -math.inf, number)
    return "neither side is one number"


def _number(value: ValueSpec | None, graph: GraphEditor) -> float | None:
    """The one number a constant holds, where a float has it exactly."""
    if value is None or value.shape is None or any(size != 1 for size in value.shape):
        return None
    array = graph.constant(value)
    if array is None or array.dtype.kind not in "fiu":
        return None
    number = float(array.reshape(()))
    return number if array.dtype.kind == "f" or int(number) == int(array.reshape(())) else None


def _checked(source: ValueSpec, low: float, high: float) -> _Bounds | str:
    if not low <= high:
        return f"its bounds are {low} and {high}"
    return _Bounds(source, float(low), float(high))
