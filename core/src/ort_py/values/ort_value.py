"""OrtValue: a value with its ONNX type, for users; here are the ways to make one.

After `held_value`, which has the questions; before bindings. Slots never hold one: sessions unwrap and wrap at the
border.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_py.devices import HOST, Device
from ort_py.dtypes import (
    DataType,
    OptionalType,
    SparseTensorType,
    TensorType,
    ValueType,
    numpy_dtype,
    parse_value_type,
    value_type_of,
)
from ort_py.errors import ArgumentTypeError, UsageError
from ort_py.values import dlpack
from ort_py.values.device import OrtDevice
from ort_py.values.device_memory import memory_of_dlpack, place_of
from ort_py.values.device_tensor import DeviceTensor
from ort_py.values.element_types import SUB_BYTE, array_at, element_type_of, shape_of, writable_view
from ort_py.values.held_value import HeldValue
from ort_py.values.memory_info import OrtMemoryInfo
from ort_py.values.sparse import SparseTensor


class OrtValue(HeldValue):
    """A tensor, sparse tensor, sequence or map, or an empty optional.

    Make one with `ortvalue_from_numpy`, `ortvalue_from_shape_and_type`, `from_dlpack`, `of`, or by running a session.

    Args:
        ortvalue: Another OrtValue; the new one shares its content.
        numpy_obj, session: Accepted for compatibility.

    Raises:
        ValueError: `ortvalue` is none.
    """

    __slots__ = ()

    def __init__(self, ortvalue: OrtValue, numpy_obj: Any = None, session: Any = None) -> None:
        if not isinstance(ortvalue, OrtValue):
            raise ValueError(
                f"An OrtValue is made of another one, not of {type(ortvalue).__name__}: "
                "use OrtValue.ortvalue_from_numpy() or OrtValue.of()."
            )
        self._value, self._type, self._device = ortvalue._value, ortvalue._type, ortvalue._device

    # -- making one --------------------------------------------------------------------------------------------

    @classmethod
    def of(cls, value: Any, value_type: ValueType | None = None, device: Device = HOST) -> OrtValue:
        """Any value a session takes or gives: array, `SparseTensor`, list for a sequence, dict for a map, None.

        Args:
            value: The bare value; kept, not copied.
            value_type: Its type, found out where not given. An empty list or None has none to find.
            device: Device that it is on.
        """
        made = object.__new__(cls)
        made._value = np.asarray(value) if isinstance(value, np.generic) else value
        if isinstance(value_type, OptionalType) and value is not None:
            value_type = value_type.element
        made._type = _type_of(made._value) if value_type is None else value_type
        made._device = device
        return made

    @classmethod
    def of_output(cls, value: Any, declared: str) -> OrtValue:
        """A result of a run.

        Args:
            value: The bare value.
            declared: Type string of the output, which says what an empty list or None is.
        """
        if isinstance(value, np.ndarray):
            return cls.of(value)
        if isinstance(value, DeviceTensor):
            return cls._on_device(value)
        return cls.of(value, parse_value_type(declared) if declared else None)

    @classmethod
    def ortvalue_from_numpy(
        cls, numpy_obj: Any, /, device_type: str | OrtDevice = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        """A tensor over the memory of an array: C-contiguous arrays are shared, others copied; on a device, a copy.

        Args:
            numpy_obj: Array of any dtype ONNX has, `ml_dtypes` and strings included.
            device_type: ``"cpu"``, the kind of a device that a usable provider has memory of, or an `OrtDevice`.
            device_id: Number of the device.
            vendor_id: Number of its maker, negative for the usual one.

        Raises:
            UsageError: It is not an array, its dtype has no ONNX type, or no memory of the device is available here.
        """
        device = place_of(device_type, device_id, vendor_id)
        if isinstance(numpy_obj, list | tuple | dict | int | float | str | bytes) and not isinstance(
            numpy_obj, np.generic
        ):
            raise UsageError(
                f"A {type(numpy_obj).__name__} has no element type, so no OrtValue can be created from it.",
                fix="Pass a NumPy array: numpy.asarray(value, dtype).",
            )
        array = np.asarray(numpy_obj)
        data_type = element_type_of(array.dtype)
        if data_type is DataType.STRING:
            native = _texts(array)
        else:
            native = np.ascontiguousarray(array, numpy_dtype(data_type)).reshape(array.shape)
        if device.kind != HOST.kind:
            return cls._on_device(DeviceTensor.of_host(device, native))
        return cls.of(native, TensorType(data_type, tuple(array.shape)), device)

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: np.ndarray[Any, Any], /, onnx_element_type: int) -> OrtValue:
        """A tensor of another element type over the bytes of an array; the shape stays.

        For types of a byte or more the memory of a C-contiguous array is shared. Types that ONNX packs are read
        packed: element ``i`` is the ``i``-th of the bytes, low bits first.

        Args:
            data: Array whose elements are as wide as those of the type.
            onnx_element_type: Number of ``TensorProto.DataType``.

        Raises:
            ArgumentTypeError: `data` is not an array, or the type is not a number.
            UsageError: The widths differ, or the type is that of strings.
        """
        if not isinstance(data, np.ndarray):
            raise ArgumentTypeError(
                f"data must be a NumPy array, not {type(data).__name__}.", fix="numpy.asarray(data)"
            )
        if not isinstance(onnx_element_type, int | np.integer):
            raise ArgumentTypeError(
                f"onnx_element_type must be a number of onnx.TensorProto, not {onnx_element_type!r}.",
                fix="Pass e.g. onnx.TensorProto.BFLOAT16.",
            )
        data_type = element_type_of(onnx_element_type)
        if data_type is DataType.STRING or data.dtype.hasobject or data.dtype.itemsize != max(1, data_type.bits // 8):
            raise UsageError(
                f"An array of {data.dtype} cannot be read as {data_type.onnx_name}.",
                why=f"its elements take {data.dtype.itemsize} byte(s), those of the type {data_type.bits} bits",
                fix="Pass unsigned integers of the same width.",
            )
        raw = np.ascontiguousarray(data).reshape(data.shape)
        dtype = numpy_dtype(data_type)
        array = unpack(raw, data_type) if data_type in SUB_BYTE else raw.reshape(-1).view(dtype).reshape(raw.shape)
        return cls.of(array, TensorType(data_type, tuple(array.shape)))

    @classmethod
    def ortvalue_from_shape_and_type(
        cls,
        shape: Sequence[int],
        element_type: Any,
        device_type: str | OrtDevice = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,
        memory_info: OrtMemoryInfo | None = None,
    ) -> OrtValue:
        """An uninitialised tensor; of empty texts where the type is that of strings.

        Args:
            shape: Its shape.
            element_type: NumPy dtype or type, or a number of ``TensorProto.DataType``.
            device_type, device_id, vendor_id: As in `ortvalue_from_numpy`.
            memory_info: Memory to take it from, instead of the three.

        Raises:
            ArgumentTypeError: The shape is not a sequence of integers.
            UsageError: A negative size, no such type, or memory of another device.
        """
        if memory_info is None:
            device = place_of(device_type, device_id, vendor_id)
        elif memory_info.is_host:
            device = HOST
        else:
            raise UsageError(
                f"There is no shared allocator for {memory_info!r}.",
                why="only the host's memory can be allocated without a provider's package",
                fix="Use device_type='cpu'.",
            )
        sizes = shape_of(shape)
        data_type = element_type_of(element_type)
        if device.kind != HOST.kind:
            return cls._on_device(DeviceTensor.empty(device, data_type, sizes))
        array = np.full(sizes, "", object) if data_type is DataType.STRING else np.empty(sizes, numpy_dtype(data_type))
        return cls.of(array, TensorType(data_type, sizes), device)

    ortvalue_from_shape_and_onnx_type = ortvalue_from_shape_and_type

    @classmethod
    def ort_value_from_sparse_tensor(cls, sparse_tensor: SparseTensor) -> OrtValue:
        """A value that holds a sparse tensor.

        Raises:
            ArgumentTypeError: It is none.
        """
        if not isinstance(sparse_tensor, SparseTensor):
            raise ArgumentTypeError(
                f"The argument must be a SparseTensor, not {type(sparse_tensor).__name__}.",
                fix="Make one with SparseTensor.sparse_coo_from_numpy().",
            )
        return cls.of(sparse_tensor)

    @classmethod
    def from_dlpack(cls, data: Any, /, is_bool_tensor: bool = False) -> OrtValue:
        """A tensor over the memory of another library's tensor.

        Args:
            data: Object with ``__dlpack__``, or a capsule.
            is_bool_tensor: Its bytes are truth values, which libraries of the first generation send as uint8.

        Raises:
            ArgumentTypeError: Neither of the two.
            UsageError: It is not contiguous, on a device without memory here, or has a type ONNX lacks.
            BufferError: Its owner refuses.
        """
        kind, number = dlpack.device_of(data)
        memory = None if kind == dlpack.HOST_TYPE else memory_of_dlpack(kind, number)
        if memory is not None:
            taken = memory.from_dlpack(dlpack.producer_of(data))
            _expect_contiguous(taken)
            return cls._on_device(DeviceTensor(memory, taken.view(np.bool_) if is_bool_tensor else taken))
        array, untold = dlpack.from_dlpack(data)
        _expect_contiguous(array)
        data_type = element_type_of(array.dtype)
        if untold:
            array = writable_view(array)
        if is_bool_tensor:
            data_type, array = DataType.BOOL, array.view(np.bool_)
        return cls.of(array, TensorType(data_type, array.shape))

    @classmethod
    def _on_device(cls, tensor: DeviceTensor) -> OrtValue:
        return cls.of(tensor, TensorType(element_type_of(tensor.dtype), tensor.shape), tensor.device)

    @classmethod
    def _at(cls, address: int, data_type: DataType, shape: Sequence[int], owner: Any = None) -> OrtValue:
        """A tensor over memory that another object owns, which is kept alive where it is known."""
        array = array_at(address, data_type, shape, owner)
        return cls.of(array, TensorType(data_type, array.shape))


def _expect_contiguous(array: Any) -> None:
    if not array.flags.c_contiguous:
        raise UsageError(
            "A tensor that is not contiguous cannot be shared.",
            why=f"shape {array.shape}, strides {array.strides} bytes",
            fix="Make it contiguous first.",
        )


def _texts(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Strings as object arrays of ``str``; object arrays are shared as they are."""
    return array if array.dtype == object and array.flags.c_contiguous else array.astype(object, order="C")


_SIGNED = frozenset({DataType.INT4, DataType.INT2})


def unpack(raw: np.ndarray[Any, Any], data_type: DataType) -> np.ndarray[Any, Any]:
    """Unpack as many elements as the array has bytes, from its leading bytes; the other bytes are not read.

    onnxruntime keeps the shape of the byte array, so a caller who packs must pass twice the bytes that it reads.

    Args:
        raw: Array of one-byte elements, C-contiguous.
        data_type: A packed type.
    """
    bits = data_type.bits
    each = 8 // bits
    count = raw.size
    packed = raw.reshape(-1).view(np.uint8)[: -(-count // each)]
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    codes = ((packed[:, None] >> shifts) & np.uint8((1 << bits) - 1)).reshape(-1)[:count].reshape(raw.shape)
    dtype = numpy_dtype(data_type)
    if data_type is DataType.FLOAT4E2M1:
        return codes.view(dtype)
    if data_type in _SIGNED:
        sign = np.uint8(1 << (bits - 1))
        return ((codes ^ sign).astype(np.int8) - np.int8(sign)).astype(dtype)
    return codes.astype(dtype)


def _type_of(value: Any) -> ValueType | None:
    if isinstance(value, SparseTensor):
        return SparseTensorType(value.element_type, tuple(value.dense_shape()))
    return value_type_of(value)
