"""Check of the available memory before calls that cannot report a failure.

OpenMP ends the process where it can start no thread, the C library where it has none for a library's variables, and
Python waits forever for a thread that finds no memory in its first steps. All of them want little: so threads are
started where there is memory for them, and what takes much leaves some. It does not depend on what it is for.
"""

from __future__ import annotations

import mmap
import os
from types import ModuleType

resource: ModuleType | None
try:
    import resource
except ImportError:  # Windows has no limits of this kind: it refuses memory when it is asked for
    resource = None

__all__ = ["has_room", "leave_room", "room_for_threads"]

_LEAST = 8 << 20
_BESIDE = 4 << 20
"""Bytes that a thread takes beside its stack: a heap of its own, and what its libraries keep for each thread."""

_MUCH = 1 << 20
_LEFT = 16 << 20
"""Bytes that are left for what others allocate in small pieces."""

_UNITS = {"B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def has_room(nbytes: int) -> bool:
    """Return whether so many bytes can be had now."""
    try:
        mmap.mmap(-1, max(1, nbytes)).close()
    except (OSError, MemoryError):
        return False
    return True


def leave_room(nbytes: int = _MUCH) -> None:
    """Refuse to take so many bytes where too few would be left.

    Few bytes are not looked at, and many only where the process is limited: else the system refuses them itself.

    Raises:
        MemoryError: There is not enough memory.
    """
    if nbytes < _MUCH or _limit("RLIMIT_AS") is None:
        return
    if not has_room(nbytes + _LEFT):
        raise MemoryError(f"There is no memory for {nbytes / 2**20:.0f} MiB more, and {_LEFT >> 20} MiB beside.")


def room_for_threads(count: int) -> bool:
    """Return whether so many threads can be started now."""
    return count <= 0 or has_room(count * (_stack() + _BESIDE))


def _stack() -> int:
    """Bytes of a thread's stack, at least."""
    found = max(_LEAST, _limit("RLIMIT_STACK") or 0)
    for name in ("OMP_STACKSIZE", "GOMP_STACKSIZE"):
        text = os.environ.get(name, "").strip().upper()
        unit = _UNITS.get(text[-1:])
        digits = text[:-1].strip() if unit else text
        if digits.isdigit():
            found = max(found, int(digits) * (unit or _UNITS["K"]))
    return found


def _limit(name: str) -> int | None:
    """A limit of this process; None where there is none."""
    if resource is None:
        return None
    found = int(resource.getrlimit(getattr(resource, name))[0])
    return None if found == resource.RLIM_INFINITY else found
