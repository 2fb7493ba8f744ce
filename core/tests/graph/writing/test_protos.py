"""Types, tensors and attributes as messages."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from ort_py.dtypes import (
    DataType,
    MapType,
    OptionalType,
    SequenceType,
    SparseTensorType,
    TensorType,
    ValueType,
    numpy_dtype,
)
from ort_py.errors import InvalidArgument
from ort_py.graph.writing.protos import fill_attribute, fill_tensor, fill_type, type_from_proto

FLOATS = TensorType(DataType.FLOAT, (2, "N", None))


@pytest.mark.parametrize(
    "value_type",
    [
        FLOATS,
        TensorType(DataType.INT4, ()),
        TensorType(DataType.BFLOAT16),
        TensorType(DataType.STRING, (0,)),
        SparseTensorType(DataType.DOUBLE, (3, 4)),
        SparseTensorType(DataType.DOUBLE),
        SequenceType(OptionalType(FLOATS)),
        MapType(DataType.STRING, SequenceType(FLOATS)),
    ],
)
def test_types_survive(value_type: ValueType) -> None:
    """A type that is written and read is the same: a scalar does not get an unknown rank, and a size of 0 stays
    known.
    """
    proto = onnx.TypeProto()
    fill_type(proto, value_type)
    assert type_from_proto(proto) == value_type


def test_negative_sizes_are_unknown() -> None:
    """Some exporters write -1 for a size that is free."""
    assert type_from_proto(onnx.helper.make_tensor_type_proto(1, [-1, 3])) == TensorType(DataType.FLOAT, (None, 3))


@pytest.mark.parametrize("size", [1 << 63, 1 << 65, -(1 << 64)])
def test_sizes_of_more_than_64_bits_are_unknown(size: int) -> None:
    """Hostile attributes lead to them, and the messages cannot hold them."""
    proto = onnx.TypeProto()
    fill_type(proto, TensorType(DataType.FLOAT, (size, 2)))
    assert type_from_proto(proto) == TensorType(DataType.FLOAT, (None, 2))


def test_empty_and_newer_types_are_unknown() -> None:
    """Nothing, or an element type of a later ONNX, reads as None."""
    assert type_from_proto(onnx.TypeProto()) is None
    assert type_from_proto(onnx.helper.make_sequence_type_proto(onnx.helper.make_tensor_type_proto(99, None))) is None


@pytest.mark.parametrize("data_type", [one for one in DataType if one not in (DataType.UNDEFINED, DataType.STRING)])
def test_tensors_survive(data_type: DataType) -> None:
    """Every element type is packed as onnx unpacks it, three elements so that bytes are not full."""
    array = np.arange(3).astype(numpy_dtype(data_type)).reshape(1, 3)
    proto = onnx.TensorProto()
    fill_tensor(proto, array, "x")
    read = onnx.numpy_helper.to_array(proto)
    assert (proto.name, proto.data_type, read.shape) == ("x", data_type, (1, 3))
    np.testing.assert_array_equal(read.view(np.uint8), array.view(np.uint8))


def test_strings_survive() -> None:
    """Text is written as UTF-8, bytes as they are."""
    proto = onnx.TensorProto()
    fill_tensor(proto, np.array(["é", b"\xff", ""], object))
    assert list(proto.string_data) == ["é".encode(), b"\xff", b""]


@pytest.mark.parametrize("value", [3, 1.5, "é", (1, 2), (1.0, 2.5), ("a", "b"), (1, 2.5)], ids=repr)
def test_plain_attributes_survive(value: object) -> None:
    """Numbers, strings and lists of them; a list with one float in it is a list of floats."""
    proto = onnx.AttributeProto()
    fill_attribute(proto, "a", value)
    read = onnx.helper.get_attribute_value(proto)
    read = tuple(read) if isinstance(read, list) else read
    decoded = tuple(x.decode() if isinstance(x, bytes) else x for x in read) if isinstance(read, tuple) else read
    assert (decoded.decode() if isinstance(decoded, bytes) else decoded) == value


def test_tensor_and_type_attributes_survive() -> None:
    """Arrays, types, and lists of them."""
    array = np.array([1.0], np.float32)
    for value in (array, (array, array), FLOATS, (FLOATS, FLOATS)):
        proto = onnx.AttributeProto()
        fill_attribute(proto, "a", value)
        assert proto.type == {
            np.ndarray: onnx.AttributeProto.TENSOR,
            TensorType: onnx.AttributeProto.TYPE_PROTO,
        }.get(
            type(value),
            onnx.AttributeProto.TENSORS if value is not None and proto.tensors else onnx.AttributeProto.TYPE_PROTOS,
        )


def test_an_empty_list_gets_the_type_asked_for() -> None:
    """Nothing in it says of what it is a list."""
    proto = onnx.AttributeProto()
    fill_attribute(proto, "a", (), empty=int(onnx.AttributeProto.STRINGS))
    assert proto.type == onnx.AttributeProto.STRINGS
    fill_attribute(proto, "a", ())
    assert proto.type == onnx.AttributeProto.INTS


@pytest.mark.parametrize(("value", "text"), [({}, "a value of type dict"), ((1, "a"), "a tuple of int, str")])
def test_other_attributes_are_refused(value: object, text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        fill_attribute(onnx.AttributeProto(), "a", value)
