"""The file format of LoRA adapters: FlatBuffers with the identifier ``TORT``, as onnxruntime writes them.

A file is two kinds of tables, an adapter and its parameters. Every offset is checked before it is followed, and a
parameter's bytes against its shape, so a hostile file is an error and costs no more memory than its size.

::

    Adapter    format_version: int32, adapter_version: int32, model_version: int32, parameters: [Parameter]
    Parameter  name: string, dims: [int64], data_type: int32 (TensorProto), raw_data: [uint8]

Comes before `adapters`, which holds what users see. It does not depend on files or on `OrtValue`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx

from ort_py.dtypes import DataType, data_type_of, nbytes_of
from ort_py.errors import UsageError
from ort_py.graph.weights.unpack import unpack
from ort_py.graph.writing.protos import fill_tensor
from ort_py.lazy_dataclass import dataclass

FORMAT_VERSION = 1
_IDENTIFIER = b"TORT"
_LARGEST = 2**31 - 1
"""Bytes of a FlatBuffers file at most: offsets are 31 bits."""
_MAX_RANK = 64
_FIELDS = 4
"""Both tables have four fields of four bytes each."""
_TABLE = struct.Struct("<i4I")
_VTABLE = struct.pack("<6H", 4 + 2 * _FIELDS, _TABLE.size, 4, 8, 12, 16)


@dataclass(frozen=True, slots=True)
class AdapterContent:
    """The content of a file.

    Attributes:
        parameters: Arrays by name, C-contiguous.
    """

    format_version: int
    adapter_version: int
    model_version: int
    parameters: Mapping[str, np.ndarray[Any, Any]]


def read_adapter_bytes(data: bytes) -> AdapterContent:
    """Read a file's content.

    Raises:
        UsageError: It is not an adapter, or it is malformed; a builtin RuntimeError too.
    """
    if data[4:8] != _IDENTIFIER:
        raise _malformed(f"bytes 4 to 7 are {data[4:8]!r} instead of {_IDENTIFIER!r}")
    reader = _Reader(data)
    version, adapter_version, model_version = (reader.integer(reader.field(reader.root, index)) for index in range(3))
    if version != FORMAT_VERSION:
        raise _malformed(f"its format version is {version}, {FORMAT_VERSION} is known")
    parameters: dict[str, np.ndarray[Any, Any]] = {}
    total = 0
    for table in reader.tables(reader.field(reader.root, 3)):
        name, array = reader.parameter(table)
        if name in parameters:
            raise _malformed(f"it has two parameters named {name!r}")
        total += array.nbytes
        if total > 8 * len(data):  # parameters may share bytes in the file; packed ones grow by at most this
            raise _malformed("its parameters overlap")
        parameters[name] = array
    return AdapterContent(version, adapter_version, model_version, parameters)


class _Reader:
    """Follows offsets of a FlatBuffers file, each inside the file or refused."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.root = self._unsigned(0)

    def _slice(self, start: int, size: int) -> bytes:
        if start < 0 or size < 0 or start + size > len(self._data):
            raise _malformed(f"it refers to {size} bytes at {start}, beyond its {len(self._data)} bytes")
        return self._data[start : start + size]

    def _unsigned(self, at: int) -> int:
        return int.from_bytes(self._slice(at, 4), "little")

    def integer(self, at: int) -> int:
        """A signed number; 0 where the field is absent."""
        return int.from_bytes(self._slice(at, 4), "little", signed=True) if at else 0

    def field(self, table: int, index: int) -> int:
        """Position of a field of a table; 0 where it is absent."""
        vtable = table - self.integer(table)
        size = int.from_bytes(self._slice(vtable, 2), "little")
        place = 4 + 2 * index
        if place + 2 > size:
            return 0
        offset = int.from_bytes(self._slice(vtable + place, 2), "little")
        return table + offset if offset else 0

    def _vector(self, at: int, width: int) -> tuple[int, int]:
        """Number of elements and place of the first of the vector that a field refers to."""
        if not at:
            return 0, 0
        start = at + self._unsigned(at)
        count = self._unsigned(start)
        self._slice(start + 4, count * width)
        return count, start + 4

    def tables(self, at: int) -> list[int]:
        """Places of the tables in a vector of them."""
        count, first = self._vector(at, 4)
        return [place + self._unsigned(place) for place in range(first, first + 4 * count, 4)]

    def parameter(self, table: int) -> tuple[str, np.ndarray[Any, Any]]:
        """Name and array of a parameter."""
        count, first = self._vector(self.field(table, 0), 1)
        try:
            name = self._slice(first, count).decode("utf-8")
        except UnicodeDecodeError as error:
            raise _malformed(f"a parameter's name is not UTF-8: {error}") from None
        count, first = self._vector(self.field(table, 1), 8)
        if count > _MAX_RANK:
            raise _malformed(f"the parameter {name!r} has {count} dimensions")
        shape = struct.unpack(f"<{count}q", self._slice(first, 8 * count))
        number = self.integer(self.field(table, 2))
        size, first = self._vector(self.field(table, 3), 1)
        return name, _array(name, number, shape, self._slice(first, size))


def _array(name: str, number: int, shape: tuple[int, ...], raw: bytes) -> np.ndarray[Any, Any]:
    try:
        data_type = DataType(number)
    except ValueError:
        raise _malformed(f"the parameter {name!r} has element type {number}, which ONNX does not have") from None
    if data_type in (DataType.UNDEFINED, DataType.STRING):
        raise _malformed(f"the parameter {name!r} has element type {data_type.onnx_name}")
    if any(dim < 0 for dim in shape) or nbytes_of(data_type, shape) != len(raw):
        raise _malformed(f"the parameter {name!r} of shape {shape} has {len(raw)} bytes of {data_type.onnx_name}")
    try:
        return unpack(memoryview(raw), data_type, shape)
    except ValueError as error:  # empty, with another dimension beyond what NumPy can count
        raise _malformed(f"the parameter {name!r} has shape {shape}: {error}") from None


def write_adapter_bytes(content: AdapterContent) -> bytes:
    """The bytes of a file.

    Raises:
        UsageError: Strings are among the parameters, or the file would pass 2 GiB; a builtin RuntimeError too.
    """
    out = bytearray(struct.pack("<I4s", 8 + len(_VTABLE), _IDENTIFIER) + _VTABLE)
    names = sorted(content.parameters)
    place = len(out)
    versions = (content.format_version, content.adapter_version, content.model_version)
    out += struct.pack("<4iI", place - 8, *versions, 4)  # the vector follows its field
    vector = len(out)
    out += struct.pack(f"<I{4 * len(names)}x", len(names))
    for index, name in enumerate(names):
        slot = vector + 4 + 4 * index
        struct.pack_into("<I", out, slot, len(out) - slot)
        _write_parameter(out, name, content.parameters[name])
        if len(out) > _LARGEST:
            raise UsageError(
                f"The adapter exceeds the {_LARGEST} bytes that its format can hold.",
                where=f"parameter {name!r}",
                fix="Write several adapters.",
            )
    return bytes(out)


def _write_parameter(out: bytearray, name: str, array: np.ndarray[Any, Any]) -> None:
    data_type = data_type_of(array.dtype)
    if data_type is DataType.STRING:
        raise UsageError(f"The parameter {name!r} holds strings, which adapters cannot.", fix="Leave it out.")
    stored = onnx.TensorProto()
    fill_tensor(stored, array)  # types below one byte are packed as in a model
    raw: bytes = stored.raw_data
    table = len(out)
    out += _TABLE.pack(table - 8, 0, 0, int(data_type), 0)
    text = name.encode("utf-8")
    for field, count, width, body in (
        (0, len(text), 4, text + b"\0"),
        (1, array.ndim, 8, struct.pack(f"<{array.ndim}q", *array.shape)),
        (3, len(raw), 8, raw),
    ):
        # The elements are aligned, so their number in front of them is not where they are wider than it.
        out += bytes(-(len(out) + 4) % width)
        slot = table + 4 + 4 * field
        struct.pack_into("<I", out, slot, len(out) - slot)
        out += struct.pack("<I", count) + body
    out += bytes(-len(out) % 4)


def _malformed(why: str) -> UsageError:
    return UsageError(
        "The data is not a readable adapter.",
        why=why,
        fix="Write it with AdapterFormat.export_adapter() or with the converter it came from.",
    )
