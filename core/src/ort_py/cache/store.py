"""Files under keys in one folder: private to its user, written atomically, checked, evicted when there are too many.

The store does not interpret the files: prepared models and compiled artifacts share the folder, its rules and its size.
A damaged or foreign file is a miss, never an error; so is a disk that is full. Several processes may read, write and
evict at once without a lock: a file appears whole, is never changed, and stays readable while it is open.

What a cache gives back is run, so a folder that others could write to is not used at all.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from ort_py.cache.format import HEAD_BYTES, damage_of_description, read_checked, write_file
from ort_py.files import open_regular
from ort_py.lazy_dataclass import dataclass
from ort_py.logs import lazy_logger

if TYPE_CHECKING:
    from pathlib import Path

_logger = lazy_logger("ort_py.cache")

SUFFIXES = (".model", ".packed", ".artifact", ".placement", ".rates", ".digest", ".files")
_TEMPORARY = ".part"
_ABANDONED_SECONDS = 3600.0
"""After this a file that is still being written is taken for one whose writer died."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file of the cache.

    Attributes:
        path: Path of the file; its name is the key.
        kind: ``model``, ``packed`` (weights of a model as its regions read them), ``artifact``, ``placement`` (measured
            for a model), ``rates`` (measured of a provider), ``digest`` (of a file's content) or ``files`` (names of a
            model's files of external data).
        written: Seconds since 1970.
        used: Seconds since 1970 when it was last read, or written.
    """

    path: Path
    kind: str
    size: int
    written: float
    used: float


class FileStore(Protocol):
    """The place of the cache's files: a folder, or one file that contains them all."""

    def mapped(self, key: str, kind: str) -> Any | None:
        """The content of a file, read-only, with the buffer protocol; its blocks are not checked. None if there is no
        such file, or its head or description is damaged."""

    def read(self, key: str, kind: str) -> Any | None:
        """The checked content of a file. None if there is no such file, or it is damaged."""

    def put(self, key: str, kind: str, description: bytes, blocks: Iterable[Any] = (), size: int = 0) -> bool:
        """Write a file, replacing the one of this key; returns whether it is there."""

    def report_damage(self, key: str, kind: str, wrong: str) -> None:
        """Log that a file is damaged."""

    def discard(self, key: str, kind: str) -> None:
        """Remove a file, where that is possible."""


class CacheStore:
    """The files of one folder.

    Args:
        folder: Made on first use, readable by its owner only.
        capacity: Bytes its files may take together.
        self_contained: Whether the files will leave this machine: a prepared model then holds the data of external
            files, too, and packed forms of any size are kept.

    Attributes:
        self_contained: As given.
    """

    def __init__(self, folder: str | os.PathLike[str], capacity: int, *, self_contained: bool = False) -> None:
        self._folder = os.fspath(folder)  # a text: importing pathlib takes as long as restoring a small model
        self.self_contained = self_contained
        self._capacity = capacity
        self._usable: bool | None = None

    @property
    def folder(self) -> Path:
        """The folder, as given."""
        from pathlib import Path

        return Path(self._folder)

    @property
    def exists(self) -> bool:
        """True if the folder is there."""
        return os.path.isdir(self._folder)

    def open(self, key: str, kind: str) -> BinaryIO | None:
        """Open a file for reading. Returns None if it does not exist or another user may have written it.

        Its content is not checked: see `format.damage`.
        """
        if not self.usable:
            return None
        path = self._path(key, kind)
        try:
            opened = open_regular(path, links=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            _logger.warning("%s was ignored: %s", path, error)
            return None
        found = os.fstat(opened.fileno())
        wrong = "others can write to it" if _open_to_others(found) else self._too_large(found.st_size)
        if wrong:
            opened.close()
            _logger.warning("%s was ignored: %s", path, wrong)
            return None
        with contextlib.suppress(OSError):
            os.utime(path, ns=(time.time_ns(), found.st_mtime_ns))  # most file systems note reading a day late or never
        return opened

    def mapped(self, key: str, kind: str) -> Any | None:
        """Map a file. Returns None if it does not exist, or its head or description is damaged: then it goes."""
        opened = self.open(key, kind)
        if opened is None:
            return None
        content = None
        try:
            with opened:
                content = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
            wrong = damage_of_description(content)
        except (OSError, ValueError) as error:  # an empty file cannot be mapped
            wrong = str(error)
        if wrong:
            content = None  # Windows removes no file that is mapped
            self.report_damage(key, kind, wrong)
            self.discard(key, kind)
            return None
        return content

    def read(self, key: str, kind: str) -> bytes | None:
        """Read the whole content of a file. Returns None if it does not exist or is damaged."""
        opened = self.open(key, kind)
        if opened is None:
            return None
        try:
            with opened:
                content, wrong = read_checked(opened)
        except OSError:
            return None
        if wrong:
            self.report_damage(key, kind, wrong)
            return None
        return content

    def report_damage(self, key: str, kind: str, wrong: str) -> None:
        """Log that a file is damaged; it is written again in time."""
        _logger.warning("the cached %s %s is damaged and was ignored: %s", kind, key, wrong)

    def put(self, key: str, kind: str, description: bytes, blocks: Iterable[Any] = (), size: int = 0) -> bool:
        """Write a file, replacing the one of this key; returns whether it is there.

        Args:
            size: Bytes of the blocks, as far as known: what is larger than the cache is not written.
        """
        if not self.usable:
            return False
        if HEAD_BYTES + len(description) + size > self._capacity:
            _logger.info("the %s %s is not cached: it is larger than the cache", kind, key)
            return False
        name = ""
        try:
            import tempfile  # loads modules for archives: only writing needs it

            handle, name = tempfile.mkstemp(_TEMPORARY, dir=self._folder)
            with os.fdopen(handle, "wb") as file:
                write_file(file, description, blocks)
            try:
                os.replace(name, self._path(key, kind))
            except PermissionError:  # on Windows, somebody reads or writes the one that is there
                if sys.platform != "win32" or not os.path.exists(self._path(key, kind)):
                    raise
                _logger.info("the %s %s in use was not replaced", kind, key)
        except OSError as error:
            _logger.warning("the %s %s was not cached: %s", kind, key, error)
            return False
        finally:
            if name:
                with contextlib.suppress(OSError):
                    os.unlink(name)  # not there any more where all went well
        self.prune(self._capacity)
        return True

    def discard(self, key: str, kind: str) -> None:
        """Remove a file, where that is possible."""
        with contextlib.suppress(OSError):
            os.unlink(self._path(key, kind))

    def files(self) -> list[StoredFile]:
        """The files, most recently used first."""
        found = [self._stored(entry) for entry in self._entries()]
        return sorted((one for one in found if one is not None), key=lambda one: (-one.used, one.path.name))

    def prune(self, capacity: int, *, unused_seconds: float | None = None) -> list[StoredFile]:
        """Remove the files used longest ago until the rest fits, and what dead writers left behind.

        Args:
            capacity: Bytes that may stay.
            unused_seconds: Also remove what was not used for so long.

        Returns:
            What was removed.
        """
        now = time.time()
        for entry in self._entries():
            with contextlib.suppress(OSError):
                if entry.name.endswith(_TEMPORARY) and now - entry.stat().st_mtime > _ABANDONED_SECONDS:
                    os.unlink(entry.path)
        removed: list[StoredFile] = []
        total = 0
        for one in self.files():
            total += one.size
            if total <= capacity and (unused_seconds is None or now - one.used <= unused_seconds):
                continue
            with contextlib.suppress(OSError):  # Windows keeps mapped files
                one.path.unlink()
                removed.append(one)
                total -= one.size
        return removed

    def verify(self) -> Iterator[tuple[StoredFile, str]]:
        """Every file with what is wrong with it, ``""`` where nothing is."""
        for one in self.files():
            try:
                with open_regular(one.path, links=False) as opened:
                    yield one, self._too_large(one.size) or read_checked(opened)[1]
            except OSError as error:
                yield one, str(error)

    @property
    def usable(self) -> bool:
        """True if the folder exists or could be made, and is private. The check happens once."""
        if self._usable is None:
            self._usable = self._make_private()
        return self._usable

    def _too_large(self, size: int) -> str:
        """Explain why a file is not worth reading: a sparse one takes no space on the disk, but as long to read as
        any.
        """
        return f"it has {size} bytes, more than the whole cache may have" if size > self._capacity else ""

    def _make_private(self) -> bool:
        try:
            found = _status(self._folder)
            if found is None or not stat.S_ISDIR(found.st_mode):
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                found = os.stat(self._folder)
        except OSError as error:
            return _say_once(f"no compile cache: {error}")
        if _open_to_others(found):
            return _say_once(f"no compile cache: {self._folder} can be written by others")
        return True

    def _path(self, key: str, kind: str) -> str:
        return os.path.join(self._folder, f"{key}.{kind}")

    def _entries(self) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(self._folder) as entries:
                return list(entries)
        except OSError:
            return []

    @staticmethod
    def _stored(entry: os.DirEntry[str]) -> StoredFile | None:
        suffix = os.path.splitext(entry.name)[1]
        try:
            found = entry.stat(follow_symlinks=False)
        except OSError:  # removed meanwhile
            return None
        if suffix not in SUFFIXES or not stat.S_ISREG(found.st_mode):
            return None
        used = max(found.st_atime, found.st_mtime)
        from pathlib import Path

        return StoredFile(Path(entry.path), suffix[1:], found.st_size, found.st_mtime, used)


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


_said: set[str] = set()


def _say_once(text: str) -> bool:
    """Log once, not for every session, why there is no cache. Returns False."""
    if text not in _said:
        _said.add(text)
        _logger.warning(text)
    return False


def _open_to_others(found: os.stat_result) -> bool:
    owner = getattr(os, "getuid", None)  # POSIX only; elsewhere the user's profile folder is private
    return owner is not None and (found.st_uid != owner() or bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)))
