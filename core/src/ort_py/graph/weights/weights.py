"""Constants that somebody stores: in memory, or in a file that is mapped when it is first read.

Both kinds satisfy `ir.Weight`. `weight_store` makes and shares them. Knows nothing of protobuf; a session restored
from a cache uses this without importing onnx.
"""

from __future__ import annotations

import mmap
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ort_py.dtypes import DataType, nbytes_of, numpy_dtype
from ort_py.graph.weights.unpack import frozen, stored_as_is, unpack
from ort_py.limits import array_bytes

__all__ = ["ArrayWeight", "FileIdentity", "MappedFile", "MappedWeight"]


class FileIdentity(NamedTuple):
    """What makes an open file the same file with the same content, as far as the system tells."""

    device: int
    inode: int
    size: int
    mtime_ns: int


class ArrayWeight:
    """A constant in memory of its own. `WeightStore.add` makes it."""

    __slots__ = ("__weakref__", "_array", "_key", "data_type", "shape")

    def __init__(self, array: np.ndarray[Any, Any], data_type: DataType, key: str) -> None:
        self._array = array
        self._key = key
        self.data_type = data_type
        self.shape: tuple[int, ...] = array.shape

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return int(self._array.nbytes)

    @property
    def key(self) -> str:
        """Hash of type, shape and content."""
        return self._key

    def array(self) -> np.ndarray[Any, Any]:
        """The tensor."""
        return self._array

    def __repr__(self) -> str:
        return f"ArrayWeight({self.data_type.onnx_name}, {self.shape})"


class MappedFile:
    """One file mapped read-only as a whole; pages come when they are read and go when memory is short.

    The mapping lives as long as an array refers to it. A file that somebody cuts short while it is mapped ends the
    process when a missing page is read: whoever may write to the model's folder must be trusted that far.

    Attributes:
        path: Where it was opened, for messages and for models that refer to it.
        identity: Which content it had then.
    """

    __slots__ = ("__weakref__", "buffer", "identity", "path")

    def __init__(self, file: BinaryIO, path: str, identity: FileIdentity) -> None:
        self.path = path
        self.identity = identity
        self.buffer: mmap.mmap | bytes = (
            mmap.mmap(file.fileno(), identity.size, access=mmap.ACCESS_READ) if identity.size else b""
        )


class MappedWeight:
    """A constant in a file, read when `array` is first called.

    Attributes:
        data_type: Element type.
        shape: Shape.
        file: The file.
        offset: Where the tensor starts in it.
    """

    __slots__ = ("__weakref__", "_loaded", "data_type", "file", "offset", "shape")

    def __init__(self, file: MappedFile, offset: int, data_type: DataType, shape: tuple[int, ...]) -> None:
        self.file = file
        self.offset = offset
        self.data_type = data_type
        self.shape = shape
        # At most one entry. A dict, because its setdefault is atomic: two threads that load at once get one array.
        self._loaded: dict[None, np.ndarray[Any, Any]] = {}

    @property
    def length(self) -> int:
        """Bytes it takes in the file."""
        return nbytes_of(self.data_type, self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes in memory once `array` was called; those of a mapped one are the file's pages."""
        return array_bytes(self.shape, self.data_type)

    @property
    def in_place(self) -> bool:
        """Whether the array is the file's own pages: the bytes are as in memory, and aligned for the type."""
        return stored_as_is(self.data_type) and self.offset % numpy_dtype(self.data_type).alignment == 0

    @property
    def loaded(self) -> bool:
        """Whether the array is in memory or mapped."""
        return bool(self._loaded)

    @property
    def key(self) -> str:
        """File, place, type and shape."""
        shape = "x".join(map(str, self.shape))
        file = ":".join(map(str, self.file.identity))
        return f"file:{file}:{self.offset}:{self.data_type.onnx_name}:{shape}"

    def array(self) -> np.ndarray[Any, Any]:
        """The tensor; maps or copies it the first time."""
        found = self._loaded.get(None)
        return found if found is not None else self._loaded.setdefault(None, self._load())

    def _load(self) -> np.ndarray[Any, Any]:
        if not self.in_place:
            end = self.offset + self.length
            return unpack(memoryview(self.file.buffer)[self.offset : end], self.data_type, self.shape)
        dtype = numpy_dtype(self.data_type)
        count = self.length // dtype.itemsize
        if not count:
            return frozen(np.empty(self.shape, dtype))
        return np.frombuffer(self.file.buffer, dtype, count, self.offset).reshape(self.shape)

    def release(self) -> int:
        """Forget the array; the next `array` reads it again. Returns the bytes of memory this gives back at most."""
        if self._loaded.pop(None, None) is None:
            return 0
        return 0 if self.in_place else self.nbytes

    def __repr__(self) -> str:
        return f"MappedWeight({self.data_type.onnx_name}, {self.shape}, {self.file.path!r} at {self.offset})"
