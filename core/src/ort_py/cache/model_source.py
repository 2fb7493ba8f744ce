"""The files that a model was made from: checks that they are unchanged, and access to the files beside it.

A file is known by its identity (see `ort_py.files`), never by its path or its content. A file that
was written moments before it was read could be written again without a new time; its entry says so, and its content is
compared too. Files of external data are opened by the loader's own rules, below the folder of the model as it is given
now: a cached model reads nothing that the model itself could not.
"""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import Any

from ort_py.cache.constants import NotStorableError
from ort_py.errors import Fail, Location
from ort_py.files import FileIdentity, read_regular
from ort_py.graph.reading.external_data import ExternalFiles
from ort_py.graph.reading.fingerprint import content_hash
from ort_py.graph.reading.given_model import GivenModel
from ort_py.graph.weights.weight_store import process_store
from ort_py.graph.weights.weights import MappedFile
from ort_py.limits import Budget, Limits

__all__ = ["ExternalReader", "SourceFile", "external_name"]


class SourceFile:
    """The source of a session.

    Attributes:
        path: The model's file, ``""`` for bytes.
        folder: Folder of external data, None where the model has no folder.
        real_folder: The folder that the file really lies in, if `path` is a link.
    """

    def __init__(self, path: str, identity: tuple[Any, ...], folder: Path | None) -> None:
        self.path = path
        self.identity = identity
        self.folder = folder or (Path(path).parent if path else None)
        self.real_folder = Path(os.path.realpath(path)).parent if path and Path(path).is_symlink() else None
        self._looked_ns = time.time_ns()

    @classmethod
    def of(cls, source: GivenModel, folder: str | None, *, content: bool) -> SourceFile | None:
        """The source of a session, or None if the cache does not support it.

        Args:
            folder: Folder of external data; None: beside the file.
            content: Also support a model that is not a file, by its content.
        """
        below = None if folder is None else Path(folder)
        if source.path:
            path = source.path
            try:
                found = os.stat(path)  # noqa: PTH116 - a Path is ten times the cost of the call
            except (OSError, ValueError):
                return None  # loading it says what is wrong
            if not stat.S_ISREG(found.st_mode):
                return None
            return cls(path, FileIdentity.of(found), below)
        if not content:
            return None
        message = source.content
        found_bytes = message.SerializeToString(deterministic=True) if source.is_message else message
        return cls("", ("content", content_hash(found_bytes)), below)

    @property
    def unchanged(self) -> bool:
        """True if the file is unchanged since this record was made."""
        if not self.path:
            return True
        try:
            return FileIdentity.of(os.stat(self.path)) == self.identity  # noqa: PTH116 - as above
        except OSError:
            return False

    @property
    def racy(self) -> bool:
        """True if the file was written so shortly before it was read that its time may not reveal a later change."""
        return isinstance(self.identity, FileIdentity) and self.identity.is_racy(self._looked_ns)

    def has_content(self, fingerprint: str) -> bool:
        """Return whether the file has this content."""
        try:
            return content_hash(read_regular(self.path)) == fingerprint
        except OSError:
            return False


def external_name(path: str, identity: FileIdentity, folder: Path | None) -> str:
    """The name by which a model refers to a file of external data.

    Raises:
        NotStorableError: The file was found by another path, or was only just written.
    """
    if folder is None or not Path(path).is_relative_to(folder):
        raise NotStorableError("its external data was opened through another path")
    if identity.is_racy(time.time_ns()):
        raise NotStorableError("its external data was written a moment ago")
    return Path(path).relative_to(folder).as_posix()


class ExternalReader:
    """Opens the external data of a cached model.

    Args:
        identities: Identity that each file must have, by location.
    """

    def __init__(self, source: SourceFile, limits: Limits, identities: dict[str, list[int]]) -> None:
        self._files = ExternalFiles(source.folder, process_store(), Budget(limits), source.real_folder)
        self._identities = {location: FileIdentity(*numbers) for location, numbers in identities.items()}
        for location, identity in self._identities.items():
            if self.open(location).identity != identity:
                raise Fail(
                    f"The external file '{location}' has changed.",
                    where=Location(file=location),
                    fix="No action is needed: the model is prepared again.",
                )

    @property
    def opened(self) -> list[tuple[str, FileIdentity]]:
        """Path and content of each file."""
        return self._files.opened

    def open(self, location: str) -> MappedFile:
        """A file by the model's name for it.

        Raises:
            OrtPyError: As the loader does for a file that is not there, or is outside the model's folder.
        """
        return self._files.file(location, Location(file=location))
