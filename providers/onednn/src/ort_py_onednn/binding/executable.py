"""Machine code of a few bytes in memory of its own: written first, then made executable, never both at once.

The memory is never freed, not even when the interpreter ends: objects that outlive their modules still call the code
when they are collected.
"""

from __future__ import annotations

import ctypes
import mmap

from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.library import WINDOWS

__all__ = ["executable", "keep_until_exit"]


def keep_until_exit(owner: object) -> None:
    """Keep an object until the process ends, whatever the interpreter frees when it is finalised."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))


def executable(code: bytes) -> int:
    """Put a function where C code can call it, for as long as the process lives.

    Args:
        code: The function, for System V: with up to four arguments, which are integers or addresses.

    Returns:
        Its address; 0 where the system allows no executable memory.
    """
    if WINDOWS:
        from ort_py_onednn.binding import win64, windows

        return windows.placed(*win64.entered(code))
    size = -(-len(code) // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, size, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    memory.write(code)
    place = ffi.from_buffer(memory)
    address = int(ffi.cast("intptr_t", place))
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    if protect(address, size, mmap.PROT_READ | mmap.PROT_EXEC):
        return 0
    keep_until_exit(memory)
    return address
