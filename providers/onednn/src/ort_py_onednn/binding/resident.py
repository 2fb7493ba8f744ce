"""Memory of the library's file that only opening it takes.

While the library is opened, it sets up tables all over its 40 MB. The system maps sixteen pages of the file around each
that is reached, a quarter of the library, and counts them as the process's memory. Most of it never runs. It is given
back here, and what does run is mapped again, from memory: files that are open stay in the system's cache.
"""

from __future__ import annotations

import ctypes
import os
import sys

_MADV_DONTNEED = 4


def release(path: str) -> None:
    """Give back the pages of a library's code, on Linux. No byte of them changes: code is never written to.

    Args:
        path: The library, just opened.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        with open("/proc/self/maps", "rb") as file:
            lines = file.read().splitlines()
    except OSError:  # a sandbox may forbid it
        return
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    name = os.fsencode(os.path.realpath(path))
    for line in lines:
        if line.endswith(name):
            span, rights, *_ = line.split(None, 2)
            if rights == b"r-xp":  # tables with addresses were written to, and are not like the file
                begin, end = (int(part, 16) for part in span.split(b"-"))
                advise(begin, end - begin, _MADV_DONTNEED)
