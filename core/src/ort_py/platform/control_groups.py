"""The folders of the control-group file systems, of either version, that bound this process for a controller.

Linux only by what it reads; elsewhere the files are not there, and what cannot be read or understood bounds nothing.
Knows no limits: `cgroup_quota` and `cgroup_memory` read those.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

__all__ = ["GroupFolder", "group_folders", "text_of"]


@dataclass(frozen=True, slots=True)
class GroupFolder:
    """A control group that this process is in.

    Attributes:
        version: 1 or 2.
        name: Path of the group's folder, as this process sees it.
        path: Where to read it.
    """

    version: int
    name: str
    path: Path


@dataclass(frozen=True, slots=True)
class _Mount:
    """A mounted hierarchy: which group is at which place.

    Attributes:
        version: 1 or 2.
        root: Group that is mounted.
        place: Where.
    """

    version: int
    root: PurePosixPath
    place: PurePosixPath


def group_folders(controller: str, root: Path = Path("/")) -> list[GroupFolder]:
    """The process's own groups and all above them, each once, in the hierarchies that have a controller.

    Args:
        controller: Name of version 1, e.g. ``"cpu"``; version 2 has one hierarchy for all.
        root: Where the file system begins; tests have one of their own.
    """
    groups = _own_groups(text_of(root / "proc/self/cgroup"), controller)
    lines = text_of(root / "proc/self/mountinfo").splitlines()
    # A process that sees no list of mounts may still see the file system at its usual place.
    mounts = [mount for line in lines if (mount := _mount(line, controller))] or [
        _Mount(2, PurePosixPath("/"), PurePosixPath("/sys/fs/cgroup")),
        _Mount(1, PurePosixPath("/"), PurePosixPath("/sys/fs/cgroup", controller)),
    ]
    found: dict[PurePosixPath, GroupFolder] = {}
    for mount in mounts:
        for place in _places(mount, groups.get(mount.version)):
            found.setdefault(place, GroupFolder(mount.version, str(place), root / place.relative_to("/")))
    return list(found.values())


def text_of(path: Path) -> str:
    """Read a file; ``""`` if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def _own_groups(text: str, controller: str) -> dict[int, PurePosixPath]:
    """The process's group in the hierarchy that has the controller, by version, of ``/proc/self/cgroup``."""
    groups: dict[int, PurePosixPath] = {}
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            groups[2] = PurePosixPath(path)
        elif controller in controllers.split(","):
            groups[1] = PurePosixPath(path)
    return groups


def _mount(line: str, controller: str) -> _Mount | None:
    """Parse a line of ``/proc/self/mountinfo`` that describes a hierarchy with the controller."""
    before, _, after = line.partition(" - ")
    fields, kinds = before.split(), after.split()
    if len(fields) < 5 or len(kinds) < 3:
        return None
    if kinds[0] == "cgroup2":
        version = 2
    elif kinds[0] == "cgroup" and controller in kinds[2].split(","):
        version = 1
    else:
        return None
    return _Mount(version, *(PurePosixPath(_plain(field)) for field in fields[3:5]))


def _plain(field: str) -> str:
    """Without the octal escapes of blanks and backslashes."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)


def _places(mount: _Mount, group: PurePosixPath | None) -> Iterator[PurePosixPath]:
    """Folders of the process's group and of all above it, as far as they are mounted."""
    inner = PurePosixPath()
    # A group above or beside what is mounted (in a container, a path of the host) cannot be seen: what is at the top
    # bounds the process all the same.
    if group is not None and group.is_relative_to(mount.root) and ".." not in group.parts:
        inner = group.relative_to(mount.root)
    yield mount.place / inner
    for above in inner.parents:
        yield mount.place / above
