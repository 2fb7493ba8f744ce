"""A compiled model: one file that contains the files which the cache would have of a model, and what they were made by.

It is read as a folder of the cache is (`store.FileStore`), through a mapping, and is never changed. Its own description
is covered by a hash, and each file in it checks itself when it is used. What is damaged by then is an error or is made
again; `engine.compiled_model` decides which, and whether the file fits a session.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ort_py.cache.format import ALIGNMENT, damage, damage_of_description, description_of, write_file
from ort_py.graph.reading.given_model import COMPILED_MAGIC
from ort_py.logs import lazy_logger

_logger = lazy_logger("ort_py.cache")


class NotCompiledError(Exception):
    """The content is not an undamaged compiled model; the text says why."""


class CompiledFile:
    """The content of a compiled model.

    Args:
        content: The whole file, read-only, with the buffer protocol.
        name: What messages call it.

    Attributes:
        about: What the file says of itself, apart from its content.
        self_contained: Always true: the constants of other files are in this one.

    Raises:
        NotCompiledError: It is something else, or its description is damaged.
    """

    self_contained = True

    def __init__(self, content: Any, name: str) -> None:
        self._content = memoryview(content)
        self._name = name
        wrong = _damage(self._content)
        if wrong:
            raise NotCompiledError(wrong)
        description, start = description_of(self._content)
        try:
            self.about: dict[str, Any] = json.loads(description)
            self._parts = {
                (str(key), str(kind)): _part(start, offset, size, len(self._content))
                for key, kind, offset, size in self.about["parts"]
            }
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise NotCompiledError(f"its description does not fit together: {type(error).__name__}: {error}") from error

    @property
    def nbytes(self) -> int:
        """Bytes of the file."""
        return self._content.nbytes

    def key_of(self, kind: str) -> str:
        """The key of the only file of a kind; ``""`` if there is none."""
        return next((key for key, found in self._parts if found == kind), "")

    def mapped(self, key: str, kind: str) -> memoryview | None:
        """A file in this one, as `FileStore.mapped`."""
        return self._sound(key, kind, damage_of_description)

    def read(self, key: str, kind: str) -> memoryview | None:
        """The checked content of a file in this one, as `FileStore.read`."""
        return self._sound(key, kind, damage)

    def _sound(self, key: str, kind: str, damage_of: Callable[[memoryview], str]) -> memoryview | None:
        part = self._parts.get((key, kind))
        content = None if part is None else self._content[part]
        wrong = "" if content is None else damage_of(content)
        if wrong:
            self.report_damage(key, kind, wrong)
        return None if wrong else content

    def put(self, key: str, kind: str, description: bytes, blocks: Iterable[Any] = (), size: int = 0) -> bool:
        """Write nothing: a compiled model stays as it is."""
        return False

    def report_damage(self, key: str, kind: str, wrong: str) -> None:
        """Log that a file in this one is damaged."""
        _logger.warning("the %s in %s is damaged and was ignored: %s", kind, self._name, wrong)

    def discard(self, key: str, kind: str) -> None:
        """Remove nothing."""


def _damage(content: memoryview) -> str:
    start = bytes(content[: len(COMPILED_MAGIC)])
    if len(start) == len(COMPILED_MAGIC) and start != COMPILED_MAGIC:
        if start.startswith(COMPILED_MAGIC[:12]):
            return "it was written by another version of ort-py, in another form"
        return f"it is no compiled model: it begins with {start!r}"
    return damage_of_description(content, COMPILED_MAGIC)


def _part(first: int, offset: Any, size: Any, end: int) -> slice:
    if type(offset) is not int or type(size) is not int or not 0 <= offset <= offset + size <= end - first:
        raise ValueError("a part lies outside of the file")
    return slice(first + offset, first + offset + size)


def write_compiled(target: Path, about: Mapping[str, Any], files: Sequence[tuple[str, str, Path]]) -> int:
    """Write a compiled model; it appears whole, or not at all.

    Args:
        target: Its path; a file there is replaced.
        about: Facts about it, as JSON holds them.
        files: Key, kind and path of each file that it is to contain.

    Returns:
        Its bytes.

    Raises:
        OSError: The disk is full, or the folder cannot be written.
    """
    parts: list[list[Any]] = []
    position = 0
    for key, kind, path in files:
        size = path.stat().st_size
        parts.append([key, kind, position, size])
        position += size + -size % ALIGNMENT
    description = json.dumps({**about, "parts": parts}, separators=(",", ":")).encode()
    # Not a file of `tempfile`, which only its owner can read: this one is made to be shipped.
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as file:
            write_file(file, description, _contents([path for _, _, path in files]), COMPILED_MAGIC)
        written = temporary.stat().st_size
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return written


def _contents(paths: Sequence[Path]) -> Iterator[Any]:
    for path in paths:
        with path.open("rb") as file:
            yield mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
