"""Element types, values, and what the schemas of the `onnx` package say about a node's outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["FLOATS", "INTEGERS", "ONNX_TYPES", "TYPE_NAMES", "Rejected", "Value", "inferred_outputs", "np_dtype"]

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
ONNX_TYPES = {
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
    "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8,
    "int16": TensorProto.INT16,
    "uint16": TensorProto.UINT16,
    "int32": TensorProto.INT32,
    "uint32": TensorProto.UINT32,
    "int64": TensorProto.INT64,
    "uint64": TensorProto.UINT64,
    "bool": TensorProto.BOOL,
}
TYPE_NAMES: dict[int, str] = {number: name for name, number in ONNX_TYPES.items()}
_SCHEMA_TYPES = {"float32": "float", "float64": "double"}


class Rejected(Exception):
    """A form asked for a node that the operator set does not have, or that does not fit."""


def np_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of a type's name; bfloat16 is that of ml_dtypes."""
    return np.dtype(helper.tensor_dtype_to_np_dtype(ONNX_TYPES[name]))


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the graph.

    Attributes:
        name: Its name.
        shape: Its shape under the graph's first sizes.
        dtype: Name of its element type, such as ``"float32"``.
        constant: What it holds, where that is known.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    constant: np.ndarray[Any, Any] | None = field(default=None, compare=False)

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)


def inferred_outputs(
    node: onnx.NodeProto, inputs: Sequence[Value], opset: int
) -> list[tuple[tuple[int, ...] | None, str]]:
    """Shape and type name of each output; None and "" where the schema cannot tell.

    Raises:
        Rejected: The operator set does not allow the node.
    """
    try:
        schema = onnx.defs.get_schema(node.op_type, opset)
    except onnx.defs.SchemaError as error:
        raise Rejected(str(error)) from None
    if schema.deprecated:
        raise Rejected(f"{node.op_type} is deprecated")
    if any(one.name not in schema.attributes for one in node.attribute):
        raise Rejected(f"{node.op_type}-{schema.since_version} has no such attribute")
    if len(node.input) > schema.max_input or len(node.output) > schema.max_output:
        raise Rejected(f"{node.op_type}-{schema.since_version} has fewer inputs or outputs")
    by_name = {one.name: one for one in inputs}
    bound: dict[str, str] = {}
    for place, name in enumerate(node.input):
        if not name:
            continue
        formal = schema.inputs[min(place, len(schema.inputs) - 1)]
        kind = f"tensor({_SCHEMA_TYPES.get(by_name[name].dtype, by_name[name].dtype)})"
        if kind not in formal.types:
            raise Rejected(f"{node.op_type}-{schema.since_version} takes no {kind}")
        if formal.is_homogeneous and bound.setdefault(formal.type_str, kind) != kind:
            raise Rejected(f"{node.op_type}: {kind} beside {bound[formal.type_str]}")
    types = {one.name: helper.make_tensor_type_proto(ONNX_TYPES[one.dtype], one.shape) for one in inputs}
    data = {one.name: numpy_helper.from_array(one.constant, one.name) for one in inputs if one.constant is not None}
    try:
        inferred = onnx.shape_inference.infer_node_outputs(
            schema, node, types, data, opset_imports=[helper.make_opsetid("", opset)]
        )
    except (
        onnx.shape_inference.InferenceError,
        onnx.checker.ValidationError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        raise Rejected(f"{node.op_type}: {error}") from None
    found: list[tuple[tuple[int, ...] | None, str]] = []
    for name in node.output:
        told = inferred.get(name)
        if told is None or not told.HasField("tensor_type"):
            found.append((None, ""))
            continue
        dims = told.tensor_type.shape.dim if told.tensor_type.HasField("shape") else None
        known = dims is not None and all(dim.HasField("dim_value") for dim in dims)
        shape = tuple([dim.dim_value for dim in dims]) if known and dims is not None else None
        found.append((shape, TYPE_NAMES.get(told.tensor_type.elem_type, "")))
    return found
