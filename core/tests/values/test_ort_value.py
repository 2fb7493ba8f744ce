"""OrtValue: a value with its ONNX type."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ort_py import InvalidArgument, OrtValue
from ort_py.dtypes import DataType, SequenceType, TensorType, numpy_dtype

NUMERIC = [t for t in DataType if t not in (DataType.UNDEFINED, DataType.STRING)]


def test_contiguous_array_is_shared() -> None:
    """A C-contiguous array is not copied: writes are seen on both sides."""
    array = np.zeros(3, np.float32)
    value = OrtValue.ortvalue_from_numpy(array)
    array[1] = 5
    assert value.numpy()[1] == 5


def test_strided_array_is_copied() -> None:
    """An array that is not C-contiguous is copied in the right order."""
    array = np.arange(6, dtype=np.float32).reshape(2, 3).T
    value = OrtValue.ortvalue_from_numpy(array)
    assert value.numpy().flags.c_contiguous
    np.testing.assert_array_equal(value.numpy(), array)


def test_big_endian_array_is_converted() -> None:
    """Byte order is swapped, values stay."""
    value = OrtValue.ortvalue_from_numpy(np.array([1, 2], ">f4"))
    assert value.numpy().dtype == np.float32
    np.testing.assert_array_equal(value.numpy(), [1, 2])


@pytest.mark.parametrize("data_type", NUMERIC, ids=lambda data_type: data_type.onnx_name)
def test_every_element_type(data_type: DataType) -> None:
    """All element types go in and say what they are."""
    value = OrtValue.ortvalue_from_numpy(np.zeros((2, 3), numpy_dtype(data_type)))
    assert value.data_type() == f"tensor({data_type.onnx_name})"
    assert value.element_type() == int(data_type)


def test_strings() -> None:
    value = OrtValue.ortvalue_from_numpy(np.array(["a", "bc"]))
    assert value.data_type() == "tensor(string)"
    assert value.numpy().tolist() == ["a", "bc"]


def test_packed_types_count_their_packed_bytes() -> None:
    """Five int4 elements take three bytes in ONNX."""
    assert OrtValue.ortvalue_from_numpy(np.zeros(5, ml_dtypes.int4)).tensor_size_in_bytes() == 3


def test_scalar_keeps_its_rank() -> None:
    assert OrtValue.ortvalue_from_numpy(np.array(3.0, np.float32)).shape() == []


def test_dtype_without_onnx_type_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="has no ONNX element type"):
        OrtValue.ortvalue_from_numpy(np.array(["2020-01-01"], "datetime64[D]"))


@pytest.mark.parametrize("element_type", [np.float32, np.dtype("float32"), "float32", 1])
def test_from_shape_and_type(element_type: Any) -> None:
    """The type may be a NumPy type, dtype, or ONNX number."""
    value = OrtValue.ortvalue_from_shape_and_type([2, 3], element_type)
    assert (value.shape(), value.data_type()) == ([2, 3], "tensor(float)")


@pytest.mark.parametrize(
    "make",
    [
        lambda: OrtValue.ortvalue_from_numpy(np.zeros(2), "cuda"),
        lambda: OrtValue.ortvalue_from_shape_and_type([2], np.float32, "cuda"),
    ],
    ids=["numpy", "shape"],
)
def test_other_devices_are_refused(make: Any) -> None:
    """Memory of a device needs its provider, and the message says so."""
    with pytest.raises(InvalidArgument, match="no memory of device type 'cuda'"):
        make()


def test_update_inplace_writes_into_the_same_memory() -> None:
    """The address stays, the content changes."""
    value = OrtValue.ortvalue_from_numpy(np.zeros(3, np.float32))
    address = value.data_ptr()
    value.update_inplace(np.arange(3, dtype=np.float32))
    assert value.data_ptr() == address
    np.testing.assert_array_equal(value.numpy(), [0, 1, 2])


@pytest.mark.parametrize("other", [np.zeros(4, np.float32), np.zeros(3, np.int32)], ids=["count", "type"])
def test_update_inplace_refuses_what_does_not_fit(other: np.ndarray[Any, Any]) -> None:
    """Another number of elements or element type is refused, never reinterpreted."""
    value = OrtValue.ortvalue_from_numpy(np.zeros(3, np.float32))
    with pytest.raises(InvalidArgument, match="same element type and number of elements"):
        value.update_inplace(other)


def test_sequence() -> None:
    """A list of tensors says that it is one, and what is in it."""
    value = OrtValue.of([np.zeros(2, np.float32)], SequenceType(TensorType(DataType.FLOAT)))
    assert value.is_tensor_sequence()
    assert not value.is_tensor()
    assert (value.data_type(), value.element_type()) == ("seq(tensor(float))", 1)


@pytest.mark.parametrize("method", ["numpy", "shape", "data_ptr", "tensor_size_in_bytes"])
def test_tensor_methods_refuse_sequences(method: str) -> None:
    value = OrtValue.of([], SequenceType(TensorType(DataType.FLOAT)))
    with pytest.raises(InvalidArgument, match=rf"{method}\(\) is for tensors, this value is seq\(tensor\(float\)\)"):
        getattr(value, method)()


def test_empty_optional() -> None:
    """An empty optional has no value."""
    assert not OrtValue.of(None).has_value()


def test_numpy_functions_take_it() -> None:
    value = OrtValue.ortvalue_from_numpy(np.arange(3, dtype=np.float32))
    assert np.asarray(value).sum() == 3
    assert np.asarray(value, np.int64).dtype == np.int64


def test_copy_on_request() -> None:
    """`np.array(value, copy=True)` does not share memory."""
    value = OrtValue.ortvalue_from_numpy(np.zeros(3, np.float32))
    assert not np.shares_memory(np.array(value, copy=True), value.numpy())


def test_representation() -> None:
    """The representation says type, shape and place."""
    assert repr(OrtValue.ortvalue_from_numpy(np.zeros((2, 3), np.float32))) == (
        "OrtValue(tensor(float), shape=[2, 3], device=cpu:0)"
    )
