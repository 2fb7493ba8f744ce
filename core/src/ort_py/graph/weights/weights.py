"""Stored constants: in memory, or in a file that is mapped when it is first read.

Both kinds satisfy `ir.Weight`. What can be had again may be released: it then goes with the last plan that reads it,
and is the same array for all until then. It comes from its file, or from what a compiled region packed of it.
`weight_store` makes and shares them. It does not depend on protobuf; a session restored from a cache uses this without
importing onnx.
"""

from __future__ import annotations

import mmap
import weakref
from collections.abc import Callable
from typing import Any, BinaryIO, TypeAlias

import numpy as np

from ort_py.dtypes import DataType, nbytes_of, numpy_dtype
from ort_py.errors import Fail, Location
from ort_py.files import FileIdentity, open_regular
from ort_py.graph.weights.paging import forget_pages
from ort_py.graph.weights.unpack import aligned_empty, frozen, stored_as_is, unpack
from ort_py.light_tuple import NamedTuple
from ort_py.limits import array_bytes

Restore: TypeAlias = Callable[[], np.ndarray[Any, Any]]
"""Makes a tensor of another form of it."""


def file_prefix(identity: FileIdentity) -> str:
    """The beginning of the keys of all tensors in a file."""
    return f"file:{':'.join(map(str, identity))}:"


def file_key(identity: FileIdentity, offset: int, data_type: DataType, shape: tuple[int, ...]) -> str:
    return f"{file_prefix(identity)}{offset}:{data_type.onnx_name}:{'x'.join(map(str, shape))}"


class FilePart(NamedTuple):
    """Bytes of a file that is not kept open.

    Attributes:
        identity: Identity of the file when the bytes were first read.
    """

    path: str
    identity: FileIdentity
    start: int
    stop: int

    def read(self, data_type: DataType, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """The tensor that the bytes are.

        Raises:
            Fail: The file is not there any more, or is another one.
        """
        try:
            with open_regular(self.path) as file:
                self._expect_same(file)
                file.seek(self.start)
                if stored_as_is(data_type):
                    array = aligned_empty(shape, numpy_dtype(data_type))
                    _fill(file, array.reshape(-1).view(np.uint8).data)
                    self._expect_same(file)
                    return frozen(array)
                content = bytearray(self.stop - self.start)
                _fill(file, memoryview(content))
                self._expect_same(file)
        except OSError as error:
            raise Fail(
                "A constant cannot be read from the model's file again.",
                where=Location(file=self.path),
                why=f"the session was created from this file, and {error}",
                fix="Do not change a model's file while sessions use it, or create the session again.",
            ) from error
        return unpack(memoryview(content), data_type, shape)

    def _expect_same(self, file: BinaryIO) -> None:
        """Check the file, before and after reading: it may be written while the bytes are read."""
        found = FileIdentity.of_open(file)
        if found == self.identity:
            return
        if found[:-1] == self.identity[:-1]:
            raise OSError("its status has changed since then, so its content may have changed too")
        raise OSError("it has been written or replaced since then")


def _fill(file: BinaryIO, target: memoryview) -> None:
    """Read until a buffer is full: one call reads 2 GiB at most."""
    while target:
        count = file.readinto(target)  # type: ignore[attr-defined] # a BufferedReader has it
        if not count:
            raise OSError("it ends too early")
        target = target[count:]


def _distance(array: np.ndarray[Any, Any], owner: np.ndarray[Any, Any]) -> int:
    return int(array.ctypes.data - owner.ctypes.data)


class _Array:
    """An array that callers may hold: found again, without being kept, as long as any view of it is alive."""

    __slots__ = ("_dtype", "_owner", "_shape", "_start", "kept")

    def __init__(self, array: np.ndarray[Any, Any], *, keep: bool = True) -> None:
        self.kept: np.ndarray[Any, Any] | None = array if keep else None
        owner = array.base if isinstance(array.base, np.ndarray) else array
        # A view refers to the array that owns the memory, not to the view it was made of.
        self._owner = weakref.ref(owner)
        self._start = 0 if keep else _distance(array, owner)
        self._dtype, self._shape = array.dtype, array.shape

    def let_go(self) -> None:
        """Keep the array no longer."""
        array, owner = self.kept, self._owner()
        if array is not None and owner is not None:
            self._start = _distance(array, owner)  # looked up here: most arrays are kept to the end
        self.kept = None

    def found(self) -> np.ndarray[Any, Any] | None:
        """The array, or None if nothing refers to it any more."""
        kept = self.kept
        if kept is not None:
            return kept
        owner = self._owner()
        if owner is None or self._dtype.hasobject:
            return None  # strings have no source, so they are never let go of
        flat: np.ndarray[Any, Any] = owner.reshape(-1).view(np.uint8)
        size = int(np.prod(self._shape, dtype=np.int64)) * self._dtype.itemsize
        found: np.ndarray[Any, Any] = flat[self._start : self._start + size].view(self._dtype).reshape(self._shape)
        return found

    @property
    def alive(self) -> bool:
        """True if the memory is still there."""
        return self.kept is not None or self._owner() is not None


class _Loaded:
    """The common part of both kinds of constants: an array that is loaded, released, and loaded again."""

    __slots__ = ("__weakref__", "_loaded", "_released")

    def __init__(self, array: np.ndarray[Any, Any] | None = None) -> None:
        self._released = False
        # At most one entry. A dict, because its setdefault is atomic: two threads that load at once get one array.
        self._loaded: dict[None, _Array] = {} if array is None else {None: _Array(array)}

    @property
    def loaded(self) -> bool:
        """True if the array is in memory or mapped."""
        entry = self._loaded.get(None)
        return entry is not None and entry.alive

    def array(self) -> np.ndarray[Any, Any]:
        """The tensor; loaded where it is not, or not any more.

        Raises:
            Fail: The file it is read from has changed.
        """
        while True:
            entry = self._loaded.get(None)
            found = None if entry is None else entry.found()
            if found is not None:
                return found
            if entry is not None:
                self._loaded.pop(None, None)
            loaded = self._load()  # a name of its own: where nothing else keeps it, this does until it is returned
            entry = self._loaded.setdefault(None, _Array(loaded, keep=not self._released))
            found = entry.found()
            if found is not None:
                return found

    def release(self) -> int:
        """Leave the array to those who hold it; the next `array` finds it with them, or loads it for its caller.

        Returns:
            Bytes of memory this gave back: none where it is still held, cannot be loaded again, or is a file's pages.
        """
        if not self._releasable:
            return 0
        self._released = True
        entry = self._loaded.get(None)
        if entry is None or entry.kept is None:
            return 0
        size = self._own_bytes
        entry.let_go()
        return 0 if entry.alive else size

    @property
    def _releasable(self) -> bool:
        raise NotImplementedError

    @property
    def _own_bytes(self) -> int:
        raise NotImplementedError

    def _load(self) -> np.ndarray[Any, Any]:
        raise NotImplementedError


class _Keeper:
    """Shared by all potential readers of a constant: the array, or the function that restores it."""

    __slots__ = ("__weakref__", "content")

    def __init__(self, content: object) -> None:
        self.content = content


class ArrayWeight(_Loaded):
    """A constant in memory of its own. `WeightStore` makes it.

    Args:
        array: The tensor; None where `source` is read at the first request.

    Attributes:
        source: Place from which it can be read again, None for none.
    """

    __slots__ = ("_keeper", "_key", "_restore", "data_type", "nbytes", "shape", "source")

    def __init__(
        self,
        array: np.ndarray[Any, Any] | None,
        data_type: DataType,
        shape: tuple[int, ...],
        key: str,
        source: FilePart | None = None,
    ) -> None:
        super().__init__(array)
        self._key = key
        self._restore: Callable[[], Restore | None] | None = None
        self._keeper: weakref.ref[_Keeper] | None = None
        self.data_type = data_type
        self.nbytes = array_bytes(shape, data_type) if array is None else int(array.nbytes)
        self.shape = shape
        self.source = source

    @property
    def key(self) -> str:
        """Type, shape and place in a file, or a hash of type, shape and content."""
        return self._key

    def read_from(self, source: FilePart) -> None:
        """Note a newer file that has the same content: what an earlier model was read from may be gone."""
        if self.source is None:
            self._restore = None  # the form need not be kept for this any more
        self.source = source

    def replace(self, restore: Restore | None) -> int:
        """Release the array, because another form of it exists.

        Args:
            restore: Rebuilds the tensor from that form. Without a file it is kept, together with the form; else it is
                used as long as it is referenced elsewhere. None if the form cannot be converted back.

        Returns:
            Bytes of memory this gave back, as `release` says.
        """
        if restore is not None and self.data_type is not DataType.STRING:
            self._restore = (lambda: restore) if self.source is None else weakref.ref(restore)
            keeper = self._keeper() if self._keeper is not None else None
            if keeper is not None:
                keeper.content = restore  # those who hold the array have this in its place
        return self.release()

    def held(self) -> object:
        """An object that lets `array` answer without a file as long as it is kept."""
        keeper = self._keeper() if self._keeper is not None else None
        if keeper is None:
            restore = self._restore() if self._restore is not None and not self.loaded else None
            keeper = _Keeper(self.array() if restore is None else restore)
            self._keeper = weakref.ref(keeper)
        return keeper

    @property
    def in_place(self) -> bool:
        """Never a file's own pages."""
        return False

    @property
    def _releasable(self) -> bool:
        return self.source is not None or self._restore is not None

    @property
    def _own_bytes(self) -> int:
        return self.nbytes

    def _load(self) -> np.ndarray[Any, Any]:
        restore = self._restore() if self._restore is not None else None
        if restore is None:
            assert self.source is not None, "only constants that can be restored are released"
            return self.source.read(self.data_type, self.shape)
        found = restore()
        if (found.dtype, found.shape) != (numpy_dtype(self.data_type), self.shape):
            raise Fail(
                "A packed constant cannot be restored to its original form.",
                why=(
                    f"its region restores {found.dtype}{list(found.shape)} instead of "
                    f"{numpy_dtype(self.data_type)}{list(self.shape)}"
                ),
                fix="Report this to the author of the provider that compiled the region.",
            )
        return frozen(found)

    def __repr__(self) -> str:
        return f"ArrayWeight({self.data_type.onnx_name}, {self.shape})"


class MappedFile:
    """One file, or a part of one, mapped read-only; pages come when they are read and go when memory is short.

    The mapping lives as long as an array refers to it. If the file is truncated while it is mapped, reading a missing
    page ends the process: users who may write to the model's folder must be trusted that far.

    Attributes:
        buffer: Its content, as mapped, or bytes that somebody holds.
        path: Path that it was opened by, for messages and for models that refer to it.
    """

    __slots__ = ("__weakref__", "buffer", "identity", "path")

    def __init__(self, buffer: mmap.mmap | memoryview | bytes, path: str, identity: FileIdentity) -> None:
        self.buffer = buffer
        self.path = path
        self.identity = identity


class MappedWeight(_Loaded):
    """A constant in a file, read when `array` is first called."""

    __slots__ = ("data_type", "file", "offset", "shape")

    def __init__(self, file: MappedFile, offset: int, data_type: DataType, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.file = file
        self.offset = offset
        self.data_type = data_type
        self.shape = shape

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
        """True if the array is the file's own pages: the bytes are as in memory, and aligned for the type."""
        return stored_as_is(self.data_type) and self.offset % numpy_dtype(self.data_type).alignment == 0

    @property
    def key(self) -> str:
        """File, place, type and shape."""
        return file_key(self.file.identity, self.offset, self.data_type, self.shape)

    def forget_pages(self) -> None:
        """Drop the file's pages from this process, if the array uses them. A later read brings them back."""
        if self.in_place:
            forget_pages(memoryview(self.file.buffer), self.offset, self.offset + self.length)

    @property
    def _releasable(self) -> bool:
        return True

    @property
    def _own_bytes(self) -> int:
        return 0 if self.in_place else self.nbytes

    def _load(self) -> np.ndarray[Any, Any]:
        if not self.in_place:
            end = self.offset + self.length
            return unpack(memoryview(self.file.buffer)[self.offset : end], self.data_type, self.shape)
        dtype = numpy_dtype(self.data_type)
        count = self.length // dtype.itemsize
        if not count:
            return frozen(np.empty(self.shape, dtype))
        return np.frombuffer(self.file.buffer, dtype, count, self.offset).reshape(self.shape)

    def __repr__(self) -> str:
        return f"MappedWeight({self.data_type.onnx_name}, {self.shape}, {self.file.path!r} at {self.offset})"
