"""Types for operators of ONNX whose schemas come without inference: opset 1, a few of ai.onnx.ml, and those whose
function body onnx cannot infer.

Used by `shapes` where `inference` found nothing. Element types follow from the schema's type variables; shapes only
where the output has that of the first input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ort_py.dtypes import DataType, TensorType, ValueType, parse_value_type
from ort_py.errors import InvalidArgument
from ort_py.graph.ir import Node
from ort_py.graph.typing.contents import constant_contents
from ort_py.graph.typing.inference_guard import UNSAFE
from ort_py.graph.typing.misread import is_misread, keeps_cut_names, misread_type
from ort_py.graph.typing.rules.table import ruled_types, type_of
from ort_py.onnx_operators import Parameter, find

_LIKE_FIRST_INPUT = frozenset(
    {"Abs", "Add", "BatchNormalization", "Ceil", "Clip", "Div", "Dropout", "Elu", "Exp", "Floor", "GroupNormalization"}
    | {"HardSigmoid", "Imputer", "InstanceNormalization", "LeakyRelu", "Log", "Max", "Mean", "Min", "Mul", "Neg"}
    | {"MeanVarianceNormalization", "Normalizer", "PRelu", "Reciprocal", "Relu", "Scaler", "Selu", "Sigmoid", "Sqrt"}
    | {"Sub", "Sum", "Tanh"}
)
"""Operators whose first output has the shape of their first input. `Add` and its like at opset 1 broadcast the second
input to the first; later ones have inference of their own and are never looked up here."""

_ROWS = {"LinearRegressor": "targets", "TreeEnsembleRegressor": "n_targets", "SVMRegressor": ""}
"""Operators that give a row of numbers for each row of the input, and the attribute that says how many."""


def gap_types(node: Node) -> list[ValueType | None]:
    """Types of a node's outputs that follow from the schema alone; None for unknown types.

    Args:
        node: A node with an operator of any domain, whose inputs have their types.
    """
    operator = find(node.op_type, node.domain, node.opset_version)
    if operator is None:
        return [None] * len(node.outputs)
    bound: dict[str, ValueType] = {}
    for index, value in enumerate(node.inputs):
        formal = _formal(operator.inputs, index)
        if formal is not None and value is not None and value.type is not None:
            bound.setdefault(formal.type, value.type)
    types: list[ValueType | None] = []
    for index in range(len(node.outputs)):
        formal = _formal(operator.outputs, index)
        types.append(None if formal is None else _element(formal, bound))
    if types and is_misread(node):
        types = [misread_type(node, known) for known in types]
    elif types and keeps_cut_names(node):
        types = ruled_types(node, type_of, constant_contents) or types
    elif types and (not operator.has_inference or node.op_type in UNSAFE):
        types[0] = _shaped(node, types[0])
    return types


def _formal(formals: Sequence[Parameter], index: int) -> Parameter | None:
    if not formals or (index >= len(formals) and not formals[-1].variadic):
        return None
    formal = formals[min(index, len(formals) - 1)]
    return formal if formal.homogeneous else None


def _element(formal: Parameter, bound: dict[str, ValueType]) -> ValueType | None:
    if formal.type in bound:
        known = bound[formal.type]
        return replace(known, shape=None) if isinstance(known, TensorType) else None
    try:
        return parse_value_type(formal.only) if formal.only else None
    except InvalidArgument:
        return None


def _shaped(node: Node, known: ValueType | None) -> ValueType | None:
    if node.op_type == "GatherND":
        return _gathered(node, known)
    first = node.inputs[0].type if node.inputs and node.inputs[0] is not None else None
    if not isinstance(first, TensorType) or first.shape is None:
        return known
    if node.domain == "ai.onnx.ml" and node.op_type in _ROWS:
        count = node.attributes.get(_ROWS[node.op_type], 1)
        rows = first.shape[0] if len(first.shape) == 2 else 1
        return TensorType(DataType.FLOAT, (rows, count))
    if isinstance(known, TensorType) and node.op_type in _LIKE_FIRST_INPUT:
        return replace(known, shape=first.shape)
    return known


def _gathered(node: Node, known: ValueType | None) -> ValueType | None:
    """GatherND: the last dimension of the indices says how many dimensions of the data are indexed."""
    shapes = [value.type.shape for value in node.inputs if value is not None and isinstance(value.type, TensorType)]
    if len(shapes) != 2 or not isinstance(known, TensorType):
        return known
    data, indices = shapes
    if data is None or not indices:
        return known
    depth, batch = indices[-1], node.attributes.get("batch_dims", 0)
    if not isinstance(depth, int) or batch < 0 or not 1 <= depth <= len(data) - batch or batch >= len(indices):
        return known
    return replace(known, shape=indices[:-1] + data[batch + depth :])
