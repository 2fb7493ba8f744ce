"""Tensors in files beside the model: only there, and only where the file really has them.

A model names these files, so what it says is checked like any input from a stranger: no absolute path, no ``..``,
no link out of the folder, no range outside the file. Files are mapped, not read. Comes after `sources`, which knows
where the model lies; asked by `tensors`. How a file is opened safely is `confined_open`'s business.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ort_py.dtypes import DataType, nbytes_of
from ort_py.errors import Fail, InvalidGraph, Location
from ort_py.files import FileIdentity
from ort_py.graph.reading.supplied import Supplied

if TYPE_CHECKING:
    from ort_py.graph.ir import Weight
    from ort_py.graph.weights.weight_store import WeightStore
    from ort_py.graph.weights.weights import MappedFile
    from ort_py.limits import Budget


class ExternalFiles:
    """The external files of one model.

    Args:
        folder: Folder that locations are relative to; None if the model has none.
        budget: Budget that each file's size is charged to, once.
        real_folder: Real folder of the model if it was reached through a link; links may lead there too.
        supplied: Data the caller has already; it is not looked for in files.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None,
        store: WeightStore,
        budget: Budget,
        real_folder: str | os.PathLike[str] | None = None,
        supplied: Supplied | None = None,
    ) -> None:
        self._folders = (
            [os.fspath(path) for path in (folder, real_folder) if path is not None] if folder is not None else []
        )
        self._store = store
        self._budget = budget
        self._open: dict[str, MappedFile] = {}
        self._supplied = supplied or Supplied()

    @property
    def opened(self) -> list[tuple[str, FileIdentity]]:
        """Path and content of each file that was opened."""
        return [(file.path, file.identity) for file in self._open.values()]

    def weight(self, name: str, entries: Mapping[str, str], data_type: DataType, shape: tuple[int, ...]) -> Weight:
        """The weight of a tensor whose data lies in a file.

        Args:
            entries: Its ``external_data``: location, offset, length.

        Raises:
            InvalidGraph: The entries contradict each other, the type or the shape.
            Fail: The file is missing, may not be read, lies outside the folder, or is too short.
        """
        location = entries.get("location", "")
        where = Location(value=name, file=location)
        if data_type is DataType.STRING:
            what = f"Tensor '{name}' has strings in an external file."
            fix = "Save the model with this tensor inside."
            raise InvalidGraph(what, where=where, why="ONNX stores strings in the model only", fix=fix)
        array = self._supplied.array(name, data_type, shape)
        if array is not None:
            return self._store.add(array)
        needed = nbytes_of(data_type, shape)
        offset = _number(entries, "offset", 0, where)
        length = _number(entries, "length", needed, where)
        if length != needed:
            what = f"External data of '{name}' does not have the length that its type and shape require."
            why = f"length is {length}; {data_type.onnx_name}{list(shape)} requires {needed} bytes"
            raise InvalidGraph(what, where=where, why=why, fix="The model was saved incorrectly; export it again.")
        if self._supplied.files:
            content = self._content(location, where)
            _expect_inside(name, (offset, offset + needed), content.nbytes, where)
            return self._store.embedded(content[offset : offset + needed], data_type, shape)
        file = self.file(location, where)
        _expect_inside(name, (offset, offset + needed), file.identity.size, where)
        return self._store.mapped(file, offset, data_type, shape)

    def _content(self, location: str, where: Location) -> memoryview:
        """A file that the caller supplied."""
        found = self._supplied.files.get(location)
        if found is None:
            what = f"The external file '{location}' is not among the files supplied in memory."
            fix = "Supply every file of the model's external data, under the names that are used in the model."
            raise Fail(what, where=where, why=f"supplied are {', '.join(map(repr, self._supplied.files))}", fix=fix)
        return found

    def file(self, location: str, where: Location) -> MappedFile:
        """A file of external data, mapped.

        Raises:
            InvalidGraph: The location names no file.
            Fail: The file is missing, may not be read, or lies outside the folder.
        """
        found = self._open.get(location)
        if found is not None:
            return found
        parts = _parts(location, where)
        if not self._folders:
            raise Fail(
                "The model has external data, but was passed without a folder to read it from.",
                where=where,
                why="a model passed as bytes or as a message does not include its location",
                fix="Pass the model's path, or name the folder of the external data.",
            )
        from ort_py.graph.reading.confined_open import EscapeError, open_confined  # most models are one file

        try:
            with open_confined(parts, self._folders) as opened:
                identity = FileIdentity.of_open(opened)
                path = os.path.join(self._folders[0], *parts)
                file = self._store.file(opened, path, identity)
        except FileNotFoundError as error:
            what = f"The external file '{location}' does not exist."
            fix = "Put the file next to the model; the two were saved together."
            raise Fail(what, where=where, why=f"looked in {self._folders[0]!r}", fix=fix) from error
        except EscapeError as error:
            raise _outside(location, where, str(error)) from error
        except (OSError, ValueError) as error:
            what = f"The external file '{location}' cannot be read."
            fix = "External data must be an ordinary, readable file in the model's folder."
            raise Fail(what, where=where, why=f"{type(error).__name__}: {error}", fix=fix) from error
        self._budget.file_bytes += identity.size
        self._open[location] = file
        return file


def _expect_inside(name: str, part: tuple[int, int], size: int, where: Location) -> None:
    if part[1] > size:
        why = f"bytes {part[0]} to {part[1]} are needed, but the file has {size}"
        fix = "The file is incomplete or belongs to another model; download it again."
        raise Fail(f"External data of '{name}' extends beyond the end of its file.", where=where, why=why, fix=fix)


def _parts(location: str, where: Location) -> tuple[str, ...]:
    """The path in its parts, refused unless it is plainly relative in the rules of every system."""
    from pathlib import PurePosixPath, PureWindowsPath  # importing it takes longer than reading most models

    windows, posix = PureWindowsPath(location), PurePosixPath(location)
    if not location or "\0" in location or not posix.parts:
        what = "A tensor has external data, but its location does not name a file."
        raise InvalidGraph(what, where=where, fix="The model was saved incorrectly; export it again.")
    if posix.is_absolute() or windows.drive or windows.root:
        raise _outside(location, where, "the path is absolute")
    if ".." in windows.parts or ".." in posix.parts:
        raise _outside(location, where, "the path contains '..'")
    return windows.parts if os.name == "nt" else posix.parts


def _outside(location: str, where: Location, why: str) -> Fail:
    return Fail(
        f"The external file '{location}' is outside the model's folder.",
        where=where,
        why=(why, "a model may only read files in its own folder"),
        fix="Move the file into the model's folder and save the model with the plain file name.",
    )


def _number(entries: Mapping[str, str], key: str, default: int, where: Location) -> int:
    text = entries.get(key, "")
    if not text:
        return default
    # At most 19 digits: int() of a longer text takes quadratic time, and no file is that long.
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise InvalidGraph(
            f"External data has the {key} {text[:40]!r}, which is not a size.",
            where=where,
            fix="The model was saved incorrectly; export it again.",
        )
    return int(text)
