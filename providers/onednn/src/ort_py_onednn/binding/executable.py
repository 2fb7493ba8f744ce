"""Machine code of a few bytes in memory of its own: written first, then made executable, never both at once."""

from __future__ import annotations

import mmap
from typing import Any

from ort_py_onednn.binding._dnnl import ffi

__all__ = ["executable"]


def executable(code: bytes, mprotect: Any) -> tuple[int, Any]:
    """Put code where it can run.

    Args:
        code: At most a page.
        mprotect: The system's function.

    Returns:
        Its address, and what must be kept for as long as it may run; (0, None) where the system allows no executable
        memory.
    """
    memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    memory.write(code)
    place = ffi.from_buffer(memory)
    if mprotect(place, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_EXEC):
        return 0, None
    return int(ffi.cast("intptr_t", place)), (memory, place)
