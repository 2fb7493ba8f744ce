"""The C library's heap: memory that runs free is kept for the next run, and released on request.

glibc returns the top of the heap to the system whenever a large array is freed, and the next one of the same size costs
page faults again: creating an array of 2 MB takes forty times as long as using it. Arrays come from NumPy, so this is
the one place to change that. Only glibc has the calls; elsewhere nothing is done. This module knows no session.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
from typing import Any

_MIB = 1 << 20

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Numbers of mallopt's parameters, from glibc's ``malloc.h``."""

_KEPT = 256 * _MIB
"""Free bytes at the top of the heap above which glibc gives back."""

_FROM_HEAP = 32 * _MIB
"""Arrays below this size come from the heap, the most that glibc allows; larger ones are mapped and unmapped."""

_CHOSEN_ELSEWHERE = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "GLIBC_TUNABLES")
"""Environment variables by which an operator has decided about the heap."""

_lock = threading.Lock()


def keep_freed_memory() -> bool:
    """Let the process keep up to 256 MiB that it freed. This happens once per process; later calls return the result of
    the first.

    Returns:
        Whether the heap is kept: False on other C libraries, and if the environment configures it.
    """
    with _lock:
        return _keep()


@functools.cache
def _keep() -> bool:
    library = _glibc()
    if library is None or any(name in os.environ for name in _CHOSEN_ELSEWHERE):
        return False
    return bool(library.mallopt(_MMAP_THRESHOLD, _FROM_HEAP) and library.mallopt(_TRIM_THRESHOLD, _KEPT))


def give_back() -> bool:
    """Return free memory of the heap to the system. Returns True if any was returned."""
    library = _glibc()
    return library is not None and bool(library.malloc_trim(0))


@functools.cache
def _glibc() -> Any:
    """The C library of this process where it has both calls, else None."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    if not (hasattr(library, "mallopt") and hasattr(library, "malloc_trim")):
        return None
    library.mallopt.argtypes = (ctypes.c_int, ctypes.c_int)
    library.malloc_trim.argtypes = (ctypes.c_size_t,)
    return library
