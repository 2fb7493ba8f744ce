"""Constants of a cached model: those that lie in files of their own stay there, all others are blocks of the entry.

A block holds an array as it is in memory, so that it is used where the entry is mapped. Small constants of one type and
shape share a block, because a view for each of ten thousand scalars would cost more than the scalars. Comes before
`model_record`; `ConstantWriter` is the one direction, `ConstantReader` the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from ort_py.cache.format import ALIGNMENT
from ort_py.dtypes import DataType, numpy_dtype
from ort_py.files import FileIdentity
from ort_py.graph.ir import Weight
from ort_py.graph.weights.weight_store import WeightStore
from ort_py.graph.weights.weights import ArrayWeight, MappedFile, MappedWeight
from ort_py.limits import array_bytes

_SMALL = 1024
"""Bytes up to which constants share a block; each is aligned to its element type only."""

_SHARED_FROM = 1 << 16
"""Bytes from which a constant that this process has in memory already is looked for by its content."""


class NotStorableError(Exception):
    """The model has something that the cache has no form for; the text says what."""


class CachedWeight(MappedWeight):
    """A constant that has a block of a mapped entry to itself, as it is in memory whatever its type is."""

    __slots__ = ()

    @property
    def length(self) -> int:
        """Bytes it takes in the entry."""
        return self.nbytes

    @property
    def in_place(self) -> bool:
        """Always the entry's own pages."""
        return True

    def _load(self) -> np.ndarray[Any, Any]:
        return _view(self.file.buffer, self.offset, self.data_type, self.shape)


class SmallWeight:
    """A constant that is a part of a shared block: nothing but its array, as there may be tens of thousands of them."""

    __slots__ = ("__weakref__", "_array", "_place", "data_type", "shape")

    in_place = True

    def __init__(self, array: np.ndarray[Any, Any], data_type: DataType, place: tuple[str, int]) -> None:
        self._array = array
        self._place = place
        self.data_type = data_type
        self.shape: tuple[int, ...] = array.shape

    @property
    def nbytes(self) -> int:
        """Bytes of the array, which are the file's pages."""
        return int(self._array.nbytes)

    @property
    def key(self) -> str:
        block, index = self._place
        return f"{block}:{index}"

    def array(self) -> np.ndarray[Any, Any]:
        return self._array

    def __repr__(self) -> str:
        return f"SmallWeight({self.data_type.onnx_name}, {self.shape})"


def _view(buffer: Any, offset: int, data_type: DataType, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    dtype, count = numpy_dtype(data_type), prod(shape)
    if not count:
        array = np.empty(shape, dtype)
        array.flags.writeable = False
        return array
    return np.frombuffer(buffer, dtype, count, offset).reshape(shape)


class ConstantWriter:
    """Numbers constants, and collects what the entry must hold of them.

    Args:
        location_of: Says by which name the model calls a file of external data; raises NotStorableError for a file
            it does not name. None where the entry has to hold what is in other files, too.
    """

    def __init__(self, location_of: Callable[[MappedFile], str] | None) -> None:
        self._location_of = location_of
        self._numbers: dict[str, int] = {}
        self._rows: list[list[Any]] = []
        self._large: list[tuple[int, Weight]] = []
        self._small: dict[tuple[DataType, tuple[int, ...]], list[tuple[int, Weight]]] = {}
        self._arrays: list[np.ndarray[Any, Any]] = []  # alive, so that two of them have two ids
        self.size = 0

    def weight(self, weight: Weight) -> int:
        """The number of a constant; the same for the same content."""
        found = self._numbers.get(weight.key)
        if found is not None:
            return found
        number = self._numbers[weight.key] = len(self._rows)
        if isinstance(weight, MappedWeight) and self._location_of is not None:
            where = [self._location_of(weight.file), weight.offset]
            self._rows.append([1, int(weight.data_type), list(weight.shape), *where])
        elif weight.data_type is DataType.STRING:
            values = weight.array().reshape(-1).tolist()
            self._rows.append([2, list(weight.shape), [_text(value) for value in values]])
        else:
            self._rows.append([])
            small = weight.nbytes <= _SMALL
            kin = self._small.setdefault((weight.data_type, weight.shape), []) if small else self._large
            kin.append((number, weight))
        return number

    def finish(self) -> tuple[dict[str, Any], list[Callable[[], Any]]]:
        """The description of all constants, and a function for each block that gives its bytes."""
        blocks: list[Callable[[], Any]] = []
        position = 0
        groups: list[list[Any]] = []
        for (data_type, shape), members in self._small.items():
            numbers = [number for number, _ in members]
            groups.append([int(data_type), list(shape), position, numbers])
            size = len(members) * array_bytes(shape, data_type)
            blocks.append(_stacked([weight for _, weight in members]))
            position += size + -size % ALIGNMENT
        for number, weight in self._large:
            content = weight.key if isinstance(weight, ArrayWeight) and weight.nbytes >= _SHARED_FROM else ""
            self._rows[number] = [0, int(weight.data_type), list(weight.shape), position, content]
            blocks.append(_bytes_of(weight))
            position += weight.nbytes + -weight.nbytes % ALIGNMENT
        self.size = position
        return {"rows": self._rows, "groups": groups}, blocks


def _text(value: Any) -> Any:
    return value if isinstance(value, str) else list(bytes(value))


def _stacked(weights: Sequence[Weight]) -> Callable[[], Any]:
    return lambda: memoryview(b"".join([_raw(weight.array()) for weight in weights]))


def _bytes_of(weight: Weight) -> Callable[[], Any]:
    return lambda: _raw(weight.array())


def _raw(array: np.ndarray[Any, Any]) -> Any:
    # Through uint8, because ml_dtypes' arrays have no buffer that memoryview understands.
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if array.size else b""


class ConstantReader:
    """The constants of one entry by number.

    Args:
        description: The result of `ConstantWriter.finish`.
        start: Position of the first block.
        external: Opens a file of external data by the model's name for it; raises what refuses it.
        store: Finds constants that are in memory already.
        origin: Identity of the model's own file; None for a model that is not in a file.
    """

    def __init__(
        self,
        description: dict[str, Any],
        file: MappedFile,
        start: int,
        external: Callable[[str], MappedFile],
        store: WeightStore,
        origin: FileIdentity | None = None,
    ) -> None:
        self._file, self._start = file, start
        self._external, self._store, self._origin = external, store, origin
        self.weights: list[Any] = [self._weight(row) for row in description["rows"]]
        for group in description["groups"]:
            numbers = group[3]
            made = self._group(group[0], group[1], group[2], len(numbers))
            for number, weight in zip(numbers, made, strict=True):
                self.weights[number] = weight

    def _weight(self, row: Sequence[Any]) -> Weight | None:
        if not row:
            return None  # in a group
        if row[0] == 2:
            _, shape, values = row
            texts = [value if isinstance(value, str) else bytes(value) for value in values]
            return self._store.strings(texts, tuple(shape))
        kind, number, dims, *where = row
        data_type, shape = DataType(number), tuple(dims)
        if kind == 1:
            location, offset = where
            return self._store.mapped(self._external(location), offset, data_type, shape)
        offset, content = where
        known = self._store.find(content) if content else None
        # What another copy of the model's file holds goes with that file.
        if known is not None and (known.source is None or known.source.identity == self._origin):
            return known
        return CachedWeight(self._file, self._start + offset, data_type, shape)

    def _group(self, number: int, dims: Sequence[int], offset: int, count: int) -> Iterator[Weight]:
        data_type, start = DataType(number), self._start + offset
        arrays = _view(self._file.buffer, start, data_type, (count, *dims))
        block = f"cache:{':'.join(map(str, self._file.identity))}:{start}"
        for index in range(count):
            # Indexing with an ellipsis gives an array also where the rows are scalars.
            yield SmallWeight(arrays[index, ...], data_type, (block, index))
