"""The files that a model was made from: what they contain, and access to the files beside it.

A model is known by its content (see `file_contents`), wherever it lies. Files of external data are opened by the
loader's own rules, below the folder of the model as it is given now: a cached model reads nothing that the model itself
could not.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ort_py.cache.constants import NotStorableError
from ort_py.cache.file_contents import FileContents, sketch_of
from ort_py.errors import Fail, Location
from ort_py.files import FileIdentity
from ort_py.graph.reading.fingerprint import content_hash
from ort_py.graph.reading.given_model import GivenModel
from ort_py.graph.weights.weight_store import process_store
from ort_py.graph.weights.weights import MappedFile
from ort_py.limits import Budget, Limits

if TYPE_CHECKING:
    from ort_py.graph.reading.external_data import ExternalFiles

_MOST_READ = 2 << 30
"""Bytes up to which a file of external data is known by its content. Reading a larger one, which is mapped otherwise,
takes longer than preparing the model, so that it is known by its identity."""


class SourceFile:
    """The source of a session.

    Attributes:
        path: The model's file, ``""`` for bytes.
        identity: Identity of the file, None for bytes.
        sketch: Sketch of the content, a part of the key.
        folder: Folder of external data, None where the model has no folder.
        real_folder: The folder that the file really lies in, if `path` is a link.
    """

    def __init__(
        self,
        path: str,
        identity: FileIdentity | None,
        sketch: str,
        digest: str,
        folder: str | None,
        contents: FileContents,
    ) -> None:
        self.path = path
        self.sketch = sketch
        self.folder = folder or (os.path.dirname(path) or os.curdir if path else None)
        is_link = bool(path) and os.path.islink(path)
        self.real_folder = os.path.dirname(os.path.realpath(path)) if is_link else None
        self.contents = contents
        self.identity = identity
        self._digest = digest
        self._looked_ns = time.time_ns()

    @classmethod
    def of(cls, source: GivenModel, folder: str | None, contents: FileContents, *, content: bool) -> SourceFile | None:
        """The source of a session, or None if the cache does not support it.

        Args:
            source: Path, bytes or message.
            folder: Folder of external data; None: beside the file.
            contents: What is known of files.
            content: Also support a model that is not a file.
        """
        if source.path:
            path = source.path
            try:
                found = os.stat(path)
            except (OSError, ValueError):
                return None  # loading it says what is wrong
            if not stat.S_ISREG(found.st_mode):
                return None
            identity = FileIdentity.of(found)
            sketch = contents.sketch(path, identity)
            return cls(path, identity, sketch, "", folder, contents) if sketch else None
        if not content:
            return None
        message = source.content
        view = memoryview(message.SerializeToString(deterministic=True) if source.is_message else message).cast("B")
        sketch = sketch_of(view.nbytes, _reader(view))
        return cls("", None, sketch, content_hash(view), folder, contents)

    @property
    def unchanged(self) -> bool:
        """True if the file is unchanged since this record was made."""
        if self.identity is None:
            return True
        try:
            return FileIdentity.of(os.stat(self.path)) == self.identity
        except OSError:
            return False

    def has_content(self, fingerprint: str) -> bool:
        if self.identity is None:
            return self._digest == fingerprint
        return self.contents.digest(self.path, self.identity) == fingerprint

    def found(self, path: str) -> str:
        """The real place of a file of external data, if it is not beside a link to the model but beside the model."""
        if self.real_folder is None or self.folder is None or os.path.exists(path):
            return path
        from pathlib import Path  # most models are one file

        return os.fspath(self.real_folder / Path(path).relative_to(self.folder))

    def note(self, fingerprint: str) -> None:
        """Remember what loading has found out about the content."""
        if self.identity is not None:
            self.contents.note(self.path, self.identity, fingerprint, self._looked_ns)


def external_name(path: str, identity: FileIdentity, folder: str | None) -> str:
    """The name by which a model refers to a file of external data.

    Raises:
        NotStorableError: The file was found by another path, or was only just written.
    """
    from pathlib import Path  # most models are one file

    if folder is None or not Path(path).is_relative_to(folder):
        raise NotStorableError("its external data was opened through another path")
    if identity.is_racy(time.time_ns()):
        raise NotStorableError("its external data was written a moment ago")
    return Path(path).relative_to(folder).as_posix()


def external_digest(path: str, identity: FileIdentity, contents: FileContents) -> str:
    """The digest that a file of external data is compared by; ``""`` where its identity is compared instead.

    Raises:
        NotStorableError: It was written or removed since the model was loaded.
    """
    if identity.size > _MOST_READ:
        return ""
    found = contents.digest(path, identity)
    if not found:
        raise NotStorableError("its external data was written since then")
    return found


def _reader(view: memoryview) -> Callable[[int, int], bytes]:
    return lambda start, stop: view[start:stop].tobytes()


class ExternalReader:
    """Opens the external data of a cached model.

    Args:
        locations: The model's names for the files.

    Raises:
        OrtPyError: As the loader does for a file that is not there, or is outside the model's folder.
    """

    def __init__(self, source: SourceFile, limits: Limits, locations: Sequence[str]) -> None:
        self._source = source
        self._limits = limits
        self._opened = {location: self.open(location) for location in locations}

    @cached_property
    def _files(self) -> ExternalFiles:
        from ort_py.graph.reading.external_data import ExternalFiles  # most models are one file

        return ExternalFiles(self._source.folder, process_store(), Budget(self._limits), self._source.real_folder)

    @property
    def sketches(self) -> list[str]:
        """Names and sketches of the files, as parts of a key."""
        found = []
        for location, file in self._opened.items():
            view = memoryview(file.buffer)
            found.append(f"{location} {sketch_of(view.nbytes, _reader(view))}")
        return found

    @property
    def opened(self) -> list[tuple[str, FileIdentity]]:
        """Path and content of each file."""
        return self._files.opened if self._opened else []

    def expect(self, files: Mapping[str, Sequence[Any]]) -> dict[FileIdentity, str]:
        """Check that the files are those that the model was prepared with.

        Args:
            files: Digest and identity of each, by location.

        Returns:
            The digest of each file that is known by it.

        Raises:
            Fail: One of them has another content.
        """
        digests: dict[FileIdentity, str] = {}
        for location, (digest, identity) in files.items():
            file = self.open(location)
            found = file.identity
            if digest and found.size == identity[2]:
                digests[found] = digest
                same = self._source.contents.digest(self._source.found(file.path), found) == digest
            else:
                same = found == FileIdentity(*identity)
            if not same:
                raise Fail(
                    f"The external file '{location}' has changed.",
                    where=Location(file=location),
                    fix="No action is needed: the model is prepared again.",
                )
        return digests

    def open(self, location: str) -> MappedFile:
        """A file by the model's name for it.

        Raises:
            OrtPyError: As the loader does for a file that is not there, or is outside the model's folder.
        """
        return self._files.file(location, Location(file=location))
