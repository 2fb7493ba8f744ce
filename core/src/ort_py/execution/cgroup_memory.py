"""Memory pressure in the control groups of this process: the tightest of its own group and all groups above.

Only memory that the system cannot simply drop counts: pages of files that were not used lately are not pressure, and a
container that reads large files is full of them. Stalls and failures that the kernel reports count too. This module
only measures; `memory_pressure` decides what to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ort_py.execution.control_groups import GroupFolder, group_folders, text_of

__all__ = ["GroupMemory", "LimitedGroup", "limited_groups"]

_NO_LIMIT = 1 << 60
"""Version 1 writes a number about as large as a process can address where there is no limit."""


@dataclass(frozen=True, slots=True)
class GroupMemory:
    """The memory of a group at one moment.

    Attributes:
        group: Path of the group, as this process sees it.
        limit: Bytes it may have; above ``memory.high`` it is slowed down, above ``memory.max`` killed.
        used: Bytes it has that cannot simply be dropped.
        stalled: Percent of the last ten seconds in which some task waited for memory; 0 where the kernel does not tell.
        failures: How often an allocation failed or a process was killed for memory, since the group was made.
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
    """A group with a limit, to be looked at again and again.

    Args:
        folder: The group.
    """

    def __init__(self, folder: GroupFolder) -> None:
        self._folder = folder

    def look(self) -> GroupMemory | None:
        """Read the current state. None if there is no limit, or no longer any, or the files cannot be read."""
        return _version_2(self._folder) if self._folder.version == 2 else _version_1(self._folder)


def limited_groups(root: Path = Path("/")) -> list[LimitedGroup]:
    """The groups of this process that have a limit now.

    Args:
        root: Where the file system begins; tests have one of their own.
    """
    groups = [LimitedGroup(folder) for folder in group_folders("memory", root)]
    return [group for group in groups if group.look() is not None]


def _version_2(folder: GroupFolder) -> GroupMemory | None:
    limits = [limit for name in ("memory.high", "memory.max") if (limit := _number(folder.path / name))]
    current = _number(folder.path / "memory.current")
    if not limits or current is None:
        return None
    idle = _table(folder.path / "memory.stat").get("inactive_file", 0)
    events = _table(folder.path / "memory.events")
    stalled = _some_avg10(text_of(folder.path / "memory.pressure"))
    failures = events.get("oom", 0) + events.get("oom_kill", 0)
    return GroupMemory(folder.name, min(limits), max(0, current - idle), stalled, failures)


def _version_1(folder: GroupFolder) -> GroupMemory | None:
    limit = _number(folder.path / "memory.limit_in_bytes")
    current = _number(folder.path / "memory.usage_in_bytes")
    if not limit or limit >= _NO_LIMIT or current is None:
        return None
    idle = _table(folder.path / "memory.stat").get("total_inactive_file", 0)
    killed = _table(folder.path / "memory.oom_control").get("oom_kill", 0)
    return GroupMemory(folder.name, limit, max(0, current - idle), 0.0, killed)


def _number(path: Path) -> int | None:
    text = text_of(path).strip()
    return int(text) if text.isdecimal() else None  # "max" is not a number


def _table(path: Path) -> dict[str, int]:
    """A file of lines of a name and a number."""
    pairs = (line.split() for line in text_of(path).splitlines())
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
