"""Tensors of a protobuf as weights: every field a tensor can be stored in, every type, sizes checked first.

Comes before `parse_graph` and `attributes`, which meet the tensors. Reads messages by their field names only and
keeps none. What it allocates is bounded by the bytes that are there; sparse tensors, which are not, are asked for.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ort_py.dtypes import DataType, nbytes_of, numpy_dtype
from ort_py.errors import InvalidGraph, Location
from ort_py.files import FileIdentity
from ort_py.graph.ir import Weight
from ort_py.graph.reading.external_data import ExternalFiles
from ort_py.graph.reading.text import text
from ort_py.graph.reading.wire import Piece
from ort_py.graph.weights.paging import forget_pages
from ort_py.graph.weights.unpack import aligned_empty, stored_as_is, unpack
from ort_py.graph.weights.weight_store import WeightStore
from ort_py.graph.weights.weights import ArrayWeight, FilePart
from ort_py.limits import Budget, check_allocation, unquestioned_elements

_DATA_TYPES = {int(data_type): data_type for data_type in DataType}
_EXTERNAL = 1  # TensorProto.EXTERNAL
_MAX_RANK = 64
"""NumPy's; the specification has no bound, and no operator goes past 8 or so."""

_TYPED_FIELDS = {
    DataType.FLOAT: "float_data",
    DataType.COMPLEX64: "float_data",
    DataType.DOUBLE: "double_data",
    DataType.COMPLEX128: "double_data",
    DataType.INT64: "int64_data",
    DataType.UINT32: "uint64_data",
    DataType.UINT64: "uint64_data",
}
"""Field of each type that does not use ``int32_data``."""

_NUMBERS = {"float": np.float32, "double": np.float64, "int64": np.int64, "uint64": np.uint64, "int32": np.int32}
_FIELD_DTYPES: dict[str, np.dtype[Any]] = {f"{name}_data": np.dtype(kind) for name, kind in _NUMBERS.items()}


class TensorReader:
    """Reads the tensors of one model.

    Args:
        content: All bytes of the model; None where no tensor is a piece of them.
        path: The file that they are of.
        identity: Identity of that file; None for bytes that a caller gave.

    Attributes:
        found: Where each piece that was met begins, where it ends, and its weight.
    """

    def __init__(
        self,
        store: WeightStore,
        budget: Budget,
        files: ExternalFiles,
        content: memoryview | None = None,
        path: str = "",
        identity: FileIdentity | None = None,
    ) -> None:
        self.store = store
        self.budget = budget
        self.files = files
        self.found: dict[int, tuple[int, ArrayWeight]] = {}
        self._content, self._path, self._identity = content, path, identity
        self._unquestioned = unquestioned_elements(budget.limits)

    def weight(self, proto: Any, name: str = "") -> Weight:
        """The weight of a ``TensorProto``.

        Raises:
            InvalidGraph: The tensor contradicts itself.
            Fail: Its external data cannot be used.
            LimitError: It is larger than the limits allow.
        """
        name = text(proto.name) or name
        data_type, shape = _declared(proto, name)
        self._allow(data_type, shape, name)
        if proto.data_location == _EXTERNAL:
            entries = {text(entry.key): text(entry.value) for entry in proto.external_data}
            return self.files.weight(name, entries, data_type, shape)
        if data_type is DataType.STRING:
            return self._strings(proto, shape, name)
        raw = proto.raw_data
        if type(raw) is Piece:
            return self._piece(raw, data_type, shape, name)
        if not raw and not proto.HasField("raw_data"):
            return self._typed(proto, data_type, shape, name)
        _expect_bytes(len(raw), data_type, shape, name)
        return self.store.embedded(raw, data_type, shape)

    def _piece(self, piece: Piece, data_type: DataType, shape: tuple[int, ...], name: str) -> Weight:
        _expect_bytes(len(piece), data_type, shape, name)
        start, stop = piece.start, piece.stop
        source = None if self._identity is None else FilePart(self._path, self._identity, start, stop)
        weight = self.store.embedded(piece.content, data_type, shape, source)
        self.found[start] = stop, weight
        assert self._content is not None
        forget_pages(self._content, start, stop)
        return weight

    def sparse(self, proto: Any, name: str = "") -> Weight:
        """The dense weight of a ``SparseTensorProto``.

        Raises:
            InvalidGraph: Values and indices do not fit together or lie outside the shape.
            LimitError: The dense tensor is larger than the limits allow.
        """
        name = text(proto.values.name) or name
        shape = _dims(proto.dims, name)
        values = self.weight(proto.values, name).array()
        indices = self.weight(proto.indices, name + ".indices").array()
        data_type = _DATA_TYPES[proto.values.data_type]
        self._allow(data_type, shape, name)
        flat = _flat_indices(indices, values, shape, name)
        dense = aligned_empty((prod(shape),), numpy_dtype(data_type))
        dense[...] = "" if data_type is DataType.STRING else 0
        dense[flat] = values
        return self.store.add(dense.reshape(shape), own=True)

    def _allow(self, data_type: DataType, shape: tuple[int, ...], name: str) -> None:
        if data_type is DataType.STRING:
            return  # bounded by the strings that are there, and the pointers to them are counted below
        where, elements = Location(value=name), prod(shape)
        if elements > self._unquestioned:
            check_allocation(self.budget.limits, shape, data_type, where)
        self.budget.add_initializer(elements * numpy_dtype(data_type).itemsize, where)

    def _strings(self, proto: Any, shape: tuple[int, ...], name: str) -> Weight:
        count = prod(shape)
        if len(proto.string_data) != count:
            raise _wrong_size(
                name, DataType.STRING, shape, f"string_data has {len(proto.string_data)} values, {count} are needed"
            )
        values = [decoded(value) for value in proto.string_data]
        # 64 bytes are about what Python needs for a short string and the pointer to it.
        self.budget.add_initializer(sum(map(len, values)) + 64 * count, Location(value=name))
        return self.store.strings(values, shape)

    def _typed(self, proto: Any, data_type: DataType, shape: tuple[int, ...], name: str) -> Weight:
        field = _TYPED_FIELDS.get(data_type, "int32_data")
        entries = getattr(proto, field)
        count = prod(shape)
        if field == "int32_data" and data_type.bits in (2, 4):
            wanted = nbytes_of(data_type, shape)
        else:
            wanted = count * (2 if data_type in (DataType.COMPLEX64, DataType.COMPLEX128) else 1)
        if len(entries) != wanted:
            raise _wrong_size(name, data_type, shape, f"{field} has {len(entries)} entries, {wanted} are needed")
        if type(entries) is np.ndarray and entries.dtype == numpy_dtype(data_type) and stored_as_is(data_type):
            return self.store.embedded(entries.data.cast("B"), data_type, shape)
        values = np.array(entries, _FIELD_DTYPES[field])
        return self.store.add(_from_field(values, data_type, shape), own=True)


def _from_field(values: np.ndarray[Any, Any], data_type: DataType, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Entries of a typed field as an aligned array; bit patterns of small floats are kept."""
    dtype = numpy_dtype(data_type)
    bits = data_type.bits
    if values.dtype == np.int32 and bits in (2, 4):
        return unpack(values.astype(np.uint8).tobytes(), data_type, shape)
    target = aligned_empty((prod(shape),), dtype)
    if values.dtype == np.int32 and (dtype.kind in "fV" or not dtype.isbuiltin):
        pattern = values.astype(np.dtype(f"u{dtype.itemsize}"))
        target.view(pattern.dtype)[...] = pattern & 63 if bits == 6 else pattern
    elif dtype.kind == "c":
        target[...] = values.view(dtype)
    elif data_type is DataType.BOOL:
        target[...] = values != 0
    else:
        target[...] = values.astype(dtype, copy=False)
    return target.reshape(shape)


def _declared(proto: Any, name: str) -> tuple[DataType, tuple[int, ...]]:
    data_type = _DATA_TYPES.get(proto.data_type, DataType.UNDEFINED)
    if data_type is DataType.UNDEFINED:
        what = f"Tensor '{name}' has the element type {proto.data_type}, which ONNX does not define."
        fix = "Export the model again, or update onnx if the model is newer than it."
        raise InvalidGraph(what, where=Location(value=name), fix=fix)
    if proto.HasField("segment"):
        what = f"Tensor '{name}' is stored in segments, which no exporter writes and onnx does not read."
        raise InvalidGraph(what, where=Location(value=name), fix="Save the tensor in one piece.")
    return data_type, _dims(proto.dims, name)


def _dims(dims: Any, name: str) -> tuple[int, ...]:
    shape = tuple(dims)
    if len(shape) > _MAX_RANK:
        why = f"rank {len(shape)} is above {_MAX_RANK}"
    elif min(shape, default=0) < 0:
        why = "a dimension is negative"
    elif (
        prod(shape) or prod(dim or 1 for dim in shape)
    ) >= 1 << 56:  # NumPy refuses such shapes even where another dimension is 0
        why = "no machine can address that many elements"
    else:
        return shape
    what, fix = f"Tensor '{name}' has an impossible shape: {list(shape[:_MAX_RANK])}.", "Export the model again."
    raise InvalidGraph(what, where=Location(value=name), why=why, fix=fix)


def decoded(value: bytes) -> str | bytes:
    """The text of bytes, or the bytes where they are not UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _flat_indices(
    indices: np.ndarray[Any, Any], values: np.ndarray[Any, Any], shape: tuple[int, ...], name: str
) -> np.ndarray[Any, Any]:
    """Positions in the flattened dense tensor, checked."""
    count = len(values) if values.ndim == 1 else -1
    linear = indices.shape == (count,)
    if indices.dtype != np.int64 or not (linear or indices.shape == (count, len(shape))):
        raise InvalidGraph(
            f"Sparse tensor '{name}' has indices that do not fit its values.",
            where=Location(value=name),
            why=f"indices are {indices.dtype}{list(indices.shape)}, values {list(values.shape)}, shape {list(shape)}",
            fix=f"Store int64 indices of shape [N] or [N, {len(shape)}] beside N values.",
        )
    bound = np.array([prod(shape)] if linear else shape, np.int64)
    columns = indices.reshape(count, len(bound))
    if np.any((columns < 0) | (columns >= bound)):
        what = f"Sparse tensor '{name}' has an index outside its shape {list(shape)}."
        raise InvalidGraph(what, where=Location(value=name), fix="Export the model again.")
    strides = np.array([prod(shape[axis + 1 :]) for axis in range(len(shape))], np.int64)
    return columns[:, 0] if linear else columns @ strides


def _expect_bytes(count: int, data_type: DataType, shape: tuple[int, ...], name: str) -> None:
    expected = nbytes_of(data_type, shape)
    if count != expected:
        raise _wrong_size(name, data_type, shape, f"raw_data has {count} bytes, {expected} are needed")


def _wrong_size(name: str, data_type: DataType, shape: tuple[int, ...], why: str) -> InvalidGraph:
    what = f"Tensor '{name}' does not have the amount of data that {data_type.onnx_name}{list(shape)} needs."
    fix = "The file is damaged or was written incorrectly; export the model again."
    return InvalidGraph(what, where=Location(value=name), why=why, fix=fix)
