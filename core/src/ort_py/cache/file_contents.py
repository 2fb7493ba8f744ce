"""Digests of the files of models: computed at most once for each state of a file, and then remembered.

The identity of a file (see `ort_py.files`) leads to the digest that was computed before, and proves nothing else: it is
remembered in this process and in the cache's folder, which is the user's own. A file whose identity is not known yet,
because it was copied or touched, is read. The *sketch* of a file is a hash of its size and of samples of its content:
it costs next to nothing, and finds the entry with whose digest all of the file is then compared.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable

from ort_py.cache.artifacts import artifact_key
from ort_py.cache.format import description_of
from ort_py.cache.store import CacheStore
from ort_py.cache.writing import process_queue
from ort_py.files import FileIdentity, open_regular
from ort_py.graph.reading.fingerprint import content_hash, hash_of_file

_KIND = "digest"

_SAMPLE = 4 << 10
_SAMPLES = 16
_WHOLE = _SAMPLE * _SAMPLES
"""Bytes up to which a sketch is of the whole content, and as good as its digest."""

_MOST_REMEMBERED = 4096
"""Files whose digests a process remembers at most."""

_known: dict[FileIdentity, tuple[str, str]] = {}
"""Sketch and digest by identity; only of files that had been written long before they were read."""


def sketch_of(size: int, read: Callable[[int, int], bytes]) -> str:
    """The sketch of a content; that of a small content is its digest.

    Args:
        size: Its bytes.
        read: Returns the bytes between two positions.
    """
    if size <= _WHOLE:
        return content_hash(read(0, size))
    starts = [(size - _SAMPLE) * number // (_SAMPLES - 1) for number in range(_SAMPLES)]
    return artifact_key([f"sketch of {size}", *(read(start, start + _SAMPLE) for start in starts)])


class FileContents:
    """The contents of files, as far as they were found out."""

    def __init__(self, store: CacheStore) -> None:
        self._store = store
        self._sketches: dict[FileIdentity, str] = {}

    def sketch(self, path: str, identity: FileIdentity) -> str:
        """The sketch of a file; ``""`` if it is not, or not any more, the file with this identity."""
        known = self._recalled(identity)
        if known is not None:
            return known[0]
        try:
            with open_regular(path) as file:
                if FileIdentity.of_open(file) != identity:
                    return ""

                def read(start: int, stop: int) -> bytes:
                    file.seek(start)
                    return file.read(stop - start)

                found = sketch_of(identity.size, read)
                if FileIdentity.of_open(file) != identity:
                    return ""
        except OSError:
            return ""
        self._sketches[identity] = found
        return found

    def digest(self, path: str, identity: FileIdentity) -> str:
        """The digest of a file's content, read where it is not known; ``""`` as for `sketch`."""
        known = self._recalled(identity)
        if known is not None:
            return known[1]
        looked = time.time_ns()
        sketch = self._sketches.get(identity) or self.sketch(path, identity)
        if identity.size <= _WHOLE:
            return sketch
        found = hash_of_file(path, identity) if sketch else ""
        if found:
            self._remember(path, identity, sketch, found, looked)
        return found

    def note(self, path: str, identity: FileIdentity, digest: str, looked: int) -> None:
        """Remember the digest of a file, which was found out elsewhere.

        Args:
            identity: What it was before and after it was read.
            looked: When its identity was taken, in nanoseconds since 1970.
        """
        if identity.size > _WHOLE and self._recalled(identity) is None:
            sketch = self._sketches.get(identity) or self.sketch(path, identity)
            if sketch:
                self._remember(path, identity, sketch, digest, looked)

    def _recalled(self, identity: FileIdentity) -> tuple[str, str] | None:
        if identity.size <= _WHOLE:
            return None
        found = _known.get(identity)
        if found is None:
            content = self._store.read(_key(identity), _KIND)
            if content is None:
                return None
            try:
                data = json.loads(description_of(content)[0])
                found = str(data["sketch"]), str(data["digest"])
            except (ValueError, KeyError, TypeError):
                self._store.discard(_key(identity), _KIND)
                return None
            self._keep(identity, found)
        return found

    def _remember(self, path: str, identity: FileIdentity, sketch: str, digest: str, looked: int) -> None:
        if identity.is_racy(looked):
            return  # it could be written again without another identity
        self._keep(identity, (sketch, digest))
        data = {"title": os.path.basename(path), "sketch": sketch, "digest": digest}

        def write() -> None:
            self._store.put(_key(identity), _KIND, json.dumps(data).encode())

        process_queue().add(write)

    @staticmethod
    def _keep(identity: FileIdentity, found: tuple[str, str]) -> None:
        if len(_known) >= _MOST_REMEMBERED:
            _known.clear()
        _known[identity] = found


def _key(identity: FileIdentity) -> str:
    return artifact_key([f"content of {tuple(identity)}"])
