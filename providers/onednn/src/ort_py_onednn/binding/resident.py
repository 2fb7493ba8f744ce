"""Memory of the library's file that only opening the library takes, or choosing primitives.

While the library is opened, it sets up tables all over its 40 MB, and a plan's primitives are chosen by asking dozens
of implementations each. The system maps sixteen pages of the file around each that is reached, a quarter of the
library, and counts them as the process's memory. Most of it never runs again. It is given back here, and what does run
is mapped again, from memory: files that are open stay in the system's cache.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import lru_cache

_MADV_DONTNEED = 4


def release(path: str) -> None:
    """Give back the pages of a library's code, on Linux. No byte of them changes: code is never written to.

    Args:
        path: The library, which is open and stays so.
    """
    for begin, size in _code(path):
        ctypes.CDLL(None).madvise(ctypes.c_void_p(begin), ctypes.c_size_t(size), _MADV_DONTNEED)


@lru_cache(maxsize=1)
def _code(path: str) -> tuple[tuple[int, int], ...]:
    """Where the code begins, and its bytes."""
    if not sys.platform.startswith("linux"):
        return ()
    try:
        with open("/proc/self/maps", "rb") as file:
            lines = file.read().splitlines()
    except OSError:  # a sandbox may forbid it
        return ()
    name = os.fsencode(os.path.realpath(path))
    found = []
    for line in lines:
        if line.endswith(name):
            span, rights, *_ = line.split(None, 2)
            if rights == b"r-xp":  # tables with addresses were written to, and are not like the file
                begin, end = (int(part, 16) for part in span.split(b"-"))
                found.append((begin, end - begin))
    return tuple(found)
