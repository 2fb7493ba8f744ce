"""Compiled kernels on disk, so that a process compiles what no process of this user compiled before.

A file's name is a hash of everything its content depends on; its content starts with a hash of the rest. Files appear
whole and are never changed, so processes need no lock. The content is run on the device, so a folder or a file that
others could write to is not used. A disk that is full, read-only or gone is not an error. Does not depend on a
compiler.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import stat
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from ort_py.files import open_regular

__all__ = ["CAPACITY", "CodeCache", "code_key", "default_folder", "session_cache"]

_logger = logging.getLogger("ort_py_cuda.code")

CAPACITY = 256 << 20
"""Bytes that the files may take together; a kernel takes some ten thousand."""

_MAGIC = b"ort-py code 1\n"
_DIGEST = 32
_SUFFIX = ".code"


def code_key(parts: Iterable[str]) -> str:
    """The name of what depends on these texts: source, options, architecture, version of the compiler."""
    digest = hashlib.blake2b(digest_size=20)
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def default_folder(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The folder of the files. ``ORT_PY_CACHE`` is a folder, unset, or ``off``, which gives None.

    Its meaning is that of the session's own cache, whose files lie beside.
    """
    wanted = environment.get("ORT_PY_CACHE", "").strip()
    if wanted.lower() in ("off", "0"):
        return None
    if wanted:
        return Path(wanted) / "cuda"
    try:
        if sys.platform == "win32":
            local = environment.get("LOCALAPPDATA")
            return (Path(local) if local else Path.home() / "AppData" / "Local") / "ort-py" / "cuda"
        given = environment.get("XDG_CACHE_HOME", "")
        # The XDG specification: a path that is not absolute is to be ignored.
        return (Path(given) if Path(given).is_absolute() else Path.home() / ".cache") / "ort-py" / "cuda"
    except RuntimeError:  # there is no home
        return None


def session_cache(folder: str | None, *, keeps: bool) -> CodeCache:
    """The cache of a session.

    Args:
        folder: What the session names for all that is compiled; None where it names none, which leaves it to the
            environment.
        keeps: Whether it keeps anything on disk.
    """
    if not keeps:
        return CodeCache(None)
    return CodeCache(default_folder() if folder is None else Path(folder) / "cuda")


class CodeCache:
    """The files of one folder.

    Args:
        folder: Made on first use, for its owner alone; None for a cache that keeps nothing.
        capacity: Bytes the files may take.
    """

    def __init__(self, folder: Path | None, capacity: int = CAPACITY) -> None:
        self.folder = folder
        self._capacity = capacity
        self._usable: bool | None = None

    def get(self, key: str) -> bytes | None:
        """Return the content of a key, or None if it is missing, damaged or not exclusively ours."""
        if not self.usable:
            return None
        path = self._path(key)
        try:
            file = open_regular(path, links=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            _logger.warning("%s was ignored: %s", path, error)
            return None
        with file:
            found = os.fstat(file.fileno())
            if _open_to_others(found) or found.st_size > self._capacity:
                _logger.warning("%s was ignored: others can write to it, or it is larger than the cache", path)
                return None
            content = file.read()
        body = content[len(_MAGIC) + _DIGEST :]
        if content[: len(_MAGIC)] != _MAGIC or hashlib.sha256(body).digest() != content[len(_MAGIC) :][:_DIGEST]:
            _logger.warning("%s is damaged and was ignored", path)
            return None
        return body

    def put(self, key: str, body: bytes) -> bool:
        """Keep bytes under a key; whether they are kept now."""
        if not self.usable or self.folder is None or len(body) > self._capacity:
            return False
        name = ""
        try:
            handle, name = tempfile.mkstemp(".part", dir=self.folder)
            with os.fdopen(handle, "wb") as file:
                file.write(_MAGIC + hashlib.sha256(body).digest() + body)
            Path(name).replace(self._path(key))
        except OSError as error:
            _logger.warning("a compiled kernel was not cached: %s", error)
            return False
        finally:
            if name:
                with contextlib.suppress(OSError):
                    Path(name).unlink()  # not there any more where all went well
        self._prune()
        return True

    @property
    def usable(self) -> bool:
        """True if the folder is there or could be made, and is private; looked at once."""
        if self._usable is None:
            self._usable = self.folder is not None and _made_private(self.folder)
        return self._usable

    def _path(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{key}{_SUFFIX}"

    def _prune(self) -> None:
        """Remove the files written first until the rest fits."""
        assert self.folder is not None
        found: list[tuple[float, int, Path]] = []
        with contextlib.suppress(OSError):
            for path in self.folder.glob(f"*{_SUFFIX}"):
                with contextlib.suppress(OSError):
                    status = path.stat()
                    found.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= self._capacity:
                return
            with contextlib.suppress(OSError):
                path.unlink()
                total -= size


def _made_private(folder: Path) -> bool:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError as error:
        _logger.warning("compiled kernels are not cached: %s", error)
        return False
    if _open_to_others(found):
        _logger.warning("compiled kernels are not cached: %s can be written by others", folder)
        return False
    return True


def _open_to_others(found: os.stat_result) -> bool:
    owner = getattr(os, "getuid", None)  # POSIX only; elsewhere the user's profile folder is private
    return owner is not None and (found.st_uid != owner() or bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)))
