"""Packed forms of constants, kept beside a prepared model: weights in the layout that a provider's code reads.

A restored session makes such forms in its first run. They are written when the session closes or its process ends, and
the next process maps them. Each form has a checksum of its own, which is compared when the form is used, because most
of a file may never be needed. A damaged form is made again. This module does not depend on providers or layouts: the
name of a form says all that it depends on.
"""

from __future__ import annotations

import atexit
import json
import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ort_py.cache.format import ALIGNMENT, checksum_of, description_of
from ort_py.cache.store import FileStore
from ort_py.graph.weights.packed_forms import PackedForm, PackedKey
from ort_py.lazy_dataclass import dataclass
from ort_py.logs import lazy_logger
from ort_py.platform.forks import ProcessLock

_logger = lazy_logger("ort_py.cache")

_KIND = "packed"
_LEAST_BYTES = 64 << 10
"""Fewer new bytes than this take less time to make than to write."""
_MOST_BYTES = 256 << 20
"""Larger files are not written: a process would end noticeably later."""
_TYPES = frozenset("biuf")
"""Kinds of NumPy's types whose names NumPy itself understands."""


@dataclass(frozen=True, slots=True)
class _Row:
    """Place of a form in the file.

    Attributes:
        offset: Bytes behind the first block.
        dtype: NumPy's name of the element type.
        checksum: Checksum of its bytes.
    """

    offset: int
    dtype: str
    shape: tuple[int, ...]
    checksum: int


class KeptForms:
    """The packed forms of one prepared model.

    Args:
        entry: Identity of the prepared model's file, which the keys of its constants contain. Forms that were made of
            another file under the same key are not used and not kept any longer.
        names: What to write in place of how the keys of constants begin that are in other files: an identity is of one
            copy of a file, and forms are of its content.
        any_size: Whether forms are also written that are so few, or so many, that a process had better not.
    """

    def __init__(
        self,
        store: FileStore,
        key: str,
        title: str,
        entry: str,
        names: Mapping[str, str] | None = None,
        *,
        any_size: bool = False,
    ) -> None:
        self._store = store
        self._key = key
        self._title = title
        self._entry = entry
        self._names = dict(names or {})
        self._any_size = any_size
        self._rows: Mapping[PackedKey, _Row] | None = None
        self._content: Any = b""
        self._start = 0
        self._fresh: dict[PackedKey, weakref.ref[PackedForm]] = {}
        self._lock = ProcessLock()

    def find(self, key: PackedKey) -> np.ndarray[Any, Any] | None:
        """The form as a read-only array in the file's pages, or None if it is not kept or is damaged."""
        with self._lock.held():
            if self._rows is None:
                self._rows = self._read()
            row = self._rows.get(self._named(key))
        if row is None:
            return None
        array = self._array(row)
        if _checksum(array) != row.checksum:
            self._store.report_damage(self._key, _KIND, "a form was changed after it was written")
            self._store.discard(self._key, _KIND)
            with self._lock.held():
                self._rows = {}
            return None
        return array

    def note(self, form: PackedForm) -> None:
        """Remember a form that was made because it was not kept. It is not kept alive for that."""
        value = form.value
        if isinstance(value, np.ndarray) and value.dtype.kind in _TYPES and value.size and value.flags.c_contiguous:
            with self._lock.held():
                self._fresh[form.key] = weakref.ref(form)
            _unwritten.add(self)

    def writer(self) -> Callable[[], None] | None:
        """Return a function that writes what was noted and is still there, or None if that is not worth a file."""
        with self._lock.held():
            fresh = [form for reference in self._fresh.values() if (form := reference()) is not None]
            self._fresh = {}
        _unwritten.discard(self)
        if sum(form.value.nbytes for form in fresh) < (1 if self._any_size else _LEAST_BYTES):
            return None
        return lambda: self._write(fresh)

    def _write(self, fresh: Sequence[PackedForm]) -> None:
        # A form that was not used has not been compared: with its old checksum, damage stays visible.
        forms = {key: (self._array(row), row.checksum) for key, row in (self._rows or {}).items()}
        forms |= {self._named(form.key): (form.value, _checksum(form.value)) for form in fresh}
        rows: list[list[Any]] = []
        position = 0
        for key, (array, checksum) in forms.items():
            rows.append([key.form, list(key.weights), position, array.dtype.str, list(array.shape), checksum])
            position += array.nbytes + -array.nbytes % ALIGNMENT
        if position > _MOST_BYTES and not self._any_size:
            _logger.info("the packed forms of %s are not cached: they take %d bytes", self._title, position)
            return
        head = {"title": f"weights of {self._title}", "nodes": None, "providers": None, "entry": self._entry}
        lines = [json.dumps(part, separators=(",", ":")).encode() for part in (head, rows)]
        blocks = (_bytes(array) for array, _ in forms.values())
        self._store.put(self._key, _KIND, b"\n".join(lines), blocks, position)

    def _read(self) -> Mapping[PackedKey, _Row]:
        content = self._store.mapped(self._key, _KIND)
        if content is None:
            return {}
        try:
            description, self._start = description_of(content)
            head, listed = (json.loads(line) for line in description.split(b"\n", 1))
            if head["entry"] != self._entry:
                return {}
            rows = {PackedKey(form, tuple(weights)): _row(*rest) for form, weights, *rest in listed}
            size = len(content) - self._start
            if any(row.offset < 0 or row.offset + _nbytes(row) > size for row in rows.values()):
                raise ValueError("a form lies outside of the file")
        except (ValueError, TypeError, KeyError) as error:
            self._store.report_damage(self._key, _KIND, str(error))
            content = None  # Windows removes no file that is mapped
            self._store.discard(self._key, _KIND)
            return {}
        self._content = content
        return rows

    def _named(self, key: PackedKey) -> PackedKey:
        if not self._names:
            return key
        weights = []
        for weight in key.weights:
            prefix = next((prefix for prefix in self._names if weight.startswith(prefix)), "")
            weights.append(self._names[prefix] + weight[len(prefix) :] if prefix else weight)
        return PackedKey(key.form, tuple(weights))

    def _array(self, row: _Row) -> np.ndarray[Any, Any]:
        count, place = math.prod(row.shape), self._start + row.offset
        return np.frombuffer(self._content, row.dtype, count, place).reshape(row.shape)


def _row(offset: int, dtype: str, shape: Sequence[int], checksum: int) -> _Row:
    if np.dtype(dtype).kind not in _TYPES or any(type(size) is not int or size < 1 for size in (*shape, offset + 1)):
        raise ValueError("a form has no valid type or shape")
    return _Row(offset, dtype, tuple(shape), checksum)


def _bytes(array: np.ndarray[Any, Any]) -> Any:
    return array.reshape(-1).view(np.uint8).data


def _checksum(array: np.ndarray[Any, Any]) -> int:
    return checksum_of(_bytes(array))


def _nbytes(row: _Row) -> int:
    return np.dtype(row.dtype).itemsize * math.prod(row.shape)


_unwritten: weakref.WeakSet[KeptForms] = weakref.WeakSet()
"""Those with forms that no file has yet."""


@atexit.register
def write_at_exit() -> None:
    """Write what sessions have noted that are still open when the process ends."""
    for one in list(_unwritten):
        write = one.writer()
        if write is not None:
            write()
