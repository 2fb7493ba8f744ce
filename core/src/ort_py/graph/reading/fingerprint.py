"""The hash that tells one model's bytes from another's. A leaf: sessions that load nothing ask for it too.

A file is hashed when somebody asks: a session does not need to know, and reading all of a large model takes longer than
making one.
"""

from __future__ import annotations

import os
from typing import Any

from ort_py.files import FileIdentity, open_regular
from ort_py.graph.weights.paging import forget_pages
from ort_py.hashing import blake2b

__all__ = ["ContentHash", "content_hash"]

_HASHED_AT_ONCE = 4 << 20
"""Bytes of a file that are in memory at once while it is hashed."""

_SMALL = 1 << 20
"""Largest file that is hashed at once for every caller, which takes a millisecond."""


def content_hash(content: Any) -> str:
    """Hash of a model's bytes: its fingerprint."""
    found = blake2b(digest_size=20)
    view = memoryview(content)
    for start in range(0, view.nbytes, _HASHED_AT_ONCE):
        stop = min(start + _HASHED_AT_ONCE, view.nbytes)
        found.update(view[start:stop])
        forget_pages(view, start, stop)
    return found.hexdigest()


class ContentHash:
    """The `content_hash` of a model. ``str()`` returns it and reads the file if it has not been hashed yet.

    Args:
        known: The hash, or ``""`` if it is unknown.
        identity: Identity of the expected content. If the file has changed, this identity distinguishes it from others.
    """

    __slots__ = ("_identity", "_known", "_path")

    def __init__(self, known: str = "", path: str = "", identity: FileIdentity | None = None) -> None:
        self._known = known
        self._path = path
        self._identity = identity

    @classmethod
    def of_file(cls, path: str, identity: FileIdentity, content: Any) -> ContentHash:
        """Hash a file that was just read."""
        return cls(content_hash(content)) if identity.size <= _SMALL else cls("", os.path.abspath(path), identity)  # noqa: PTH100 - links stay as they are

    def __str__(self) -> str:
        if not self._known and self._identity is not None:
            self._known = _hash_of_file(self._path, self._identity)
        return self._known

    def __reduce__(self) -> tuple[type[ContentHash], tuple[str]]:
        return ContentHash, (str(self),)  # the process that unpickles it may not have the file

    def __repr__(self) -> str:
        return f"ContentHash({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other) if isinstance(other, ContentHash | str) else NotImplemented

    def __hash__(self) -> int:
        return hash(str(self))


def _hash_of_file(path: str, identity: FileIdentity) -> str:
    found = blake2b(digest_size=20)
    try:
        with open_regular(path) as file:
            if FileIdentity.of_open(file) == identity:
                while block := file.read(_HASHED_AT_ONCE):
                    found.update(block)
                if FileIdentity.of_open(file) == identity:  # otherwise the file was written while it was read
                    return found.hexdigest()
    except OSError:
        pass  # it is gone, as good as changed
    return content_hash(f"the content that a file had: {tuple(identity)}".encode())
