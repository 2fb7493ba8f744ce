"""Comparisons, logic, the choice between two values, and conversions of types."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ort_py.contracts import NodeSpec
from ort_py.dtypes import DataType
from ort_py_coreml.operators.operator import ALL, Constants, Operator, Var, attribute, both, kind_of, shape_of

if TYPE_CHECKING:
    from ort_py_coreml.lowering import Lowering

__all__ = ["OPERATORS"]


def _not(lowering: Lowering, node: NodeSpec) -> Var:
    return lowering.mb.logical_not(x=lowering.read(node.inputs[0]))


def _check_comparison(node: NodeSpec, graph: Constants) -> str | None:
    return "it compares booleans" if kind_of(node) is DataType.BOOL else None


def _check_where(node: NodeSpec, graph: Constants) -> str | None:
    """MIL derives the shape of the result from the two values alone, without that of the condition."""
    result = () if node.outputs[0] is None or node.outputs[0].shape is None else tuple(node.outputs[0].shape)
    first, second = (((1,) * len(result) + shape_of(node, place))[-len(result) :] for place in (1, 2))
    for dim, one, other in zip(result, first, second, strict=True):
        if dim is None or dim not in (one, other):
            return "its condition is larger than both values"
    if kind_of(node, 1) is DataType.BOOL:
        return "it chooses between booleans"
    return None


def _where(lowering: Lowering, node: NodeSpec) -> Var:
    condition, a, b = (lowering.read(value) for value in node.inputs)
    return lowering.mb.select(cond=condition, a=a, b=b)


def _check_cast(node: NodeSpec, graph: Constants) -> str | None:
    value = node.outputs[0]
    wide = value is not None and value.data_type is DataType.INT64
    if wide and kind_of(node) is DataType.FLOAT:
        return "it makes int64 of float32, which may be too large for int32, the only integers of Core ML"
    return None


def _cast(lowering: Lowering, node: NodeSpec) -> Var:
    mb, x, to = lowering.mb, lowering.read(node.inputs[0]), DataType(int(attribute(node, "to", 1)))
    if to is DataType.BOOL and kind_of(node) is not DataType.BOOL:
        return mb.not_equal(x=x, y=(np.float32 if kind_of(node) is DataType.FLOAT else np.int32)(0))
    return mb.cast(x=x, dtype={DataType.FLOAT: "fp32", DataType.BOOL: "bool"}.get(to, "int32"))


_COMPARISONS = {
    "Equal": "equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
}
_LOGIC = {"And": "logical_and", "Or": "logical_or", "Xor": "logical_xor"}
_BOOLEANS = frozenset({DataType.BOOL})

OPERATORS = {
    **{
        name: Operator(both(function), _check_comparison, since=7, kinds=ALL) for name, function in _COMPARISONS.items()
    },
    **{name: Operator(both(function), since=7, kinds=_BOOLEANS) for name, function in _LOGIC.items()},
    "Cast": Operator(_cast, _check_cast, since=6, kinds=ALL),
    "Not": Operator(_not, kinds=_BOOLEANS),
    "Where": Operator(_where, _check_where, kinds=ALL),
}
