"""Processors' worth of time that control groups allow this process: of its own groups and all above, the smallest.

Linux only by what it reads; elsewhere the files are not there, and what cannot be read or understood bounds nothing.
Knows no thread counts: `thread_count` makes one of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

__all__ = ["CpuQuota", "cpu_quota"]


@dataclass(frozen=True, slots=True)
class CpuQuota:
    """A bound.

    Attributes:
        processors: Processors' worth of time, above 0; not always whole.
        group: Path of the group that sets it, as this process sees it.
    """

    processors: float
    group: str


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


def cpu_quota(root: Path = Path("/")) -> CpuQuota | None:
    """The tightest quota of this process, None where there is none.

    Args:
        root: Where the file system begins; tests have one of their own.
    """
    groups = _own_groups(_text(root / "proc/self/cgroup"))
    mounts = [mount for line in _text(root / "proc/self/mountinfo").splitlines() if (mount := _mount(line))]
    found: dict[PurePosixPath, CpuQuota] = {}
    # A process that sees no list of mounts may still see the file system at its usual place.
    for mount in mounts or [_Mount(version, PurePosixPath("/"), place) for version, place in _USUAL]:
        for place in _places(mount, groups.get(mount.version)):
            if place not in found:
                processors = _READERS[mount.version](root / place.relative_to("/"))
                if processors is not None:
                    found[place] = CpuQuota(processors, str(place))
    return min(found.values(), key=lambda quota: quota.processors, default=None)


_USUAL = ((2, PurePosixPath("/sys/fs/cgroup")), (1, PurePosixPath("/sys/fs/cgroup/cpu")))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def _own_groups(text: str) -> dict[int, PurePosixPath]:
    """The process's group in the hierarchy that has the processor controller, by version, of ``/proc/self/cgroup``."""
    groups: dict[int, PurePosixPath] = {}
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            groups[2] = PurePosixPath(path)
        elif "cpu" in controllers.split(","):
            groups[1] = PurePosixPath(path)
    return groups


def _mount(line: str) -> _Mount | None:
    """What a line of ``/proc/self/mountinfo`` says about a hierarchy with the processor controller."""
    before, _, after = line.partition(" - ")
    fields, kinds = before.split(), after.split()
    if len(fields) < 5 or len(kinds) < 3:
        return None
    if kinds[0] == "cgroup2":
        version = 2
    elif kinds[0] == "cgroup" and "cpu" in kinds[2].split(","):
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


def _version_2(folder: Path) -> float | None:
    try:
        quota, period = _text(folder / "cpu.max").split()[:2]
        return _ratio(int(quota), int(period))  # "max" is no number
    except ValueError:
        return None


def _version_1(folder: Path) -> float | None:
    try:
        quota, period = (int(_text(folder / f"cpu.cfs_{name}_us")) for name in ("quota", "period"))
    except ValueError:
        return None
    return _ratio(quota, period)


def _ratio(quota: int, period: int) -> float | None:
    return quota / period if quota > 0 and period > 0 else None


_READERS = {1: _version_1, 2: _version_2}
