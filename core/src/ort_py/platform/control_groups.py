"""Control groups of this process: the processor time and the memory that its own group and all groups above it allow.

This module reads Linux's files of either version. Elsewhere the files do not exist, and a file that cannot be read or
understood sets no limit. Of the memory, only what the system cannot simply drop counts: pages of files that were not
used lately are not pressure, and a container that reads large files is full of them.

This module only measures. `processors` derives a number of threads from the quota, and `memory_pressure` decides what
to do when memory is short.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator

from ort_py.lazy_dataclass import dataclass

_NO_LIMIT = 1 << 60
"""Version 1 writes a number about as large as a process can address where there is no limit."""


@dataclass(frozen=True, slots=True)
class CpuQuota:
    """A limit on processor time.

    Attributes:
        processors: Processors' worth of time, above 0; not always whole.
        group: Path of the group that sets it, as this process sees it.
    """

    processors: float
    group: str


def cpu_quota(root: str | os.PathLike[str] = "/") -> CpuQuota | None:
    """The tightest quota of this process, or None.

    Args:
        root: Root of the file system; tests have one of their own.
    """
    found = [
        CpuQuota(processors, group.name)
        for group in group_folders("cpu", root)
        if (processors := _quota_2(group.path) if group.version == 2 else _quota_1(group.path)) is not None
    ]
    return min(found, key=lambda quota: quota.processors, default=None)


def _quota_2(folder: str) -> float | None:
    try:
        quota, period = _text_of(f"{folder}/cpu.max").split()[:2]
        return _ratio(int(quota), int(period))  # "max" is not a number
    except ValueError:
        return None


def _quota_1(folder: str) -> float | None:
    try:
        quota, period = (int(_text_of(f"{folder}/cpu.cfs_{name}_us")) for name in ("quota", "period"))
    except ValueError:
        return None
    return _ratio(quota, period)


def _ratio(quota: int, period: int) -> float | None:
    return quota / period if quota > 0 and period > 0 else None


@dataclass(frozen=True, slots=True)
class GroupMemory:
    """The memory of a group at one moment.

    Attributes:
        group: Path of the group, as this process sees it.
        limit: Bytes it may have; above ``memory.high`` it is slowed down, above ``memory.max`` killed.
        used: Bytes it has that cannot simply be dropped.
        stalled: Percent of the last ten seconds in which some task waited for memory; 0 where the kernel does not tell.
        failures: Number of failed allocations and of processes killed for memory, since the group was made.
    """

    group: str
    limit: int
    used: int
    stalled: float
    failures: int

    @property
    def share(self) -> float:
        """Part of the limit that is used."""
        return self.used / self.limit


class LimitedGroup:
    """A group with a limit, to be read again and again."""

    def __init__(self, folder: GroupFolder) -> None:
        self._folder = folder

    def read(self) -> GroupMemory | None:
        """Read the current state. None if there is no limit, or no longer any, or the files cannot be read."""
        return _memory_2(self._folder) if self._folder.version == 2 else _memory_1(self._folder)


def limited_groups(root: str | os.PathLike[str] = "/") -> list[LimitedGroup]:
    """The groups of this process that have a limit now.

    Args:
        root: Root of the file system; tests have one of their own.
    """
    groups = [LimitedGroup(folder) for folder in group_folders("memory", root)]
    return [group for group in groups if group.read() is not None]


def _memory_2(folder: GroupFolder) -> GroupMemory | None:
    limits = [limit for name in ("memory.high", "memory.max") if (limit := _number(f"{folder.path}/{name}"))]
    current = _number(f"{folder.path}/memory.current")
    if not limits or current is None:
        return None
    idle = _table(f"{folder.path}/memory.stat").get("inactive_file", 0)
    events = _table(f"{folder.path}/memory.events")
    stalled = _some_avg10(_text_of(f"{folder.path}/memory.pressure"))
    failures = events.get("oom", 0) + events.get("oom_kill", 0)
    return GroupMemory(folder.name, min(limits), max(0, current - idle), stalled, failures)


def _memory_1(folder: GroupFolder) -> GroupMemory | None:
    limit = _number(f"{folder.path}/memory.limit_in_bytes")
    current = _number(f"{folder.path}/memory.usage_in_bytes")
    if not limit or limit >= _NO_LIMIT or current is None:
        return None
    idle = _table(f"{folder.path}/memory.stat").get("total_inactive_file", 0)
    killed = _table(f"{folder.path}/memory.oom_control").get("oom_kill", 0)
    return GroupMemory(folder.name, limit, max(0, current - idle), 0.0, killed)


def _number(path: str) -> int | None:
    text = _text_of(path).strip()
    return int(text) if text.isdecimal() else None  # "max" is not a number


def _table(path: str) -> dict[str, int]:
    """A file of lines of a name and a number."""
    pairs = (line.split() for line in _text_of(path).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}


def _some_avg10(text: str) -> float:
    """``some avg10=1.50 avg60=…`` of a pressure file."""
    for line in text.splitlines():
        kind, *facts = line.split()
        if kind == "some":
            for fact in facts:
                name, _, value = fact.partition("=")
                try:
                    return float(value) if name == "avg10" else 0.0
                except ValueError:
                    return 0.0
    return 0.0


@dataclass(frozen=True, slots=True)
class GroupFolder:
    """A control group that this process is in.

    Attributes:
        version: 1 or 2.
        name: Path of the group's folder, as this process sees it.
    """

    version: int
    name: str
    path: str


@dataclass(frozen=True, slots=True)
class _Mount:
    """A mounted hierarchy: which group is at which place.

    Attributes:
        version: 1 or 2.
    """

    version: int
    root: str
    place: str


def group_folders(controller: str, root: str | os.PathLike[str] = "/") -> list[GroupFolder]:
    """The process's own groups and all above them, each once, in the hierarchies that have a controller.

    Args:
        controller: Name of version 1, e.g. ``"cpu"``; version 2 has one hierarchy for all.
        root: Root of the file system; tests have one of their own.
    """
    top = os.fspath(root).rstrip("/")
    groups = _own_groups(_text_of(f"{top}/proc/self/cgroup"), controller)
    lines = _text_of(f"{top}/proc/self/mountinfo").splitlines()
    # A process that sees no list of mounts may still see the file system at its usual place.
    mounts = [mount for line in lines if (mount := _mount(line, controller))] or [
        _Mount(2, "/", "/sys/fs/cgroup"),
        _Mount(1, "/", f"/sys/fs/cgroup/{controller}"),
    ]
    found: dict[str, GroupFolder] = {}
    for mount in mounts:
        for place in _places(mount, groups.get(mount.version)):
            found.setdefault(place, GroupFolder(mount.version, place, top + place))
    return list(found.values())


def _text_of(path: str) -> str:
    """Read a file; ``""`` if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


def _own_groups(text: str, controller: str) -> dict[int, str]:
    """The process's group in the hierarchy that has the controller, by version, of ``/proc/self/cgroup``."""
    groups: dict[int, str] = {}
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            groups[2] = path
        elif controller in controllers.split(","):
            groups[1] = path
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
    return _Mount(version, *(_plain(field) for field in fields[3:5]))


def _plain(field: str) -> str:
    """Without the octal escapes of blanks and backslashes."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)


def _places(mount: _Mount, group: str | None) -> Iterator[str]:
    """Folders of the process's group and of all above it, as far as they are mounted."""
    inner: list[str] = []
    # A group above or beside what is mounted (in a container, a path of the host) cannot be seen: what is at the top
    # bounds the process all the same.
    if group is not None:
        wanted, top = _parts(group), _parts(mount.root)
        if wanted[: len(top)] == top and ".." not in wanted:
            inner = wanted[len(top) :]
    for count in range(len(inner), -1, -1):
        yield posixpath.join("/", *_parts(mount.place), *inner[:count])


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]
