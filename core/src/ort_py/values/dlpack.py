"""DLPack in both directions, both generations of the protocol, with the types NumPy does not have.

NumPy speaks DLPack for its own types. For bfloat16 and the float8 types a tensor crosses as integers of the same width,
and the type code of the exchanged record is set to what it really is: DLPack hands the record over together with the
memory, so its new owner may do that. It is independent of ONNX beyond element types.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ort_py.dtypes import DataType, data_type_of, numpy_dtype
from ort_py.errors import ArgumentTypeError, UsageError

# Codes of dlpack.h for types that NumPy lacks.
_CODES = {
    DataType.BFLOAT16: 4,
    DataType.FLOAT8E4M3FN: 10,
    DataType.FLOAT8E4M3FNUZ: 11,
    DataType.FLOAT8E5M2: 12,
    DataType.FLOAT8E5M2FNUZ: 13,
    DataType.FLOAT8E8M0: 14,
}
_TYPES = {code: data_type for data_type, code in _CODES.items()}
_UINT = 1
HOST_TYPE = 1
"""DLPack's number of the host."""

_HOST = (HOST_TYPE, 0)


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _VersionedHead(ctypes.Structure):
    """The fields before the tensor in a record of the second generation; the first has none."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
    )


_OLD, _NEW = b"dltensor", b"dltensor_versioned"

_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


def is_capsule(value: Any) -> bool:
    """Return whether it is a DLPack capsule that has not been consumed."""
    return type(value).__name__ == "PyCapsule" and bool(_is_valid(value, _OLD) or _is_valid(value, _NEW))


def is_uint8(capsule: Any) -> bool:
    """Return whether a capsule holds bytes. Booleans are transferred as bytes if the producer's DLPack has no type for
    them.

    Raises:
        ArgumentTypeError: It is not a capsule, or was used already.
    """
    if not is_capsule(capsule):
        raise ArgumentTypeError(f"{capsule!r} is not a DLPack capsule.", fix="Pass what __dlpack__() gives, unused.")
    record = _record(capsule)
    return (record.code, record.bits, record.lanes) == (_UINT, 8, 1)


def device_of(source: Any) -> tuple[int, int]:
    """DLPack's kind and number of the device that a capsule's or producer's tensor is on; the host where it does not
    say."""
    if is_capsule(source) or hasattr(source, "__dlpack_device__"):
        kind, number = _Exporter(source).__dlpack_device__()
        return int(kind), int(number)
    return _HOST


def producer_of(source: Any) -> Any:
    """A producer as it is; one for a capsule."""
    return _Holder(source) if is_capsule(source) else source


def _record(capsule: Any) -> _Tensor:
    if _is_valid(capsule, _OLD):
        return _Tensor.from_address(_pointer(capsule, _OLD))
    return _Tensor.from_address(_pointer(capsule, _NEW) + ctypes.sizeof(_VersionedHead))


def to_dlpack(
    array: np.ndarray[Any, Any],
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """A capsule over the memory of a host array; see ``__dlpack__`` of the array API standard.

    Args:
        array: A C-contiguous array.
        max_version: Newest protocol the consumer reads; None for the first generation.
        dl_device: Device wanted; only the host is there.

    Raises:
        BufferError: Read-only memory in the first generation, another device, or a type DLPack lacks.
    """
    data_type = data_type_of(array.dtype)
    if data_type not in _CODES:
        return _export(array, max_version, dl_device, copy)
    integers = array.view(np.uint16 if array.dtype.itemsize == 2 else np.uint8)
    capsule = _export(integers, max_version, dl_device, copy)
    _record(capsule).code = _CODES[data_type]
    return capsule


def _export(
    array: np.ndarray[Any, Any],
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy: bool | None,
) -> Any:
    wanted = {"max_version": max_version, "dl_device": dl_device, "copy": copy}
    given: dict[str, Any] = {key: value for key, value in wanted.items() if value is not None}
    try:
        return array.__dlpack__(**given)
    except TypeError:
        # NumPy before 2.1 knows none of these; the protocol lets a producer answer in the first generation.
        return (array.copy() if copy else array).__dlpack__()


class _Exporter:
    """A capsule, or an object's own export, in the form NumPy asks for; its type code made one that NumPy has."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self.data_type: DataType | None = None
        self.first_generation = False

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self._source
        if not is_capsule(capsule):
            try:
                capsule = capsule.__dlpack__(**options)
            except TypeError:  # a producer of the first generation takes no options
                capsule = capsule.__dlpack__()
        if not is_capsule(capsule):
            raise ArgumentTypeError(
                f"{type(self._source).__name__}.__dlpack__() did not return a DLPack capsule.",
                fix="Pass the tensor itself.",
            )
        self.first_generation = bool(_is_valid(capsule, _OLD))
        record = _record(capsule)
        if record.lanes == 1 and record.code in _TYPES and record.bits in (8, 16):
            self.data_type = _TYPES[record.code]
            record.code = _UINT
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        if is_capsule(self._source):
            record = _record(self._source)
            return record.device_type, record.device_id
        device: tuple[int, int] = (
            self._source.__dlpack_device__() if hasattr(self._source, "__dlpack_device__") else _HOST
        )
        return device


class _Holder:
    """A capsule in the form of a producer, for libraries that ask for the device first."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule
        self._device = device_of(capsule)

    def __dlpack__(self, **_options: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device


def from_dlpack(source: Any) -> tuple[np.ndarray[Any, Any], bool]:
    """The tensor of a producer or capsule as an array over the same memory, strides as they are.

    Args:
        source: A capsule, consumed by this, or an object with ``__dlpack__``.

    Returns:
        The array, and whether its producer could not have said that it is read-only: NumPy takes all memory of the
        first generation for read-only.

    Raises:
        ArgumentTypeError: Neither of the two.
        UsageError: A device other than the host, or a type without an ONNX type.
        BufferError: The producer refuses.
    """
    if not is_capsule(source) and not hasattr(source, "__dlpack__"):
        raise ArgumentTypeError(
            f"{type(source).__name__} is not a DLPack capsule and has no __dlpack__.",
            fix="Pass a tensor of a library that supports DLPack, or a capsule that was not used yet.",
        )
    exporter = _Exporter(source)
    try:
        array = np.from_dlpack(exporter)
    except ArgumentTypeError:
        raise
    except (RuntimeError, ValueError, TypeError) as error:
        raise UsageError(
            "This tensor cannot be read through DLPack.",
            why=str(error),
            fix="Bring it to the host, in a type ONNX has.",
        ) from error
    if exporter.data_type is not None:
        array = array.view(numpy_dtype(exporter.data_type))
    return array, exporter.first_generation
