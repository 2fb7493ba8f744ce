"""Identities of files, and opening them without waiting. A leaf that knows nothing of models and caches.

Prepared models, shared sessions, pickled sessions and weights that are read later all know a file by `FileIdentity`;
nothing compares paths, sizes or times by itself.

The time of the last status change (*ctime*) is what makes the identity hold: a program that rewrites a file can set
its time of writing back, as ``os.utime``, ``rsync --inplace --times`` and ``touch --reference`` do, but no call of
POSIX sets the ctime. It also changes where the content does not, for instance by ``chmod`` or a new hard link. Windows
reports the time when the file was made instead: there, a file that was rewritten at the same size with its time of
writing set back is taken for the same file.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import time
from typing import BinaryIO

from ort_py.hashing import blake2b
from ort_py.light_tuple import NamedTuple

_RACY_NS = 2_000_000_000
"""Two seconds: the coarsest time of writing that a file system has."""

_READ_AT_ONCE = 4 << 20
_WINDOWS = sys.platform == "win32"


class FileIdentity(NamedTuple):
    """The attributes that identify a file and its content, as far as the operating system reports them.

    Attributes:
        device, inode: Number of the file, whatever path it is reached by.
        mtime_ns: When it was written last, in nanoseconds since 1970; programs can set it.
        ctime_ns: When its content or status changed last; on Windows, when it was made.
    """

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @staticmethod
    def of(status: os.stat_result) -> FileIdentity:
        """Identity from what the system says about a file."""
        last = status.st_ctime_ns
        if _WINDOWS:  # there, `os.fstat` and `os.stat` have different times at this place (python/cpython#157671)
            last = getattr(status, "st_birthtime_ns", last)
        return FileIdentity(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, last)

    @staticmethod
    def of_open(file: BinaryIO) -> FileIdentity:
        """Identity of an open file, whatever its path names meanwhile."""
        return FileIdentity.of(os.fstat(file.fileno()))

    @staticmethod
    def of_content(size: int, digest: bytes) -> FileIdentity:
        """The identity of a file all of whose content is checked each time: by a hash of it, wherever the file lies.

        Args:
            size: Its bytes.
            digest: The hash; at least 16 bytes.
        """
        first, second = (int.from_bytes(digest[at : at + 8], "little") for at in (0, 8))
        return FileIdentity(0, 0, size, first, second)

    def is_racy(self, looked_ns: int) -> bool:
        """Return whether the file could be rewritten without a change of its modification time.

        Args:
            looked_ns: When the identity was taken, in nanoseconds since 1970.
        """
        return looked_ns - max(self.mtime_ns, self.ctime_ns) < _RACY_NS


class FileSnapshot:
    """A file at a path as it was at one moment, for comparison with its later state.

    A file that was written moments before could be written again without a new time, so its content is remembered too,
    until it was found unchanged later than that.

    Args:
        identity: Its identity, where it is known from the descriptor that it was read by; else it is looked up.

    Raises:
        OSError: The file does not exist, and no identity was given.
        ValueError: The path contains a NUL.
    """

    __slots__ = ("_content", "identity", "path")

    def __init__(self, path: str, identity: FileIdentity | None = None) -> None:
        self.path = path
        self.identity = identity or FileIdentity.of(os.stat(path))
        self._content = b""
        if self.identity.is_racy(time.time_ns()):
            with contextlib.suppress(OSError):  # a missing file fails the later comparison
                self._content = _digest(path)

    def holds(self) -> bool:
        """Return whether the path still names this file with this content."""
        now = time.time_ns()
        try:
            if FileIdentity.of(os.stat(self.path)) != self.identity:
                return False
            if self._content:
                if _digest(self.path) != self._content:
                    return False
                if not self.identity.is_racy(now):
                    self._content = b""  # from here on, a change has another time
        except (OSError, ValueError):
            return False
        return True


def open_regular(path: str | os.PathLike[str], *, links: bool = True) -> BinaryIO:
    """Open a regular file for reading. Unlike `open`, it never waits for the writer of a named pipe.

    Args:
        links: Whether the path may be a symbolic link.

    Returns:
        The file, open for reading bytes.

    Raises:
        OSError: The file does not exist, it may not be read, or it is a directory, a device, a pipe or a socket.
        ValueError: The path contains a NUL.
    """
    # Asked before opening as well: opening a device or a pipe can affect its other end.
    _expect_regular(os.stat(path, follow_symlinks=links), path)
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
    handle = os.open(path, flags if links else flags | getattr(os, "O_NOFOLLOW", 0))
    try:
        _expect_regular(os.fstat(handle), path)
    except OSError:
        os.close(handle)
        raise
    return os.fdopen(handle, "rb")


def read_regular(path: str | os.PathLike[str]) -> bytes:
    """The content of a regular file.

    Raises:
        OSError: As for `open_regular`, or the file changed while it was being read.
        ValueError: The path contains a NUL.
    """
    with open_regular(path) as file:
        identity = FileIdentity.of_open(file)
        content = file.read(identity.size)
        if FileIdentity.of_open(file) != identity or len(content) != identity.size:
            raise OSError("it changed while it was being read")
    return content


def _expect_regular(status: os.stat_result, path: str | os.PathLike[str]) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(f"{os.fspath(path)!r} is a directory")
    if stat.S_ISLNK(status.st_mode):
        raise OSError("it is a symbolic link")
    if not stat.S_ISREG(status.st_mode):
        raise OSError("it is a device or a pipe, not a file")


def _digest(path: str) -> bytes:
    found = blake2b(digest_size=20)
    with open_regular(path) as file:
        while block := file.read(_READ_AT_ONCE):
            found.update(block)
    return found.digest()
