"""Opening a file below a folder with no way out of it, not even for a moment. The only module with POSIX-only calls.

Where the system has directory handles, every step from the folder to the file is opened relative to the handle of
the step before, and no step may be a link: whatever is swapped meanwhile, the opened file lies in the folder.
Elsewhere the real path is checked, the file opened, and the open file compared with what the path then names.

Links *inside* the folder are allowed, as are links to the folder in which the model really lies (model hubs keep links
beside each other that point to a folder of blobs): they are resolved first, and the resolved path is opened. A hard
link cannot be distinguished from a file; a user who can make one in the model's folder could copy the file as well.

It does not depend on models and messages: it raises `OSError`, and `EscapeError` for what leads outside.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from pathlib import Path

HAS_HANDLES = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW") and hasattr(os, "O_DIRECTORY")


class EscapeError(Exception):
    """The path leads outside the folders allowed; the text says where to."""


def open_confined(
    parts: Sequence[str], folders: Sequence[str | os.PathLike[str]], *, handles: bool = HAS_HANDLES
) -> BinaryIO:
    """Open a regular file for reading.

    Args:
        parts: Path of the file relative to the first folder; no part may be ``..``.
        folders: Folders that the file may really lie in. `parts` starts in the first one.

    Raises:
        EscapeError: A link leads outside, or something on the way changed while it was opened.
        OSError: The file does not exist, is not a regular file or may not be read.
    """
    from pathlib import Path  # importing it takes longer than reading most models, which have no external data

    real = Path(os.path.realpath(Path(folders[0], *parts), strict=True))
    for folder in folders:
        root = Path(os.path.realpath(folder))
        if real.is_relative_to(root):
            below = real.relative_to(root).parts
            return _by_handles(root, below) if handles else _by_comparison(root, real)
    raise EscapeError(f"it is a link to {str(real)!r}")


def _by_handles(root: Path, below: Sequence[str]) -> BinaryIO:
    """Walk from the root, one directory handle at a time, through nothing that is a link."""
    if not below:
        raise IsADirectoryError(f"{str(root)!r} is a folder")
    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in below[:-1]:
            inner = _step(part, os.O_DIRECTORY, handle)
            os.close(handle)
            handle = inner
        # Without O_NONBLOCK, opening a named pipe would wait for a writer.
        opened = _step(below[-1], os.O_NONBLOCK, handle)
    finally:
        os.close(handle)
    return _regular(opened)


def _step(part: str, flags: int, handle: int) -> int:
    try:
        return os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=handle)
    except OSError as error:
        # The path was free of links a moment ago; ELOOP and ENOTDIR say that it no longer is.
        if stat.S_ISLNK(os.lstat(part, dir_fd=handle).st_mode):
            raise EscapeError(f"'{part}' became a link while it was opened") from error
        raise


def _by_comparison(root: Path, real: Path) -> BinaryIO:
    """Open by path, then make sure that the open file is what a path inside the folder names."""
    if not stat.S_ISREG(real.stat().st_mode):
        raise OSError(f"{str(real)!r} is not a regular file")
    opened = os.open(real, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0))
    try:
        again = type(real)(os.path.realpath(real, strict=True))
        same = again.is_relative_to(root) and os.path.samestat(os.fstat(opened), os.lstat(again))
    except OSError:
        os.close(opened)
        raise
    if not same:
        os.close(opened)
        raise EscapeError(f"{str(real)!r} changed while it was opened")
    return _regular(opened)


def _regular(opened: int) -> BinaryIO:
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise OSError("it is not a regular file")
    return os.fdopen(opened, "rb")
