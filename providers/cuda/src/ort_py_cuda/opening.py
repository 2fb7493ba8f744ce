"""Preparation of a GPU for a session: starts CUDA, checks the device number, and creates the memory pool and the
copies.

Comes after `options` and `memory`; before `provider`, which hands the parts to the core.
"""

from __future__ import annotations

import os
from typing import Any

from ort_py.contracts import IStream
from ort_py.devices import Device
from ort_py.errors import EPFail
from ort_py.lazy_dataclass import dataclass
from ort_py_cuda.availability import DEVICE_KIND, examine, too_old
from ort_py_cuda.code.cache import CodeCache, session_cache
from ort_py_cuda.installed import Missing, find_cupy
from ort_py_cuda.memory.allocator import CudaAllocator
from ort_py_cuda.memory.failures import status_of
from ort_py_cuda.memory.pinned import PinnedPool
from ort_py_cuda.memory.pools import Pool, pool_for
from ort_py_cuda.memory.transfer import CudaTransfer
from ort_py_cuda.modules import cupy
from ort_py_cuda.options import Wishes
from ort_py_cuda.streams import new_stream, users_stream

__all__ = ["OpenDevice", "device_count", "open_device", "works"]

_INSUFFICIENT_DRIVER = 35
_NO_DEVICE = 100
_INITIALIZATION = 3

_started_by: int | None = None
"""The process that first used CUDA: a child that it forked cannot."""


@dataclass(frozen=True, slots=True)
class OpenDevice:
    """One GPU, ready.

    Attributes:
        device: Its number among those that CUDA shows.
        capability: Compute capability, times 10.
        pool: Its memory.
        allocator: The same, as the core asks.
        transfer: Copies to and from it.
        user_stream: The caller's stream; None where frames make their own.
        code: Cache of the kernels that were compiled for its streams.
    """

    device: Device
    capability: int
    pool: Pool
    allocator: CudaAllocator
    transfer: CudaTransfer
    user_stream: int | None
    code: CodeCache

    def new_stream(self) -> IStream:
        """The stream of one frame."""
        if self.user_stream is not None:
            return users_stream(self.device, self.user_stream, self.pool.malloc, self.code)
        return new_stream(self.device, self.pool.malloc, self.code)


def device_count() -> int:
    """Number of GPUs that CUDA shows this process. Starts CUDA.

    Raises:
        EPFail: CUDA does not start.
    """
    global _started_by  # noqa: PLW0603 - a fact about the process
    if _started_by not in {None, os.getpid()}:
        raise EPFail(
            "CUDA cannot be used in this process.",
            why=f"it was forked by process {_started_by}, which had started CUDA before",
            fix="Start processes with the method 'spawn', or make the first session after the fork.",
        )
    try:
        count = int(cupy().cuda.runtime.getDeviceCount())
    except Exception as error:  # CUDARuntimeError, whose class is CuPy's
        raise _not_started(error) from error
    _started_by = os.getpid()
    return count


def open_device(wishes: Wishes) -> OpenDevice:
    """Prepare the GPU that the options name.

    Raises:
        EPFail: CUDA does not start, there is no GPU of this number, or it cannot be used.
    """
    count = device_count()
    if wishes.device >= count:
        there = "it shows one, number 0" if count == 1 else f"it shows {count}, numbers 0 to {count - 1}"
        raise EPFail(
            f"CUDA shows no GPU of the number {wishes.device}.",
            why=there if count else "it shows none",
            fix="Set device_id to one of these; CUDA_VISIBLE_DEVICES hides and renumbers GPUs.",
        )
    device = Device(DEVICE_KIND, wishes.device)
    try:
        capability = int(cupy().cuda.Device(device.index).compute_capability)
        _check_age(device, capability)
        pool, pinned = pool_for(wishes), PinnedPool()
    except EPFail:
        raise
    except Exception as error:  # CUDARuntimeError: another process has the GPU for itself, or it is broken
        raise EPFail(
            f"GPU {device.index} cannot be used: {error}.", fix="Look at nvidia-smi, or set device_id to another GPU."
        ) from error
    return OpenDevice(
        device,
        capability,
        pool,
        CudaAllocator(pool, pinned),
        CudaTransfer(device, pool, pinned),
        wishes.user_stream,
        session_cache(wishes.cache_folder, keeps=wishes.caches),
    )


def _check_age(device: Device, capability: int) -> None:
    """Check that NVIDIA's libraries support the GPU, because the probe cannot always query its capability.

    Raises:
        EPFail: It is too old.
    """
    found = find_cupy()
    old = None if isinstance(found, Missing) else too_old(f"GPU {device.index}", divmod(capability, 10), found)
    if old is not None:
        raise EPFail(f"GPU {device.index} cannot be used.", why=old[0], fix=old[1])


def works(index: int) -> bool:
    """Return whether a GPU still computes: allocates, writes and reads memory, and waits for the device."""
    module = cupy()
    try:
        with module.cuda.Device(index) as device:
            memory: Any = module.cuda.Memory(4)
            module.cuda.runtime.memset(memory.ptr, 0, 4)
            device.synchronize()
    except Exception:  # CUDA gives the error of the lost context to every call
        return False
    return True


def _not_started(error: Exception) -> EPFail:
    """The error for a CUDA that does not start, with the present result of the probe."""
    status = status_of(error)
    found = examine()
    reasons = [str(error)]
    if not found.available:
        return EPFail("CUDA does not start.", why=[*reasons, found.reason], fix=found.fix)
    fix = "Look at nvidia-smi and at the driver's messages in the system's log."
    if status == _INSUFFICIENT_DRIVER:
        fix = "Update NVIDIA's driver: https://www.nvidia.com/drivers"
    elif status == _NO_DEVICE:
        fix = "Check CUDA_VISIBLE_DEVICES, and that a container was given a GPU."
    elif status == _INITIALIZATION:
        fix = "Start processes with the method 'spawn' where the parent uses CUDA."
    return EPFail("CUDA does not start.", why=reasons, fix=fix)
