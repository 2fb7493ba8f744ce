"""A folder of compiled artifacts: content-addressed, checksummed, written atomically, private to its user.

Artifacts are code, so a folder that others could write to is not used at all. A damaged or foreign entry is a miss,
never an error. Nothing is ever unpickled.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path

__all__ = ["ArtifactCache", "artifact_key"]

_logger = logging.getLogger("ort_py.cache")
_MAGIC = b"ort-py artifact 1\n"


def artifact_key(parts: Iterable[str | bytes]) -> str:
    """A key over everything an artifact depends on: model, provider, versions, device, options, shapes."""
    digest = hashlib.blake2b(digest_size=20)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


class ArtifactCache:
    """Artifacts below one folder.

    Args:
        folder: Made on first use, readable by its owner only.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._usable: bool | None = None

    def get(self, key: str) -> bytes | None:
        """An artifact, None where there is none or it is damaged."""
        if not self._private():
            return None
        try:
            content = self._path(key).read_bytes()
        except OSError:
            return None
        head, checksum, body = content[: len(_MAGIC)], content[len(_MAGIC) :][:32], content[len(_MAGIC) + 32 :]
        if head != _MAGIC or hashlib.blake2b(body, digest_size=32).digest() != checksum:
            _logger.warning("the cached artifact %s is damaged and was ignored", key)
            return None
        return body

    def put(self, key: str, artifact: bytes) -> bool:
        """Store an artifact; returns whether it is stored. A full or read-only disk is no error."""
        if not self._private():
            return False
        checksum = hashlib.blake2b(artifact, digest_size=32).digest()
        try:
            handle, name = tempfile.mkstemp(dir=self._folder)
        except OSError as error:
            _logger.warning("the artifact %s was not cached: %s", key, error)
            return False
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_MAGIC + checksum + artifact)
            Path(name).replace(self._path(key))
        except OSError as error:
            _logger.warning("the artifact %s was not cached: %s", key, error)
            with contextlib.suppress(OSError):
                Path(name).unlink()
            return False
        return True

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.artifact"

    def _private(self) -> bool:
        if self._usable is None:
            self._usable = self._make_private()
        return self._usable

    def _make_private(self) -> bool:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = self._folder.stat()
        except OSError as error:
            _logger.warning("no compile cache: %s", error)
            return False
        owner = getattr(os, "getuid", None)  # POSIX only; elsewhere the user's profile folder is private
        if owner is not None and (found.st_uid != owner() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
            _logger.warning("no compile cache: %s can be written by others", self._folder)
            return False
        return True
