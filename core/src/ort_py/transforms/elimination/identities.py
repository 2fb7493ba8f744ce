"""Identities of arithmetic and logic: nodes that together, or with a constant, are less than they look.

Each is a row of a table or a small function; types and shapes of what is left are provably those before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ort_py.contracts import GraphEditor, NodeSpec, NodeTemplate, RewriteRule, TransformContext, ValueSpec
from ort_py.dtypes import DataType
from ort_py.transforms.movement.unfailing import broadcast

_Apply = Callable[[NodeSpec, GraphEditor], bool | str]


class _Identity(RewriteRule):
    """Some operators, with what is done to a node of each."""

    name = ""

    def __init__(self, name: str, rewrites: Mapping[str, _Apply]) -> None:
        self.name = name
        self._rewrites = rewrites

    @property
    def op_types(self) -> frozenset[str]:
        return frozenset(self._rewrites)

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        if node.domain or not node.inputs or node.inputs[0] is None or node.outputs[0] is None:
            return False
        return self._rewrites[node.op_type](node, graph)


_UNDONE_BY_ITSELF = frozenset({"BitwiseNot", "Neg", "Not"})

_NOTHING_AFTER: Mapping[str, frozenset[str]] = {
    "Abs": frozenset({"Abs", "Exp", "Sigmoid"}),
    "Ceil": frozenset({"Ceil", "Floor", "Round"}),
    "Floor": frozenset({"Ceil", "Floor", "Round"}),
    "Relu": frozenset({"Abs", "Exp", "Relu", "Sigmoid", "Sqrt"}),
    "Round": frozenset({"Ceil", "Floor", "Round"}),
    "Sign": frozenset({"Sign"}),
}
"""Operators that change nothing of what these others compute. Relu and Sqrt may give a negative zero, which Abs
changes."""


def _unary(node: NodeSpec, graph: GraphEditor) -> bool | str:
    """``Not(Not(x))`` is x; ``Abs(Exp(x))`` is ``Exp(x)``."""
    value = node.inputs[0]
    inner = graph.producer(value)
    if inner is None or inner.domain or value is None:
        return False
    if inner.op_type in _NOTHING_AFTER.get(node.op_type, ()):
        return graph.bypass(node, value)
    if inner.op_type == node.op_type and node.op_type in _UNDONE_BY_ITSELF and inner.inputs[0] is not None:
        return graph.bypass(node, inner.inputs[0])
    return False


def _where(node: NodeSpec, graph: GraphEditor) -> bool | str:
    """A constant condition chooses; a negated one is left out by exchanging the choices.

    A node with two equal choices stays: its condition may have a shape that does not fit.
    """
    condition, yes, no = node.inputs
    result = node.outputs[0]
    if condition is None or yes is None or no is None or result is None:
        return False
    known = graph.constant(condition)
    if known is not None:
        if np.any(known) and not np.all(known):
            return False
        chosen = yes if np.all(known) else no
        if not _same_shape(chosen, result):
            return "the choice may have to be repeated to get the result's shape"
        if not broadcast([value.shape for value in (condition, yes, no)]):
            return "the shape of the other choice may not fit"
        return graph.bypass(node, chosen)
    negation = graph.producer(condition)
    if negation is None or negation.op_type != "Not" or negation.domain or negation.inputs[0] is None:
        return False
    inputs = (negation.inputs[0].name, no.name, yes.name)
    nodes = [negation, node] if graph.uses(condition) == 1 else [node]
    graph.replace_nodes(nodes, [NodeTemplate("Where", inputs, (result.name,))])
    return True


def _power(node: NodeSpec, graph: GraphEditor) -> bool | str:
    """``x ** 1`` is x."""
    exponent = graph.constant(node.inputs[1])
    base, result = node.inputs[0], node.outputs[0]
    if exponent is None or base is None or result is None or not np.all(exponent == 1):
        return False
    if base.data_type is not result.data_type or not _same_shape(base, result):
        return "the exponent may give the result another shape or type"
    return graph.bypass(node, base)


_FLOATS = (DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.BFLOAT16)


def _product_of_inverse(node: NodeSpec, graph: GraphEditor) -> bool | str:
    """``(1 / x) * y`` is ``y / x``."""
    for inverse, other in (node.inputs, node.inputs[::-1]):
        division = graph.producer(inverse)
        if division is None or division.domain or inverse is None or other is None:
            continue
        result = node.outputs[0]
        divisor = _inverted(division, graph)
        if divisor is None or result is None or division.since_version < 7:
            continue
        if divisor.data_type not in _FLOATS:
            return "integers are divided first"
        if graph.uses(inverse) != 1:
            return "the inverse is read elsewhere too"
        graph.replace_nodes([division, node], [NodeTemplate("Div", (other.name, divisor.name), (result.name,))])
        return True
    return False


def _inverted(node: NodeSpec, graph: GraphEditor) -> ValueSpec | None:
    """The value that a node divides 1 by. None if the node does something else or has a larger result."""
    if node.op_type != "Div" or len(node.inputs) != 2:
        return None
    one, divisor, result = *node.inputs, node.outputs[0]
    if divisor is None or result is None or not _same_shape(divisor, result):
        return None
    array = graph.constant(one)
    return divisor if array is not None and np.all(array == 1) else None


def _sum(node: NodeSpec, graph: GraphEditor) -> bool | str:
    """A Sum of two is an Add, which more rules look for."""
    result = node.outputs[0]
    if len(node.inputs) != 2 or None in node.inputs or result is None or node.opset_version < 7:
        return False
    left, right = node.inputs
    if node.since_version < 8 and not (left is not None and right is not None and _same_shape(left, right)):
        return "operands of other shapes, which Add would broadcast, are an error in this opset"
    inputs = tuple([value.name for value in node.inputs if value is not None])
    graph.replace_nodes([node], [NodeTemplate("Add", inputs, (result.name,))])
    return True


def _no_axes(node: NodeSpec, graph: GraphEditor) -> bool | str:
    """Bypass a reduction over no axes, if its attribute defines it as the identity."""
    if not node.attributes.get("noop_with_empty_axes", 0) or node.inputs[0] is None or "axes" in node.attributes:
        return False
    given = node.inputs[1] if len(node.inputs) > 1 else None
    axes = graph.constant(given)
    if given is not None and (axes is None or axes.size):
        return False
    return graph.bypass(node, node.inputs[0])


def _same_shape(left: ValueSpec, right: ValueSpec) -> bool:
    return left.shape is not None and None not in left.shape and left.shape == right.shape


def identity_rules() -> list[RewriteRule]:
    """One rule for each kind, so that each can be switched off; called as in onnxruntime where it has the same."""
    return [
        _Identity("UnaryIdentities", dict.fromkeys((*_UNDONE_BY_ITSELF, *_NOTHING_AFTER), _unary)),
        _Identity("NotWhereFusion", {"Where": _where}),
        _Identity("PowIdentity", {"Pow": _power}),
        _Identity("DivMulFusion", {"Mul": _product_of_inverse}),
        _Identity("SumToAdd", {"Sum": _sum}),
        _Identity(
            "ReductionElimination",
            dict.fromkeys(("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"), _no_axes),
        ),
    ]
