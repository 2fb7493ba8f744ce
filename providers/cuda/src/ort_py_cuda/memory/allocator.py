"""The allocator that the core asks: blocks for its arenas, figures for its reports, memory given back.

Comes after `pools`. It does not depend on streams: the one that is current when memory is asked for is the one whose
work may use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_py.contracts import AllocatorStats, FailureKind, IAllocator
from ort_py.contracts.graph_view import Array
from ort_py_cuda.memory.failures import failure_kind
from ort_py_cuda.memory.pinned import PinnedPool
from ort_py_cuda.memory.pools import Pool
from ort_py_cuda.modules import cupy

__all__ = ["CudaAllocator"]


class CudaAllocator(IAllocator):
    """Memory of one GPU.

    Args:
        pool: Where its memory comes from.
        pinned: Host memory for copies, given back together with the device's.
    """

    def __init__(self, pool: Pool, pinned: PinnedPool) -> None:
        self._pool = pool
        self._pinned = pinned

    def empty(self, shape: Sequence[int], dtype: Any) -> Array:
        """An uninitialised array for work of the current stream.

        Raises:
            MemoryError: There is not as much, or not within the limit.
        """
        module = cupy()
        with module.cuda.Device(self._pool.device), module.cuda.using_allocator(self._pool.malloc):
            try:
                array: Array = module.empty(tuple(shape), np.dtype(dtype))
            except Exception as error:  # CuPy's, or that of the functions memory comes from
                if isinstance(error, MemoryError) or failure_kind(error) is not FailureKind.OUT_OF_MEMORY:
                    raise
                raise MemoryError(str(error)) from error
        return array

    def trim(self) -> int:
        """Give unused device memory back; pinned memory too, which is not counted."""
        self._pinned.trim()
        return self._pool.trim()

    def stats(self) -> AllocatorStats:
        """Statistics of the pool, bytes handed out and bytes held; of all sessions that share it."""
        return AllocatorStats(self._pool.used_bytes(), self._pool.reserved_bytes())

    def close(self) -> None:
        """Release unused memory, unless another session shares the pool."""
        self._pinned.trim()
        self._pool.leave()
