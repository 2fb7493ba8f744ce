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
from ort_py.graph.typing.inference_guard import UNSAFE
from ort_py.graph.typing.misread import is_misread, misread_type
from ort_py.onnx_parts import onnx

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
    opset = node.opset_version
    if not onnx.defs.has(node.op_type, opset, node.domain):
        return [None] * len(node.outputs)
    schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
    bound: dict[str, ValueType] = {}
    for index, value in enumerate(node.inputs):
        formal = _formal(schema.inputs, index)
        if formal is not None and value is not None and value.type is not None:
            bound.setdefault(formal.type_str, value.type)
    types: list[ValueType | None] = []
    for index in range(len(node.outputs)):
        formal = _formal(schema.outputs, index)
        types.append(None if formal is None else _element(formal, bound))
    if types and is_misread(node):
        types = [misread_type(node, known) for known in types]
    elif types and (not schema.has_type_and_shape_inference_function or node.op_type in UNSAFE):
        types[0] = _shaped(node, types[0])
    return types


def _formal(
    formals: Sequence[onnx.defs.OpSchema.FormalParameter], index: int
) -> onnx.defs.OpSchema.FormalParameter | None:
    if not formals or (
        index >= len(formals) and formals[-1].option != onnx.defs.OpSchema.FormalParameterOption.Variadic
    ):
        return None
    formal = formals[min(index, len(formals) - 1)]
    return formal if formal.is_homogeneous else None


def _element(formal: onnx.defs.OpSchema.FormalParameter, bound: dict[str, ValueType]) -> ValueType | None:
    if formal.type_str in bound:
        known = bound[formal.type_str]
        return replace(known, shape=None) if isinstance(known, TensorType) else None
    allowed = list(formal.types)
    try:
        return parse_value_type(allowed[0]) if len(allowed) == 1 else None
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
