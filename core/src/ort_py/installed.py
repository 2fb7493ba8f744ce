"""Installed distributions, read from their metadata folders: names, versions and files of metadata.

`importlib.metadata` does the same, but importing it loads 65 modules for mail, archives and sockets, which costs a
process more time than all of its scans. It is still asked where `sys.path` or `sys.meta_path` has something that is not
a plain folder. A leaf: imports nothing of ort-py. Never imports a distribution's code.
"""

from __future__ import annotations

import os
import re
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import Distribution

_FOLDERS = (".dist-info", ".egg-info")
_SETTLED_NS = 2_000_000_000
"""Age from which the time of a folder changes with its next change; file systems keep times in steps of up to 2 s."""

_ABSENT = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)


class InstalledDistribution:
    """A metadata folder.

    Args:
        folder: The folder, ``NAME-VERSION.dist-info`` or ``NAME.egg-info``.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.location, self._name = os.path.split(folder)

    def read_text(self, name: str) -> str | None:
        """A file of the metadata, or None if it cannot be opened."""
        try:
            with open(os.path.join(self._folder, name), encoding="utf-8") as file:
                return file.read()
        except _ABSENT:
            return None

    @property
    def folder_name(self) -> str:
        """The part of the folder's name before the version."""
        return self._name.partition("-")[0].removesuffix(".egg-info")

    def header(self, field: str) -> str:
        """A field of the metadata, ``""`` where there is none."""
        text = self.read_text("METADATA") or self.read_text("PKG-INFO") or ""
        found = re.search(rf"^{field}:[ \t]*(\S.*?)[ \t]*$", text.partition("\n\n")[0], re.MULTILINE)
        return found[1] if found else ""


class _OfLibrary(InstalledDistribution):
    """A distribution that `importlib.metadata` found, maybe in an archive."""

    def __init__(self, found: Distribution) -> None:
        self._found = found
        self.location = str(found.locate_file(""))

    def read_text(self, name: str) -> str | None:
        return self._found.read_text(name)

    @property
    def folder_name(self) -> str:
        """The part of the folder's name before the version."""
        # There is no public way to ask for it.
        return str(getattr(getattr(self._found, "_path", None), "name", "")).partition("-")[0]


def installed_distributions() -> Iterator[InstalledDistribution]:
    """Distributions in the order of `sys.path`; one that is there twice comes twice."""
    folders = None if _has_foreign_finder() else _metadata_folders()
    if folders is not None:
        yield from map(InstalledDistribution, folders)
        return
    from importlib.metadata import distributions

    yield from map(_OfLibrary, distributions())


def _has_foreign_finder() -> bool:
    return any(hasattr(one, "find_distributions") and one is not PathFinder for one in sys.meta_path)


_listed: dict[object, list[str]] = {}
"""Metadata folders that were listed last, under the times of the folders that they lie in."""


def _metadata_folders() -> list[str] | None:
    """Metadata folders of plain folders, or None if `sys.path` has something else."""
    times, found = folder_times(), list[str]()
    if times in _listed:
        return _listed[times]
    for entry in dict.fromkeys(sys.path):
        try:
            with os.scandir(entry or os.curdir) as files:
                if entry.endswith(".egg"):
                    return None
                found.extend(sorted(file.path for file in files if file.name.endswith(_FOLDERS)))
        except NotADirectoryError:
            return None  # an archive
        except OSError:
            continue
    _listed.clear()
    if times is not None:
        _listed[times] = found
    return found


def folder_times() -> tuple[tuple[str, int], ...] | None:
    """Folders of `sys.path` and when an entry of each changed last, in nanoseconds since 1970.

    None where that does not tell whether something was installed: `sys.path` or `sys.meta_path` has something that is
    no plain folder, or a folder changed so recently that it could change again without a new time.
    """
    if _has_foreign_finder():
        return None
    times: list[tuple[str, int]] = []
    for entry in dict.fromkeys(sys.path):
        try:
            status = os.stat(entry or os.curdir)
        except OSError:
            continue
        if not stat.S_ISDIR(status.st_mode) or time.time_ns() - status.st_mtime_ns < _SETTLED_NS:
            return None
        times.append((entry, status.st_mtime_ns))
    return tuple(times)


def normalise_distribution(name: str) -> str:
    """A distribution's name as package indexes compare it: ``Ort_Py.CPU`` is ``ort-py-cpu``."""
    return re.sub(r"[-_.]+", "-", name).lower()


def version_of(distribution: str) -> str:
    """Version of an installed distribution, ``""`` where it is not installed."""
    return versions_of([distribution]).get(distribution, "")


def versions_of(distributions: Iterable[str]) -> dict[str, str]:
    """Versions of those of some distributions that are installed, looked up in one pass over the folders."""
    wanted = {normalise_distribution(name): name for name in distributions}
    versions: dict[str, str] = {}
    for found in installed_distributions():
        name = wanted.pop(normalise_distribution(found.folder_name), None)
        if name is not None:
            versions[name] = found.header("Version")
            if not wanted:
                break
    return versions


def entry_point_sections(text: str) -> dict[str, list[tuple[str, str]]]:
    """Names and values of an ``entry_points.txt`` by group (packaging's "entry points specification").

    Raises:
        ValueError: A line is neither a group nor a name with a value.
    """
    groups: dict[str, list[tuple[str, str]]] = {}
    group: list[tuple[str, str]] | None = None
    for line in map(str.strip, text.splitlines()):
        if not line or line.startswith("#"):
            continue
        if line.startswith("[") and line.endswith("]"):
            group = groups.setdefault(line[1:-1], [])
            continue
        name, separator, value = line.partition("=")
        if not separator or group is None:
            raise ValueError(f"{line!r} is not 'name = value' in a group")
        group.append((name.strip(), value.strip()))
    return groups
