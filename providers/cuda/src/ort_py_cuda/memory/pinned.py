"""Host memory that the device reads and writes by itself: what copies that do not wait go through.

A block is a NumPy array of bytes over memory that CUDA has locked. Whoever has one keeps it until the device is done
with it: dropping it makes it available to the next request. Comes before `staging`, which does the keeping.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from ort_py_cuda.modules import cupy

__all__ = ["PinnedBlock", "PinnedPool"]

_logger = logging.getLogger("ort_py_cuda.memory")
_SMALLEST = 4096


class PinnedBlock:
    """Some locked memory.

    Attributes:
        address: Of its first byte.
        content: Its bytes.
    """

    __slots__ = ("_memory", "address", "content")

    def __init__(self, memory: Any, nbytes: int) -> None:
        self._memory = memory  # goes back to its pool when it is dropped
        self.address = int(memory.ptr)
        self.content: np.ndarray[Any, np.dtype[np.uint8]] = np.frombuffer(memory, np.uint8, nbytes)


class PinnedPool:
    """Locked memory of a session, kept for reuse in sizes of powers of two."""

    def __init__(self) -> None:
        self._pool = cupy().cuda.PinnedMemoryPool()
        self._short = False

    def take(self, nbytes: int) -> PinnedBlock | None:
        """A block of so many bytes; None where the system locks no more, which is said once."""
        size = max(_SMALLEST, 1 << (nbytes - 1).bit_length())
        try:
            memory = self._pool.malloc(size)
        except Exception as error:  # CUDARuntimeError, whose class is CuPy's
            if not self._short:
                self._short = True
                _logger.warning("%s bytes cannot be locked (%s): copies wait for the device", size, error)
            return None
        return PinnedBlock(memory, nbytes)

    def trim(self) -> None:
        """Give unused blocks back to the system."""
        self._pool.free_all_blocks()
