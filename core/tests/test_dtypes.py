"""Element types and value types, against `onnx` and NumPy."""

from __future__ import annotations

import ml_dtypes
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
    data_type_of,
    nbytes_of,
    numpy_dtype,
    parse_value_type,
)
from ort_py.errors import InvalidArgument

TYPES = [data_type for data_type in DataType if data_type is not DataType.UNDEFINED]
VALUE_TYPES: list[ValueType] = [
    TensorType(DataType.FLOAT),
    SparseTensorType(DataType.DOUBLE),
    SequenceType(TensorType(DataType.INT64)),
    OptionalType(SequenceType(TensorType(DataType.BFLOAT16))),
    MapType(DataType.INT64, TensorType(DataType.FLOAT)),
    SequenceType(MapType(DataType.STRING, TensorType(DataType.FLOAT))),
]


@pytest.mark.parametrize("data_type", TYPES, ids=lambda data_type: data_type.onnx_name)
def test_numbers_are_those_of_onnx(data_type: DataType) -> None:
    """Each element type has the number of `TensorProto.DataType`."""
    assert onnx.TensorProto.DataType.Name(int(data_type)) == data_type.name


def test_no_type_of_onnx_is_missing() -> None:
    """Every element type of the installed onnx is known."""
    assert set(onnx.TensorProto.DataType.values()) <= {int(data_type) for data_type in DataType}


@pytest.mark.parametrize("data_type", TYPES, ids=lambda data_type: data_type.onnx_name)
def test_dtype_is_that_of_onnx(data_type: DataType) -> None:
    """A tensor has the dtype that onnx gives it."""
    assert numpy_dtype(data_type) == np.dtype(onnx.helper.tensor_dtype_to_np_dtype(int(data_type)))


@pytest.mark.parametrize("data_type", TYPES, ids=lambda data_type: data_type.onnx_name)
def test_there_and_back(data_type: DataType) -> None:
    """The dtype of an element type leads back to it."""
    assert data_type_of(numpy_dtype(data_type)) is data_type


def test_byte_order_does_not_matter() -> None:
    """A big-endian dtype is the same element type."""
    assert data_type_of(np.dtype(">f4")) is DataType.FLOAT


@pytest.mark.parametrize("dtype", ["U5", "S5", "O"])
def test_texts_of_all_kinds_are_strings(dtype: str) -> None:
    """Unicode, bytes and object arrays are ONNX strings."""
    assert data_type_of(np.dtype(dtype)) is DataType.STRING


@pytest.mark.parametrize("dtype", ["datetime64[s]", "timedelta64[s]", "V3"])
def test_dtypes_without_onnx_type_are_refused(dtype: str) -> None:
    """A dtype that ONNX lacks is refused by name."""
    with pytest.raises(InvalidArgument, match="has no ONNX element type"):
        data_type_of(np.dtype(dtype))


def test_unknown_number_is_refused() -> None:
    """A number outside the enumeration is refused."""
    with pytest.raises(InvalidArgument, match="99 is not an ONNX element type"):
        numpy_dtype(99)


def test_undefined_has_no_dtype() -> None:
    """UNDEFINED is a number, but no tensor has it."""
    with pytest.raises(InvalidArgument, match="cannot have the element type UNDEFINED"):
        numpy_dtype(DataType.UNDEFINED)


@pytest.mark.parametrize("data_type", [t for t in TYPES if t is not DataType.STRING], ids=lambda t: t.onnx_name)
def test_bytes_are_those_onnx_stores(data_type: DataType) -> None:
    """An odd number of elements takes the bytes that onnx packs them into."""
    array = np.zeros((3, 5), numpy_dtype(data_type))
    assert nbytes_of(data_type, (3, 5)) == len(onnx.numpy_helper.from_array(array).raw_data)


def test_bytes_of_an_empty_tensor() -> None:
    """A tensor with a dimension of zero takes nothing."""
    assert nbytes_of(DataType.FLOAT, (3, 0, 5)) == 0


@pytest.mark.parametrize("value_type", VALUE_TYPES, ids=str)
def test_type_strings_are_read_back(value_type: ValueType) -> None:
    """Parsing what `str` wrote gives the same type."""
    assert parse_value_type(str(value_type)) == value_type


def test_spaces_in_type_strings_do_not_matter() -> None:
    """Schemas write a space after the comma of a map."""
    assert parse_value_type("map(string, tensor(float))") == MapType(DataType.STRING, TensorType(DataType.FLOAT))


@pytest.mark.parametrize("text", ["", "float", "tensor float", "list(tensor(float))"])
def test_texts_that_are_no_type_are_refused(text: str) -> None:
    """The message contains an example of a type string."""
    with pytest.raises(InvalidArgument, match="not an ONNX type string") as caught:
        parse_value_type(text)
    assert "tensor(float)" in caught.value.fix


@pytest.mark.parametrize("text", ["tensor(flaot)", "map(flaot,tensor(float))"])
def test_unknown_element_types_are_refused(text: str) -> None:
    """A misspelt element type is named, with those there are."""
    with pytest.raises(InvalidArgument, match="unknown element type 'flaot'") as caught:
        parse_value_type(text)
    assert "float16" in str(caught.value)


def test_low_precision_types_are_those_of_ml_dtypes() -> None:
    """Types that NumPy lacks come from ml_dtypes."""
    assert numpy_dtype(DataType.BFLOAT16) == np.dtype(ml_dtypes.bfloat16)
    assert numpy_dtype(DataType.INT4) == np.dtype(ml_dtypes.int4)
