"""Machine code of a few bytes in memory of its own: written first, then made executable, never both at once.

The memory is never freed, not even when the interpreter ends: objects that outlive their modules still call the code
when they are collected.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

from ort_py_onednn.binding._dnnl import ffi

__all__ = ["executable", "keep_until_exit"]


def keep_until_exit(owner: object) -> None:
    """Keep an object until the process ends, whatever the interpreter frees when it is finalised."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))


def executable(code: bytes, mprotect: Any) -> int:
    """Put code where it can run, for as long as the process lives.

    Args:
        code: At most a page.
        mprotect: The system's function.

    Returns:
        Its address; 0 where the system allows no executable memory.
    """
    memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    memory.write(code)
    place = ffi.from_buffer(memory)
    if mprotect(place, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_EXEC):
        return 0
    keep_until_exit(memory)
    return int(ffi.cast("intptr_t", place))
