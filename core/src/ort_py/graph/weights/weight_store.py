"""The process-wide owner of constants: each is in memory once, however many sessions use it.

Sessions hold the weights; the store only knows them, by weak references, so the memory goes with the last session.
Usable from any thread and after a fork. Comes after `tensors` and `external_data`, which ask it for weights; kernels
and plans get them through `ir.Value.weight`.
"""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, BinaryIO
from weakref import WeakValueDictionary

import numpy as np

from ort_py.dtypes import DataType, data_type_of, numpy_dtype
from ort_py.files import FileIdentity
from ort_py.graph.weights.packed_forms import PackedForm, PackedKey
from ort_py.graph.weights.unpack import aligned_copy, frozen, unpack
from ort_py.graph.weights.weights import ArrayWeight, FilePart, MappedFile, MappedWeight, file_key
from ort_py.hashing import blake2b
from ort_py.lazy_dataclass import dataclass

_READ_LATER = 64 << 10
"""Bytes from which a constant in a model's file stays there until the first request: below, hashing costs less than
opening the file again."""


@dataclass(frozen=True, slots=True)
class WeightStats:
    """The content of a store, for all sessions together.

    Attributes:
        weights: Constants that some session uses.
        held_bytes: Memory of constants that were embedded in models.
        copied_bytes: Memory of constants that were copied out of files, being packed or misaligned there.
        mapped_bytes: Bytes of files used in place; the system takes and drops their pages as it likes.
        unread_bytes: Bytes of constants in files that have not been requested yet.
        packed_bytes: Memory of forms that kernels made of constants.
    """

    weights: int = 0
    files: int = 0
    held_bytes: int = 0
    copied_bytes: int = 0
    mapped_bytes: int = 0
    unread_bytes: int = 0
    packed_bytes: int = 0


class WeightStore:
    """Makes weights and finds those that are there already."""

    def __init__(self) -> None:
        self._arrays: WeakValueDictionary[str, ArrayWeight] = WeakValueDictionary()
        self._mapped: WeakValueDictionary[str, MappedWeight] = WeakValueDictionary()
        self._files: WeakValueDictionary[FileIdentity, MappedFile] = WeakValueDictionary()
        self._packed: WeakValueDictionary[PackedKey, PackedForm] = WeakValueDictionary()
        self._lock = threading.Lock()
        self._process = os.getpid()

    def _guard(self) -> threading.Lock:
        # A fork copies the lock in whatever state another thread had it, and that thread is not in the child.
        if self._process != os.getpid():
            self._lock = threading.Lock()
            self._process = os.getpid()
        return self._lock

    def embedded(
        self, raw: bytes | memoryview, data_type: DataType, shape: tuple[int, ...], source: FilePart | None = None
    ) -> ArrayWeight:
        """The constant whose bytes are in a model file.

        Args:
            raw: Exactly as many bytes as type and shape need, packed and little endian as in ``raw_data``.
            data_type: Element type; not a string.
            source: Place from which the bytes can be read again.

        Returns:
            A weight equal to every other made from the same bytes, type and shape; large ones that have a file are
            distinguished by their place in it and read at the first request, without a look at their content.
        """
        if source is not None and len(raw) >= _READ_LATER:
            key = file_key(source.identity, source.start, data_type, shape)
            placed = self._arrays.get(key) or self._keep(ArrayWeight(None, data_type, shape, key, source))
            placed.read_from(source)  # the newest: where an earlier model was may be gone, though it is the same file
            return placed
        key = _content_key(data_type, shape, (raw,))
        weight = self._arrays.get(key)
        if weight is None:
            weight = self._keep(ArrayWeight(unpack(raw, data_type, shape), data_type, shape, key, source))
        elif source is not None:
            weight.read_from(source)
        return weight

    def strings(self, values: Iterable[str | bytes], shape: tuple[int, ...]) -> ArrayWeight:
        """A constant of strings: an object array of str, or bytes if a value is not UTF-8."""
        array = np.empty(shape, object)
        array.reshape(-1)[:] = list(values)
        return self.add(array, own=True)

    def add(self, array: np.ndarray[Any, Any], *, own: bool = False, made_of: str = "") -> ArrayWeight:
        """A constant made in memory, by folding or packing.

        Args:
            array: Any dtype that ONNX has, in any layout and byte order.
            own: The array is fresh, contiguous and not referenced elsewhere: keep it rather than copy it.
            made_of: A text that identifies the content, so that the content need not be read.

        Raises:
            InvalidArgument: ONNX has no such element type.
        """
        data_type = data_type_of(array.dtype)
        dtype = numpy_dtype(data_type)
        if array.dtype != dtype:  # another byte order, or NumPy's own strings
            array, own = array.astype(dtype), not dtype.hasobject
        parts = [b"made of ", made_of.encode()] if made_of else _content(array)
        key = _content_key(data_type, array.shape, parts) + ("m" if made_of else "")
        found = self._arrays.get(key)
        if found is not None:
            return found
        return self._keep(ArrayWeight(frozen(array) if own else aligned_copy(array), data_type, array.shape, key))

    def _keep(self, weight: ArrayWeight) -> ArrayWeight:
        with self._guard():
            return self._arrays.setdefault(weight.key, weight)

    def file(self, opened: BinaryIO, path: str, identity: FileIdentity) -> MappedFile:
        """An open file, mapped; one mapping for all who open the same content. The caller closes `opened`.

        Raises:
            OSError: The system refuses to map it.
        """
        with self._guard():
            found = self._files.get(identity)
            if found is None:
                size = identity.size
                content = mmap.mmap(opened.fileno(), size, access=mmap.ACCESS_READ) if size else b""
                found = self._files[identity] = MappedFile(content, path, identity)
            return found

    def content(self, content: mmap.mmap | memoryview, identity: FileIdentity) -> MappedFile:
        """A file that is mapped already, or held as bytes; one for all who have the same content."""
        with self._guard():
            return self._files.setdefault(identity, MappedFile(content, "", identity))

    def mapped(self, file: MappedFile, offset: int, data_type: DataType, shape: tuple[int, ...]) -> MappedWeight:
        """The constant at a place of a file, which the caller has checked to lie inside it."""
        weight = MappedWeight(file, offset, data_type, shape)
        with self._guard():
            return self._mapped.setdefault(weight.key, weight)

    def find(self, key: str) -> ArrayWeight | None:
        """The constant in memory that has this content, or None."""
        return self._arrays.get(key)

    def packed(self, key: PackedKey, make: Callable[[], Any], arrays: Callable[[], Sequence[Any]]) -> PackedForm:
        """Return a form that a kernel makes of constants. It is made at the first request and kept while it is
        referenced.

        Args:
            arrays: The constants' own arrays: what the form shares with them is counted with them.
        """
        found = self._packed.get(key)
        if found is not None:
            return found
        made = PackedForm(key, make(), arrays())  # outside of the lock: it may take seconds
        with self._guard():
            return self._packed.setdefault(key, made)

    def trim(self) -> int:
        """Release constants that can be read from their file again; returns the bytes this gave back.

        Arrays that plans hold stay in memory until they go.
        """
        arrays, mapped = self._everything()
        return sum(weight.release() for weight in (*arrays, *mapped))

    def stats(self) -> WeightStats:
        """Statistics of the constants in memory."""
        arrays, mapped = self._everything()
        loaded = [weight for weight in mapped if weight.loaded]
        with self._guard():
            packed = list(self._packed.values())
        return WeightStats(
            weights=len(arrays) + len(mapped),
            files=len(self._files),
            held_bytes=sum(weight.nbytes for weight in arrays if weight.loaded),
            copied_bytes=sum(weight.nbytes for weight in loaded if not weight.in_place),
            mapped_bytes=sum(weight.nbytes for weight in loaded if weight.in_place),
            unread_bytes=sum(weight.length for weight in mapped if not weight.loaded),
            packed_bytes=sum(form.nbytes for form in packed),
        )

    def _everything(self) -> tuple[list[ArrayWeight], list[MappedWeight]]:
        with self._guard():
            return list(self._arrays.values()), list(self._mapped.values())


def _content_key(data_type: DataType, shape: tuple[int, ...], parts: Iterable[Any]) -> str:
    content = blake2b(_type_text(data_type, shape), digest_size=20)
    for part in parts:
        content.update(part)
    return content.hexdigest()


@lru_cache(maxsize=1024)
def _type_text(data_type: DataType, shape: tuple[int, ...]) -> bytes:
    return f"{data_type.onnx_name}{shape}".encode()


def _content(array: np.ndarray[Any, Any]) -> Iterable[Any]:
    """Buffers that tell this content from any other of the same type and shape."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if not array.dtype.hasobject:
        return (flat.view(np.uint8),)
    values = [(isinstance(value, bytes), value if isinstance(value, bytes) else str(value).encode()) for value in flat]
    # Kinds and lengths first, so that ("ab", "c") and ("a", "bc") differ, and str and bytes too.
    return (str([(kind, len(value)) for kind, value in values]).encode(), b"".join(value for _, value in values))


_PROCESS_STORE = WeightStore()


def process_store() -> WeightStore:
    """The store that all sessions of this process share."""
    return _PROCESS_STORE
