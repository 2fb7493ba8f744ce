"""The attributes and the data of a value: the half of `OrtValue` that does not make new ones.

After element types, DLPack and sparse tensors; `ort_value` adds the constructors.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ort_py.devices import Device
from ort_py.dtypes import OptionalType, SequenceType, SparseTensorType, TensorType, ValueType, data_type_of, nbytes_of
from ort_py.errors import ArgumentTypeError, UsageError
from ort_py.values import dlpack
from ort_py.values.copying import write_into
from ort_py.values.device_tensor import DeviceTensor
from ort_py.values.sparse import SparseTensor


class HeldValue:
    """A tensor, sparse tensor, sequence, map or nothing, with its type and its place."""

    __slots__ = ("__weakref__", "_device", "_type", "_value")

    _device: Device
    _type: ValueType | None
    _value: Any

    # -- what it holds -----------------------------------------------------------------------------------------

    @property
    def value(self) -> Any:
        """The bare value: array, of its device where it is on one, `SparseTensor`, list, dict or None."""
        return self._value.array if isinstance(self._value, DeviceTensor) else self._value

    @property
    def value_type(self) -> ValueType | None:
        """Its type; None where nothing is known, as of an empty optional."""
        return self._type

    def numpy(self) -> Any:
        """The tensor as a NumPy array over the same memory; a copy where it is on a device.

        Raises:
            UsageError: It is not a tensor.
        """
        tensor = self._tensor("numpy()")
        return tensor.to_host() if isinstance(tensor, DeviceTensor) else tensor

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.numpy(), dtype, copy=copy)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """The tensor as a DLPack capsule over the same memory, of the newest generation the consumer reads.

        Raises:
            UsageError: It is not a tensor.
            BufferError: DLPack lacks the type, its first generation cannot say that the memory is read-only, or arrays
                of the device have no DLPack.
        """
        array = self._tensor("__dlpack__()")
        if isinstance(array, DeviceTensor):
            return array.dlpack(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)
        return dlpack.to_dlpack(array, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def to_dlpack(self) -> Any:
        """`__dlpack__` of the first generation, which old versions of other libraries read."""
        return self.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's kind and number of the device.

        Raises:
            UsageError: It is not a tensor.
        """
        tensor = self._tensor("__dlpack_device__()")
        return tensor.dlpack_device() if isinstance(tensor, DeviceTensor) else (1, 0)

    def as_sparse_tensor(self) -> SparseTensor:
        """The sparse tensor it holds.

        Raises:
            UsageError: It holds none.
        """
        if not isinstance(self._value, SparseTensor):
            raise UsageError(
                f"This value is {self._described()}, not a sparse tensor.", fix="Ask is_sparse_tensor() first."
            )
        return self._value

    def shape(self) -> list[int]:
        """Shape of the tensor, dense or sparse.

        Raises:
            UsageError: It is not a tensor.
        """
        if isinstance(self._value, SparseTensor):
            return self._value.dense_shape()
        return list(self._tensor("shape()").shape)

    def data_type(self) -> str:
        """Type string, e.g. ``tensor(float)``."""
        return str(self._type) if self._type is not None else ""

    def element_type(self) -> int:
        """Number of the element type in ``TensorProto.DataType``, for sequences that of the elements; 0 for others."""
        found = self._type
        while isinstance(found, SequenceType | OptionalType):
            found = found.element
        return int(found.data_type) if isinstance(found, TensorType | SparseTensorType) else 0

    def tensor_size_in_bytes(self) -> int:
        """Bytes of the tensor as ONNX stores it: sub-byte types packed.

        Raises:
            UsageError: It is not a tensor.
        """
        array = self._tensor("tensor_size_in_bytes()")
        return nbytes_of(data_type_of(array.dtype), tuple(array.shape))

    def data_ptr(self) -> int:
        """Address of the tensor's memory, on its device.

        Raises:
            UsageError: It is not a tensor.
        """
        tensor = self._tensor("data_ptr()")
        return tensor.address() if isinstance(tensor, DeviceTensor) else int(tensor.ctypes.data)

    def device_name(self) -> str:
        """Kind of the device, lower case.

        Raises:
            UsageError: It is not a tensor.
        """
        if not isinstance(self._value, SparseTensor):
            self._tensor("device_name()")
        return self._device.kind

    def has_value(self) -> bool:
        """False for an empty optional."""
        return self._value is not None

    def is_tensor(self) -> bool:
        """Return whether it is a dense tensor."""
        return isinstance(self._value, np.ndarray | DeviceTensor)

    def is_tensor_sequence(self) -> bool:
        """Return whether it is a sequence of tensors."""
        return isinstance(self._type, SequenceType) and isinstance(self._type.element, TensorType)

    def is_sparse_tensor(self) -> bool:
        """Return whether it is a sparse tensor."""
        return isinstance(self._value, SparseTensor)

    # -- changing it -------------------------------------------------------------------------------------------

    def update_inplace(self, data: Any) -> None:
        """Write another tensor's content into this tensor's memory; the address and the shape stay.

        Args:
            data: Array or OrtValue of the same element type and as many elements.

        Raises:
            ArgumentTypeError: Neither of the two.
            UsageError: Another element type (onnxruntime reinterprets the bytes of an array), another number of
                elements, or memory that is read-only.
        """
        target = self._tensor("update_inplace()")
        if isinstance(data, HeldValue):
            source: np.ndarray[Any, Any] | DeviceTensor = data._tensor("update_inplace()")
        elif isinstance(data, np.ndarray):
            source = data
        else:
            raise ArgumentTypeError(
                f"data must be a numpy.ndarray or an OrtValue, not {type(data).__name__}.",
                fix="Pass numpy.asarray(data).",
            )
        if isinstance(target, DeviceTensor):
            target.write(source, "update_inplace")
            return
        if isinstance(source, DeviceTensor):
            source = source.to_host()
        if not target.flags.writeable:
            raise UsageError("This value uses read-only memory.", fix="Create it from a writable array.")
        write_into(source, target, "update_inplace")

    # -- as Python sees it -------------------------------------------------------------------------------------

    @property
    def _ortvalue(self) -> Self:
        return self  # onnxruntime wraps a second object, which applications take out to call `to_dlpack` on it

    def _get_c_value(self) -> Self:
        return self

    def __repr__(self) -> str:
        shape = f", shape={self.shape()}" if self.is_tensor() or self.is_sparse_tensor() else ""
        return f"OrtValue({self._described()}{shape}, device={self._device})"

    def _described(self) -> str:
        return self.data_type() or "empty"

    def _tensor(self, what: str) -> np.ndarray[Any, Any] | DeviceTensor:
        if not isinstance(self._value, np.ndarray | DeviceTensor):
            raise UsageError(f"{what} is for tensors, this value is {self._described()}.", fix="Use OrtValue.value.")
        return self._value
