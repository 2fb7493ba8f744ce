"""Types, tensors and attributes as protobuf messages, and types back again.

The small change of `serialize` (whole graphs) and `shapes` (which talks to ONNX's inference in protobuf). It is
independent of nodes and graphs: an attribute that holds a graph is left to the caller, because graphs nest and nothing
here may recurse over them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ort_py.dtypes import (
    DataType,
    Dim,
    MapType,
    OptionalType,
    SequenceType,
    Shape,
    SparseTensorType,
    TensorType,
    ValueType,
    data_type_of,
)
from ort_py.errors import InvalidArgument
from ort_py.onnx_parts import onnx

_VALUE_TYPES = (TensorType, SparseTensorType, SequenceType, OptionalType, MapType)


def fill_type(proto: onnx.TypeProto, value_type: ValueType) -> None:
    """Write a type into an empty message."""
    if isinstance(value_type, TensorType):
        proto.tensor_type.elem_type = int(value_type.data_type)
        if value_type.shape is not None:
            _fill_shape(proto.tensor_type.shape, value_type.shape)
    elif isinstance(value_type, SparseTensorType):
        proto.sparse_tensor_type.elem_type = int(value_type.data_type)
        if value_type.shape is not None:
            _fill_shape(proto.sparse_tensor_type.shape, value_type.shape)
    elif isinstance(value_type, SequenceType):
        fill_type(proto.sequence_type.elem_type, value_type.element)
    elif isinstance(value_type, OptionalType):
        fill_type(proto.optional_type.elem_type, value_type.element)
    else:
        proto.map_type.key_type = int(value_type.key)
        fill_type(proto.map_type.value_type, value_type.value)


_NO_SIZE = 1 << 63
"""The messages of ONNX hold sizes of 64 bits. Sizes that are computed from hostile attributes may be larger."""


def _fill_shape(proto: onnx.TensorShapeProto, shape: Shape) -> None:
    proto.SetInParent()  # a scalar has a shape too, one without dimensions
    for dim in shape:
        entry = proto.dim.add()
        if isinstance(dim, str):
            entry.dim_param = dim
        elif dim is not None and abs(dim) < _NO_SIZE:  # others are refused when a run meets them
            entry.dim_value = dim


def type_from_proto(proto: onnx.TypeProto) -> ValueType | None:
    """Read a type. Returns None if the message is empty or names an element type that this version does not support."""
    kind = proto.WhichOneof("value")
    if kind == "tensor_type":
        return _tensor_type(proto.tensor_type, TensorType)
    if kind == "sparse_tensor_type":
        return _tensor_type(proto.sparse_tensor_type, SparseTensorType)
    if kind == "sequence_type":
        element = type_from_proto(proto.sequence_type.elem_type)
        return SequenceType(element) if element is not None else None
    if kind == "optional_type":
        element = type_from_proto(proto.optional_type.elem_type)
        return OptionalType(element) if element is not None else None
    if kind == "map_type":
        value = type_from_proto(proto.map_type.value_type)
        key = _DATA_TYPES.get(proto.map_type.key_type)
        return MapType(key, value) if key is not None and value is not None else None
    return None


_DATA_TYPES = {int(data_type): data_type for data_type in DataType if data_type is not DataType.UNDEFINED}


def _tensor_type(proto: Any, kind: type[TensorType] | type[SparseTensorType]) -> TensorType | SparseTensorType | None:
    data_type = _DATA_TYPES.get(proto.elem_type)
    if data_type is None:
        return None
    if not proto.HasField("shape"):
        return kind(data_type)
    return kind(data_type, tuple([_dim(dim) for dim in proto.shape.dim]))


def _dim(proto: onnx.TensorShapeProto.Dimension) -> Dim:
    size = proto.dim_value
    if size > 0:
        return size
    # An unset dimension reads as 0 and ""; only HasField tells it from one that is 0. Exporters write -1 for unknown.
    return proto.dim_param or (0 if size == 0 and proto.HasField("dim_value") else None)


def value_info(proto: onnx.ValueInfoProto, name: str, value_type: ValueType | None) -> None:
    """Write a name with its type, or the name alone where the type is unknown, into an empty message."""
    proto.name = name
    if value_type is not None:
        fill_type(proto.type, value_type)


def fill_tensor(proto: onnx.TensorProto, array: np.ndarray[Any, Any], name: str = "") -> None:
    """Write an array into an empty message; types below one byte are packed, as the specification asks.

    Args:
        array: Any dtype that ONNX has; object arrays hold str or bytes.

    Raises:
        InvalidArgument: ONNX has no such element type.
    """
    data_type = data_type_of(array.dtype)
    if data_type is DataType.STRING:
        proto.string_data.extend(_encoded(array.ravel().tolist()))
    elif data_type.bits < 8:
        # onnx packs: two or four elements a byte, or the bit stream of the six-bit floats.
        packed = onnx.numpy_helper.from_array(np.ascontiguousarray(array))
        proto.raw_data = packed.raw_data
    else:
        little = array.dtype.newbyteorder("<") if array.dtype.kind != "V" else array.dtype
        proto.raw_data = array.astype(little, copy=False).tobytes()
    proto.data_type = int(data_type)
    proto.dims.extend(array.shape)
    proto.name = name


def _encoded(values: Iterable[str | bytes]) -> list[bytes]:
    return [value if isinstance(value, bytes) else str(value).encode() for value in values]


def fill_attribute(proto: onnx.AttributeProto, name: str, value: Any, *, empty: int = 0) -> None:
    """Write an attribute that holds no graph into an empty message.

    Args:
        value: int, float, str, bytes, array, type, or a tuple of one of these.
        empty: ``AttributeProto`` type to give an empty tuple; integers where 0.

    Raises:
        InvalidArgument: The value is of no kind that ONNX has, or a tuple mixes kinds.
    """
    proto.name = name
    if isinstance(value, int):
        proto.i, proto.type = value, onnx.AttributeProto.INT
    elif isinstance(value, float):
        proto.f, proto.type = value, onnx.AttributeProto.FLOAT
    elif isinstance(value, str | bytes):
        proto.s, proto.type = _encoded([value])[0], onnx.AttributeProto.STRING
    elif isinstance(value, np.ndarray):
        fill_tensor(proto.t, value)
        proto.type = onnx.AttributeProto.TENSOR
    elif isinstance(value, _VALUE_TYPES):
        fill_type(proto.tp, value)
        proto.type = onnx.AttributeProto.TYPE_PROTO
    elif isinstance(value, tuple):
        _fill_list(proto, value, empty)
    else:
        raise _no_attribute(name, f"a value of type {type(value).__name__}")


def _fill_list(proto: onnx.AttributeProto, values: tuple[Any, ...], empty: int) -> None:
    if not values:
        proto.type = empty or onnx.AttributeProto.INTS  # type: ignore[assignment]  # the stub wants the enum's type
    elif all(isinstance(value, int) for value in values):
        proto.ints.extend(values)
        proto.type = onnx.AttributeProto.INTS
    elif all(isinstance(value, int | float) for value in values):
        proto.floats.extend(values)
        proto.type = onnx.AttributeProto.FLOATS
    elif all(isinstance(value, str | bytes) for value in values):
        proto.strings.extend(_encoded(values))
        proto.type = onnx.AttributeProto.STRINGS
    elif all(isinstance(value, np.ndarray) for value in values):
        for value in values:
            fill_tensor(proto.tensors.add(), value)
        proto.type = onnx.AttributeProto.TENSORS
    elif all(isinstance(value, _VALUE_TYPES) for value in values):
        for value in values:
            fill_type(proto.type_protos.add(), value)
        proto.type = onnx.AttributeProto.TYPE_PROTOS
    else:
        raise _no_attribute(proto.name, f"a tuple of {', '.join(sorted({type(v).__name__ for v in values}))}")


def _no_attribute(name: str, what: str) -> InvalidArgument:
    return InvalidArgument(
        f"Attribute '{name}' holds {what}, which an ONNX attribute cannot hold.",
        fix="Use int, float, str, a NumPy array, a type of ort_py.dtypes, a graph, or a tuple of one of these.",
    )
