"""The hash that distinguishes the bytes of models. A leaf: sessions that load nothing need it too.

A file is hashed at the first request: sessions do not need the hash, and reading all of a large model takes longer than
making one. Large contents are hashed in pieces, by several threads at once, and the hash is one of the pieces' hashes.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from ort_py.files import FileIdentity, open_regular
from ort_py.graph.weights.paging import forget_pages
from ort_py.hashing import blake2b

_PIECE = 4 << 20
"""Bytes of a piece, and of a file that a thread has in memory while it is hashed."""

_SMALL = 1 << 20
"""Largest file that is hashed at once for every caller, which takes a millisecond."""

_LARGE = 4 * _PIECE
"""Bytes from which starting threads takes less time than they save."""

_MOST_THREADS = 4


def content_hash(content: Any) -> str:
    """Hash of a model's bytes: its fingerprint."""
    view = memoryview(content).cast("B")

    @contextmanager
    def pieces() -> Iterator[Callable[[int, int], str]]:
        def one(start: int, stop: int) -> str:
            found = _hash(view[start:stop])
            forget_pages(view, start, stop)
            return found

        yield one

    return _hash_of_pieces(view.nbytes, pieces)


def hash_of_file(path: str, identity: FileIdentity) -> str:
    """The `content_hash` of a file; ``""`` if it is not, or not any more, the file with this identity."""

    @contextmanager
    def pieces() -> Iterator[Callable[[int, int], str]]:
        with open_regular(path) as file:  # one for each thread: they would share its position

            def one(start: int, stop: int) -> str:
                file.seek(start)
                content = file.read(stop - start)
                # After each piece: who writes while it is read changes the identity.
                if len(content) != stop - start or FileIdentity.of_open(file) != identity:
                    raise OSError("it is another file now, or was written while it was read")
                return _hash(content)

            yield one

    try:
        return _hash_of_pieces(identity.size, pieces)
    except OSError:
        return ""


def _hash(content: Any) -> str:
    return blake2b(content, digest_size=20).hexdigest()


def _hash_of_pieces(size: int, pieces: Callable[[], AbstractContextManager[Callable[[int, int], str]]]) -> str:
    """Hash of a content: of its only piece, or of the hashes of all.

    Args:
        size: Bytes of the content.
        pieces: Opens the content in each thread; gives a function that hashes the part between two positions.

    Raises:
        OSError: The content cannot be read.
    """
    starts = range(0, max(size, 1), _PIECE)
    found = [""] * len(starts)
    errors: list[OSError] = []

    def work(first: int, step: int) -> None:
        try:
            with pieces() as piece:
                for number in range(first, len(starts), step):
                    found[number] = piece(starts[number], min(starts[number] + _PIECE, size))
        except OSError as error:
            errors.append(error)

    count = min(_MOST_THREADS, os.cpu_count() or 1) if size >= _LARGE else 1
    threads = [threading.Thread(target=work, args=(number, count), daemon=True) for number in range(1, count)]
    for thread in threads:
        thread.start()
    work(0, count)
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    # The size tells a content from one that consists of the hashes of its pieces.
    return found[0] if len(found) == 1 else _hash("\n".join([str(size), *found]).encode())


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
        """Hash a file that was just read; at once where its identity does not tell whether it is written again."""
        if identity.size <= _SMALL or identity.is_racy(time.time_ns()):
            return cls(content_hash(content))
        return cls("", os.path.abspath(path), identity)  # links stay as they are

    def __str__(self) -> str:
        if not self._known and self._identity is not None:
            # A file that is gone is as good as one that has changed.
            self._known = hash_of_file(self._path, self._identity) or content_hash(
                f"the content that a file had: {tuple(self._identity)}".encode()
            )
        return self._known

    def __reduce__(self) -> tuple[type[ContentHash], tuple[str]]:
        return ContentHash, (str(self),)  # the process that unpickles it may not have the file

    def __repr__(self) -> str:
        return f"ContentHash({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other) if isinstance(other, ContentHash | str) else NotImplemented

    def __hash__(self) -> int:
        return hash(str(self))
