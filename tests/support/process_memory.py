"""Memory of this process, from Linux' ``/proc``; 0 on systems without it.

For tests and benchmarks that measure from inside a process. Knows nothing of ort-py.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

__all__ = ["peak_resident_bytes", "private_bytes", "resident_bytes", "shared_bytes", "virtual_bytes", "written_bytes"]


def private_bytes() -> int:
    """Bytes that no other process shares: what was written to, and clean pages of data files.

    Clean pages of programs and libraries are left out: the kernel counts them as shared while any other process maps
    the same file and as private once that one ends, so tens of MiB come and go with whatever else the machine runs.
    """
    dirty = 0
    clean: dict[str, int] = defaultdict(int)
    programs = set()
    mapped = ""
    for line in _lines_of("smaps"):
        first, _, rest = line.partition(" ")
        if first == "Private_Dirty:":
            dirty += int(rest.split()[0]) << 10
        elif first == "Private_Clean:":
            clean[mapped] += int(rest.split()[0]) << 10
        elif not first.endswith(":"):  # "start-end permissions offset device inode path"
            permissions, *_, mapped = (*rest.split(maxsplit=4), "")[:5]
            if "x" in permissions:
                programs.add(mapped)
    return dirty + sum(size for name, size in clean.items() if name not in programs or not name)


def written_bytes() -> int:
    """Bytes that this process alone has written to; asking makes few objects, so that it can be asked after a fork."""
    return _sum("smaps_rollup", "Private_Dirty")


def shared_bytes() -> int:
    """Bytes that another process maps too."""
    return _sum("smaps_rollup", "Shared_Clean", "Shared_Dirty")


def resident_bytes() -> int:
    """Bytes that are in memory now."""
    return _sum("status", "VmRSS")


def peak_resident_bytes() -> int:
    """The most bytes that were ever in memory."""
    return _sum("status", "VmHWM")


def virtual_bytes() -> int:
    """Bytes of addresses that are mapped, whether in memory or not."""
    return _sum("status", "VmSize")


def _lines_of(file: str) -> list[str]:
    path = Path("/proc/self", file)
    return path.read_text().splitlines() if path.exists() else []


def _sum(file: str, *names: str) -> int:
    """The sum of some lines of a file in ``/proc/self``."""
    found = (line.partition(":") for line in _lines_of(file))
    return sum(int(rest.split()[0]) << 10 for name, _, rest in found if name in names)
