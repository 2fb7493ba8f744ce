"""Copies between the host and GPUs, and between GPUs. None of them waits for the device where it need not.

To the device: the bytes are copied to pinned memory at once, so that the caller may change or drop the array, and go on
from there when the stream gets to it. To the host: the bytes arrive in pinned memory, and whoever waits for the stream
moves them to the array that was promised: results are plain memory, which a fork or a long-lived caller does not lock.
What is larger than a part goes in parts through two blocks, so that locked memory stays small.

Pageable memory is never handed to CUDA: whether it reads it before or after the call returns depends on the machine.
Comes after `pinned`, `staging` and the streams.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from ort_py.contracts import IDataTransfer, IStream
from ort_py.contracts.graph_view import Array
from ort_py.devices import HOST, Device
from ort_py.errors import EPFail
from ort_py_cuda.memory.pinned import PinnedPool
from ort_py_cuda.memory.pools import Pool
from ort_py_cuda.modules import cupy
from ort_py_cuda.streams import CudaStream, new_stream

__all__ = ["CudaTransfer"]

_PART = 16 << 20
"""Bytes that are copied through one pinned block; the bus is busy with one part while the host fills the next."""

_WHOLE = 64 << 20
"""Bytes up to which a result comes to the host without a wait."""


class CudaTransfer(IDataTransfer):
    """Copies of one session.

    Args:
        device: Its GPU.
        pool: Memory of that GPU.
        pinned: Locked memory of the host.
    """

    def __init__(self, device: Device, pool: Pool, pinned: PinnedPool) -> None:
        self._device = device
        self._pool = pool
        self._pinned = pinned

    def can_copy(self, source: Device, target: Device) -> bool:
        """Between the host and the GPU, and to and from other GPUs."""
        if source == target or self._device not in {source, target}:
            return False
        other = target if source == self._device else source
        return other == HOST or other.kind == self._device.kind

    def copy(self, array: Array, source: Device, target: Device, stream: IStream | None) -> Array:
        """A copy, ordered on the stream; see `IDataTransfer`.

        Raises:
            MemoryError: The target has no room.
            EPFail: The array's type is none that the device holds.
        """
        with self._on(stream) as ours:
            if source == HOST:
                return self._upload(np.asarray(array), ours)
            if target == HOST:
                return self._download(array, ours)
            return self._across(array, source, target, ours)

    @contextlib.contextmanager
    def _on(self, stream: IStream | None) -> Iterator[CudaStream]:
        """The stream to copy on, current; one of its own, waited for, where there is none of ours."""
        if isinstance(stream, CudaStream):
            with stream:
                yield stream
            return
        if stream is not None:
            stream.synchronize()  # the memory is another provider's: its writes must be complete
        with new_stream(self._device, self._pool.malloc) as own:
            yield own
            own.synchronize()

    def _upload(self, array: np.ndarray[Any, Any], stream: CudaStream) -> Array:
        module = cupy()
        try:
            made = module.empty(array.shape, array.dtype)
        except (TypeError, ValueError) as error:
            raise EPFail(
                f"{self._device} holds no arrays of {array.dtype}.",
                why=str(error),
                fix="Run the nodes that read it on the CPU.",
            ) from error
        if not made.nbytes:
            return made
        stream.staging.release_passed()
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        kind = module.cuda.runtime.memcpyHostToDevice
        waiting: list[Any] = []  # the event behind each part
        blocks: list[Any] = []
        for number, (start, stop) in enumerate(_parts(made.nbytes)):
            if number < 2:
                block = self._pinned.take(stop - start)
                if block is None:
                    self._upload_slowly(raw, made, start, stream)
                    return made
                blocks.append(block)
            else:
                waiting[number - 2].synchronize()  # its block is read, and may be filled again
                block = blocks[number % 2]
            block.content[: stop - start] = raw[start:stop]
            module.cuda.runtime.memcpyAsync(made.data.ptr + start, block.address, stop - start, kind, stream.handle)
            waiting.append(stream.record())
        stream.staging.keep(waiting[-1], *blocks)
        return made

    def _upload_slowly(self, raw: np.ndarray[Any, Any], made: Any, start: int, stream: CudaStream) -> None:
        """From pageable memory, and wait: nothing could be locked."""
        runtime = cupy().cuda.runtime
        nbytes = raw.nbytes - start
        runtime.memcpyAsync(
            made.data.ptr + start, raw.ctypes.data + start, nbytes, runtime.memcpyHostToDevice, stream.handle
        )
        stream.synchronize()

    def _download(self, array: Any, stream: CudaStream) -> Array:
        module = cupy()
        given = module.ascontiguousarray(array).reshape(array.shape)
        made: np.ndarray[Any, Any] = np.empty(given.shape, given.dtype)
        if not made.nbytes:
            return made
        stream.staging.release_passed()
        raw = made.reshape(-1).view(np.uint8)
        if made.nbytes > _WHOLE:
            self._download_in_parts(given, raw, stream)
            return made
        block = self._pinned.take(made.nbytes)
        kind = module.cuda.runtime.memcpyDeviceToHost
        if block is None:
            module.cuda.runtime.memcpyAsync(raw.ctypes.data, given.data.ptr, made.nbytes, kind, stream.handle)
            stream.synchronize()
            return made
        module.cuda.runtime.memcpyAsync(block.address, given.data.ptr, made.nbytes, kind, stream.handle)

        def arrive() -> None:
            raw[:] = block.content

        stream.staging.finish_with(arrive)
        return made

    def _download_in_parts(self, given: Any, raw: np.ndarray[Any, Any], stream: CudaStream) -> None:
        """Wait for each part while the next is on its way."""
        runtime = cupy().cuda.runtime
        blocks = [self._pinned.take(_PART), self._pinned.take(_PART)]
        on_its_way: list[tuple[Any, Any, int, int]] = []

        def arrive() -> None:
            event, block, start, stop = on_its_way.pop(0)
            event.synchronize()
            raw[start:stop] = block.content[: stop - start]

        for (start, stop), block in zip(_parts(raw.nbytes), itertools.cycle(blocks), strict=False):
            if block is None:
                runtime.memcpyAsync(
                    raw.ctypes.data + start,
                    given.data.ptr + start,
                    stop - start,
                    runtime.memcpyDeviceToHost,
                    stream.handle,
                )
                stream.synchronize()
                continue
            if len(on_its_way) == 2:
                arrive()
            runtime.memcpyAsync(
                block.address, given.data.ptr + start, stop - start, runtime.memcpyDeviceToHost, stream.handle
            )
            on_its_way.append((stream.record(), block, start, stop))
        while on_its_way:
            arrive()

    def _across(self, array: Any, source: Device, target: Device, stream: CudaStream) -> Array:
        """From GPU to GPU, through the host where the two cannot reach each other: the driver's decision."""
        module = cupy()
        cuda = module.cuda
        with cuda.Device(source.index):
            given = module.ascontiguousarray(array).reshape(array.shape)
        with cuda.Device(target.index):
            made = module.empty(given.shape, given.dtype)
            # Memory of the target may still be read by work of the target's own stream, from before it was dropped.
            free = cuda.Event(disable_timing=True)
            free.record(cuda.get_current_stream())
        stream.native.wait_event(free)
        if made.nbytes:
            cuda.runtime.memcpyPeerAsync(
                made.data.ptr, target.index, given.data.ptr, source.index, made.nbytes, stream.handle
            )
            stream.staging.release_passed()
            stream.staging.keep(stream.record(), given)
        return made


def _parts(nbytes: int) -> Iterator[tuple[int, int]]:
    for start in range(0, nbytes, _PART):
        yield start, min(start + _PART, nbytes)
