"""OrtValue: a value with its ONNX type, for users. Slots never hold one; sessions unwrap and wrap at the border."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_py.devices import HOST, Device
from ort_py.dtypes import DataType, SequenceType, TensorType, ValueType, data_type_of, nbytes_of, numpy_dtype
from ort_py.errors import InvalidArgument

__all__ = ["OrtValue"]


class OrtValue:
    """A tensor, sequence or map, or an empty optional.

    Make one with `ortvalue_from_numpy`, `ortvalue_from_shape_and_type` or by running a session.
    """

    __slots__ = ("_device", "_type", "_value")

    def __init__(self, value: Any, value_type: ValueType | None, device: Device = HOST) -> None:
        self._value = value
        self._type = value_type
        self._device = device

    @staticmethod
    def ortvalue_from_numpy(
        numpy_obj: Any, /, device_type: str = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        """A tensor over the memory of an array: C-contiguous arrays are shared, others copied.

        Args:
            numpy_obj: Array of any dtype ONNX has, `ml_dtypes` and strings included.
            device_type: ``"cpu"``; other devices come with their providers.
            device_id: Number of the device.
            vendor_id: Accepted for compatibility.

        Raises:
            InvalidArgument: The dtype has no ONNX type, or the device is not the host.
        """
        _expect_host(device_type)
        array = np.asarray(numpy_obj)
        data_type = data_type_of(array.dtype)
        native = np.ascontiguousarray(array, numpy_dtype(data_type)).reshape(array.shape)
        return OrtValue(native, TensorType(data_type, tuple(array.shape)), Device("cpu", device_id))

    @staticmethod
    def ortvalue_from_shape_and_type(
        shape: Sequence[int], element_type: Any, device_type: str = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        """An uninitialised tensor.

        Args:
            shape: Its shape.
            element_type: NumPy dtype or type, or a number of ``TensorProto.DataType``.
            device_type, device_id, vendor_id: As in `ortvalue_from_numpy`.

        Raises:
            InvalidArgument: As there.
        """
        _expect_host(device_type)
        data_type = DataType(element_type) if isinstance(element_type, int) else data_type_of(np.dtype(element_type))
        array = np.empty(tuple(shape), numpy_dtype(data_type))
        return OrtValue(array, TensorType(data_type, array.shape), Device("cpu", device_id))

    @property
    def value(self) -> Any:
        """The bare value: array, list, dict or None."""
        return self._value

    def numpy(self) -> Any:
        """The tensor as a NumPy array over the same memory.

        Raises:
            InvalidArgument: It is no tensor.
        """
        self._expect_tensor("numpy()")
        return self._value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        array = np.asarray(self.numpy(), dtype)
        return array.copy() if copy else array

    def shape(self) -> list[int]:
        """Shape of the tensor.

        Raises:
            InvalidArgument: It is no tensor.
        """
        self._expect_tensor("shape()")
        return list(self._value.shape)

    def data_type(self) -> str:
        """Type string, e.g. ``tensor(float)``."""
        return str(self._type) if self._type is not None else ""

    def element_type(self) -> int:
        """Number of the element type in ``TensorProto.DataType``, for sequences that of the elements."""
        found = self._type
        while isinstance(found, SequenceType):
            found = found.element
        return int(found.data_type) if isinstance(found, TensorType) else 0

    def tensor_size_in_bytes(self) -> int:
        """Bytes of the tensor as ONNX stores it: sub-byte types packed.

        Raises:
            InvalidArgument: It is no tensor.
        """
        self._expect_tensor("tensor_size_in_bytes()")
        return nbytes_of(data_type_of(self._value.dtype), tuple(self._value.shape))

    def data_ptr(self) -> int:
        """Address of the tensor's memory.

        Raises:
            InvalidArgument: It is no tensor.
        """
        self._expect_tensor("data_ptr()")
        return int(self._value.ctypes.data)

    def device_name(self) -> str:
        """Kind of the device, lower case."""
        return self._device.kind

    def has_value(self) -> bool:
        """False for an empty optional."""
        return self._value is not None

    def is_tensor(self) -> bool:
        """Whether it is a dense tensor."""
        return isinstance(self._value, np.ndarray)

    def is_tensor_sequence(self) -> bool:
        """Whether it is a sequence of tensors."""
        return isinstance(self._value, list)

    def is_sparse_tensor(self) -> bool:
        """Whether it is a sparse tensor."""
        return False

    def update_inplace(self, np_arr: Any) -> None:
        """Write another array's content into this tensor's memory.

        Raises:
            InvalidArgument: Shape or element type differ; onnxruntime would reinterpret the bytes.
        """
        self._expect_tensor("update_inplace()")
        source = np.asarray(np_arr)
        if source.dtype != self._value.dtype or source.shape != self._value.shape:
            raise InvalidArgument(
                "update_inplace needs an array of the same element type and shape.",
                why=f"{source.dtype} {source.shape} into {self._value.dtype} {self._value.shape}",
                fix="Convert the array with astype() or reshape() first.",
            )
        np.copyto(self._value, source)

    def __repr__(self) -> str:
        shape = f", shape={self.shape()}" if self.is_tensor() else ""
        return f"OrtValue({self.data_type()}{shape}, device={self._device})"

    def _expect_tensor(self, what: str) -> None:
        if not self.is_tensor():
            raise InvalidArgument(
                f"{what} is for tensors, this value is {self.data_type() or 'empty'}.", fix="Use OrtValue.value."
            )


def _expect_host(device_type: str) -> None:
    if device_type != "cpu":
        raise InvalidArgument(
            f"There is no memory of device type '{device_type}' here.",
            why="only the host's memory can be allocated without a provider's package",
            fix="Use device_type='cpu'.",
        )
