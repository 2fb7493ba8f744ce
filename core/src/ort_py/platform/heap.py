"""The C library's heap: memory that runs free is kept for the next run, and released on request.

glibc returns the top of the heap to the system whenever a large array is freed, and the next one of the same size costs
page faults again: creating an array of 2 MB takes forty times as long as using it. Arrays come from NumPy, so this is
the one place to change that. Only glibc has the calls; elsewhere nothing is done. This module knows no session.

A session is made of thousands of small pieces, and the system takes 2 µs on a virtual machine for each page that they
reach first. It takes a fifth of that where it may give huge pages, so the heap asks for them ahead.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
from typing import Any

from ort_py.platform.headroom import addresses_limited

_MIB = 1 << 20

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
"""Numbers of mallopt's parameters, from glibc's ``malloc.h``."""

_KEPT = 256 * _MIB
"""Free bytes at the top of the heap above which glibc gives back."""

_FROM_HEAP = 32 * _MIB
"""Arrays below this size come from the heap, the most that glibc allows; larger ones are mapped and unmapped."""

_AHEAD = 32 * _MIB
"""Addresses that the heap gets at once, for huge pages: enough for a small model and its runs. Those that nothing is
written to take no memory."""

_USUAL_PAD = 128 << 10
"""What glibc adds to each request of more heap."""

_HUGE_PAGE = 2 * _MIB
_MADV_HUGEPAGE = 14

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
    kept = bool(library.mallopt(_MMAP_THRESHOLD, _FROM_HEAP) and library.mallopt(_TRIM_THRESHOLD, _KEPT))
    if kept and not addresses_limited():
        _use_huge_pages(library)
    return kept


def _use_huge_pages(library: Any) -> None:
    """Enlarge the heap at once, and let the system use huge pages for what is new, which it may refuse."""
    begin = library.sbrk(0)
    library.mallopt(_TOP_PAD, _AHEAD)
    library.free(library.malloc(_MIB))  # no array of this size is mapped any more, so the heap may have to grow
    library.mallopt(_TOP_PAD, _USUAL_PAD)
    begin, end = -(-begin // _HUGE_PAGE) * _HUGE_PAGE, library.sbrk(0) // _HUGE_PAGE * _HUGE_PAGE
    if begin < end:  # other threads than the first have heaps elsewhere
        library.madvise(begin, end - begin, _MADV_HUGEPAGE)


def give_back() -> bool:
    """Return free memory of the heap to the system. Returns True if any was returned."""
    library = _glibc()
    return library is not None and bool(library.malloc_trim(0))


@functools.cache
def give_back_once() -> bool:
    """Do the same after the first session of a process was made: later ones would take memory from runs of others.

    A first session imports hundreds of modules and optimises a model, which leaves holes all over the heap.
    """
    return give_back()


@functools.cache
def _glibc() -> Any:
    """The C library of this process where it has both calls, else None."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    if not (hasattr(library, "mallopt") and hasattr(library, "malloc_trim")):
        return None
    library.mallopt.argtypes = (ctypes.c_int, ctypes.c_int)
    library.malloc_trim.argtypes = library.malloc.argtypes = (ctypes.c_size_t,)
    library.malloc.restype = library.sbrk.restype = ctypes.c_void_p
    library.free.argtypes, library.sbrk.argtypes = (ctypes.c_void_p,), (ctypes.c_ssize_t,)
    library.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return library
