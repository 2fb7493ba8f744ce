"""Sources of device memory: CuPy's pool, cudaMallocAsync, or functions of the caller.

CuPy's pool keeps what is freed for later work of the same stream, so memory dropped while work is queued is safe. The
sessions of a process share one pool a device, unless one sets a limit: its pool is its own, as onnxruntime's arena is.
It uses CuPy only through `modules`, and does not depend on sessions. Comes before `allocator`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from ort_py.errors import EPFail
from ort_py.lazy_dataclass import dataclass
from ort_py.platform.forks import ProcessLock
from ort_py_cuda.modules import cupy
from ort_py_cuda.options import ExternalAllocator, Wishes

__all__ = ["Pool", "pool_for"]

_lock = ProcessLock()
_shared: dict[tuple[int, bool], Pool] = {}


@dataclass(slots=True)
class Pool:
    """Device memory of one device.

    Attributes:
        device: Number of the GPU.
        malloc: CuPy's form of an allocator: bytes in, memory pointer out.
        kind: ``"pool"``, ``"async"`` or ``"external"``.
        limit: Bytes it may take; None for no limit.
        users: Sessions that use it.
    """

    device: int
    malloc: Callable[[int], Any]
    kind: str
    limit: int | None
    _pool: Any
    _empty: Callable[[], None] | None = None
    users: int = 0

    def used_bytes(self) -> int:
        """Bytes handed out; 0 if they are not counted."""
        return self._ask("used_bytes")

    def reserved_bytes(self) -> int:
        """Bytes taken from the device; 0 if they are not counted."""
        return self._ask("total_bytes")

    def trim(self) -> int:
        """Give what is free back to the device; returns the bytes given back, as far as the pool counts them."""
        before = self.reserved_bytes()
        with cupy().cuda.Device(self.device):
            if self._empty is not None:
                self._empty()
            elif self._pool is not None:
                self._pool.free_all_blocks()
        return max(0, before - self.reserved_bytes())

    def leave(self) -> None:
        """A session ends: the last one gives back what is free, so that closing one does not slow the others."""
        with _lock.held():
            self.users -= 1
            last = self.users <= 0
        if last:
            self.trim()

    def _ask(self, name: str) -> int:
        if self._pool is None or (self.kind == "async" and not self._pool.memoryAsyncHasStat):
            return 0
        with cupy().cuda.Device(self.device):
            return int(getattr(self._pool, name)())


def pool_for(wishes: Wishes) -> Pool:
    """The pool of a session.

    Raises:
        EPFail: The device has no cudaMallocAsync.
    """
    with _lock.held():
        key = (wishes.device, wishes.asynchronous)
        if wishes.external is not None:
            pool = _external(wishes.device, wishes.external)
        elif wishes.memory_limit is not None:
            pool = _made(wishes.device, asynchronous=wishes.asynchronous, limit=wishes.memory_limit)
        elif key in _shared:
            pool = _shared[key]
        else:
            pool = _shared[key] = _made(wishes.device, asynchronous=wishes.asynchronous, limit=None)
        pool.users += 1
        return pool


def _made(device: int, *, asynchronous: bool, limit: int | None) -> Pool:
    cuda = cupy().cuda
    with cuda.Device(device) as current:
        if asynchronous and not current.attributes.get("MemoryPoolsSupported", 1):
            raise EPFail(
                f"GPU {device} has no cudaMallocAsync.",
                why="its driver says that it supports no memory pools",
                fix="Leave the option allocator at 'pool'.",
            )
        pool = cuda.MemoryAsyncPool() if asynchronous else cuda.MemoryPool()
        if limit is not None:
            pool.set_limit(size=limit)
    return Pool(device, pool.malloc, "async" if asynchronous else "pool", limit, pool)


def _external(device: int, functions: ExternalAllocator) -> Pool:
    """Memory of C functions: what others' arenas (torch's) hand out is counted there."""
    allocate = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(functions.allocate)
    free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(functions.free)

    def malloc(size: int, _device: int) -> int:
        address = allocate(size)
        if not address:
            raise MemoryError(f"gpu_external_alloc gave no {size:,} bytes")
        return int(address)

    def release(address: int, _device: int) -> None:
        free(address)

    allocator = cupy().cuda.PythonFunctionAllocator(malloc, release)
    empty = ctypes.CFUNCTYPE(None)(functions.empty_cache) if functions.empty_cache else None
    return Pool(device, allocator.malloc, "external", None, None, empty)
