"""Axes along which an operator computes each entry for itself: element by element, or row by row.

This follows from the specification, so it holds for the kernels of every provider. `blocks` cuts calls there. Knows no
provider, and nothing of how a kernel works.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ort_py.contracts import NodeSpec
from ort_py.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Cut:
    """A place where a call may be cut.

    Attributes:
        axis: Axis of the first input, or of the shape that the inputs broadcast to.
        rank: Number of axes of that shape.
        length: Entries along the axis.
        broadcasts: Whether all inputs are cut there, where they have more than one entry; else it is the first alone.
    """

    axis: int
    rank: int
    length: int
    size: int
    broadcasts: bool
    results: int


Rule = Callable[[NodeSpec, Sequence[Any]], Cut | None]
"""The best place for the inputs of a call; None where there is none, or the inputs do not fit."""


def rule_of(node: NodeSpec) -> Rule | None:
    return _RULES.get((node.domain, node.op_type))


def _broadcast(node: NodeSpec, inputs: Sequence[Any]) -> Cut | None:
    if node.since_version < _SINCE_BROADCASTING and not node.domain:
        return None
    shapes = [() if value is None else value.shape for value in inputs]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:  # the kernel says what is wrong
        return None
    return _longest(shape, range(len(shape)), broadcasts=True)


_SINCE_BROADCASTING = 7
"""Version of the operator set from which on binary operators broadcast as NumPy does."""


def _each(node: NodeSpec, inputs: Sequence[Any]) -> Cut | None:
    """Every element of the first input for itself; the others are one number each."""
    if any(value is not None and value.size != 1 for value in inputs[1:]):
        return None
    return _alone(node, inputs)


def _alone(_node: NodeSpec, inputs: Sequence[Any]) -> Cut | None:
    """Every element of the first input for itself, whatever the others are."""
    return _longest(inputs[0].shape, range(inputs[0].ndim))


def _rows(_node: NodeSpec, inputs: Sequence[Any]) -> Cut | None:
    """Every entry of the first axis for itself."""
    return _longest(inputs[0].shape, range(inputs[0].ndim)[:1])


def _spatial(_node: NodeSpec, inputs: Sequence[Any]) -> Cut | None:
    """Each channel of each picture for itself."""
    return _longest(inputs[0].shape, range(inputs[0].ndim)[:2])


def _neighbours(_node: NodeSpec, inputs: Sequence[Any]) -> Cut | None:
    """Everything but the channels."""
    return _without(inputs[0].shape, (1,))


def _by_axis(default: int) -> Rule:
    """All axes but that of the attribute."""

    def rule(node: NodeSpec, inputs: Sequence[Any]) -> Cut | None:
        return _without(inputs[0].shape, (int(node.attributes.get("axis", default)),))

    return rule


def _softmax(node: NodeSpec, inputs: Sequence[Any]) -> Cut | None:
    if node.since_version >= _SINCE_ONE_AXIS:
        return _by_axis(-1)(node, inputs)
    shape = inputs[0].shape
    first = int(node.attributes.get("axis", 1))
    return _longest(shape, range(len(shape))[:first])


_SINCE_ONE_AXIS = 13
"""Version of the operator set from which on Softmax looks along one axis, instead of all from there on."""


def _chosen(node: NodeSpec, inputs: Sequence[Any]) -> Cut | None:
    axis = int(node.attributes.get("axis", 0))
    return _without(inputs[0].shape, (axis,), keeps=bool(node.attributes.get("keepdims", 1)))


def _cumulated(_node: NodeSpec, inputs: Sequence[Any]) -> Cut | None:
    axis = inputs[1]
    return _without(inputs[0].shape, (int(axis.reshape(-1)[0]),)) if axis.size == 1 else None


def _reduced(node: NodeSpec, inputs: Sequence[Any]) -> Cut | None:
    given = inputs[1] if len(inputs) > 1 else node.attributes.get("axes")
    axes = [] if given is None else [int(axis) for axis in given]
    return _without(inputs[0].shape, axes, keeps=bool(node.attributes.get("keepdims", 1))) if axes else None


def _standardized(node: NodeSpec, inputs: Sequence[Any]) -> Cut | None:
    return _without(inputs[0].shape, node.attributes.get("axes", (0, 2, 3)))


def _without(shape: tuple[int, ...], axes: Sequence[int], *, keeps: bool = True) -> Cut | None:
    """All axes but some; `keeps` says whether the results have these too, with one entry."""
    rank = len(shape)
    if any(not -rank <= axis < rank for axis in axes):
        return None
    taken = {axis % rank for axis in axes}
    return _longest(shape, [axis for axis in range(rank) if axis not in taken], missing=() if keeps else tuple(taken))


def _longest(
    shape: tuple[int, ...], axes: Sequence[int], *, broadcasts: bool = False, missing: Sequence[int] = ()
) -> Cut | None:
    if not axes:
        return None
    axis = max(axes, key=shape.__getitem__)
    results = axis - sum(one < axis for one in missing)
    return Cut(axis, len(shape), shape[axis], prod(shape), broadcasts, results)


def _table(rule: Rule, names: str, domain: str = "") -> dict[tuple[str, str], Rule]:
    return {(domain, name): rule for name in names.split()}


_RULES: Mapping[tuple[str, str], Rule] = {
    **_table(
        _each,
        "Abs Acos Acosh Asin Asinh Atan Atanh BitCast BitwiseNot Cast Ceil Celu Clip Cos Cosh DequantizeLinear Elu Erf "
        "Exp Floor Gelu HardSigmoid HardSwish IsInf IsNaN LeakyRelu Log Mish Neg Not QuantizeLinear Reciprocal "
        "RegexFullMatch Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Swish Tan Tanh "
        "ThresholdedRelu",
    ),
    **_table(_each, "Binarizer CategoryMapper LabelEncoder", "ai.onnx.ml"),
    **_table(_each, "Gelu QLinearLeakyRelu QLinearSigmoid QuickGelu", "com.microsoft"),
    **_table(_alone, "CastLike"),
    **_table(
        _broadcast,
        "Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Max Mean "
        "Min Mod Mul Or PRelu Pow StringConcat Sub Sum Where Xor",
    ),
    **_table(_softmax, "Hardmax LogSoftmax Softmax"),
    **_table(_by_axis(-1), "LpNormalization TopK"),
    **_table(_chosen, "ArgMax ArgMin"),
    **_table(_cumulated, "CumProd CumSum"),
    **_table(
        _reduced,
        "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
        "ReduceSumSquare",
    ),
    **_table(_standardized, "MeanVarianceNormalization"),
    **_table(_neighbours, "LRN"),
    **_table(_spatial, "GlobalAveragePool GlobalLpPool GlobalMaxPool"),
    **_table(_rows, "Imputer LinearClassifier LinearRegressor Normalizer OneHotEncoder Scaler", "ai.onnx.ml"),
}
