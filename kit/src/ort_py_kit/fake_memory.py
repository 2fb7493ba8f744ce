"""The fake device itself: memory that is poisoned when it is freed, an allocator with a cap, copies to and from it.

Memory is reused as a device's pool does it: what is dropped is free at once for later work of the same stream. The
poison is queued at the same moment, so it destroys what was dropped too early and nothing else. Queued work holds the
bytes, never the array: an array the engine drops is gone, whatever is still queued.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ort_py.contracts import AllocatorStats, IAllocator, IDataTransfer, IStream
from ort_py.devices import HOST, Device
from ort_py_kit.fake_stream import FakeStream

if TYPE_CHECKING:
    from ort_py_kit.fake_module import FakeModule

__all__ = ["POISON", "FakeAllocator", "FakeDevice", "FakeTransfer", "Memory"]

POISON = 0xFF
"""Every byte of memory that was not written yet: NaN in all floating types, -1 in the signed integers."""

_SMALLEST_BLOCK = 64


class Memory:
    """One block of device memory. Dropping the last reference gives it back to its stream."""

    __slots__ = ("__weakref__", "block", "nbytes", "stream")

    def __init__(self, block: np.ndarray[Any, Any], nbytes: int, stream: FakeStream) -> None:
        self.block = block
        self.nbytes = nbytes
        self.stream = stream

    def __del__(self) -> None:
        self.stream.owner.free(self.block, self.stream)


class FakeDevice:
    """A device without hardware. One per provider; its streams and arrays refer to it.

    Args:
        index: Number of the device.
        capacity: Bytes it has; None for no limit.
        largest: Bytes one allocation may take; None for no limit.
    """

    def __init__(self, index: int = 0, *, capacity: int | None = None, largest: int | None = None) -> None:
        self.device = Device("fake", index)
        self.capacity = capacity
        self.largest = largest
        self._lock = threading.Lock()
        self._free: dict[tuple[FakeStream, int], list[np.ndarray[Any, Any]]] = {}
        self._returned: deque[tuple[np.ndarray[Any, Any], FakeStream]] = deque()
        self._in_use = 0
        self._reserved = 0
        self._current = threading.local()
        self.module: FakeModule | None = None
        """Its array module, made on first use."""

    def create_stream(self) -> FakeStream:
        """A new stream."""
        return FakeStream(self)

    def push_stream(self, stream: FakeStream) -> None:
        """Make a stream the current one of this thread."""
        self._stack().append(stream)

    def pop_stream(self, stream: FakeStream) -> None:
        """End what `push_stream` began."""
        left = self._stack().pop()
        assert left is stream, "streams were left in another order than they were entered"

    @property
    def current_stream(self) -> FakeStream:
        """The current stream of this thread.

        Raises:
            RuntimeError: None is; a kernel ran outside its frame's stream.
        """
        stack = self._stack()
        if not stack:
            raise RuntimeError(f"No stream of {self.device} is current on this thread.")
        return stack[-1]

    def _stack(self) -> list[FakeStream]:
        stack: list[FakeStream] | None = getattr(self._current, "stack", None)
        if stack is None:
            stack = self._current.stack = []
        return stack

    def allocate(self, nbytes: int, stream: FakeStream) -> Memory:
        """Memory whose content is poison, for work on `stream`.

        Raises:
            MemoryError: The device does not have that much.
        """
        size = max(_SMALLEST_BLOCK, 1 << max(0, nbytes - 1).bit_length())
        if self.largest is not None and nbytes > self.largest:
            raise MemoryError(f"{self.device} cannot give {nbytes} bytes at once")
        with self._lock:
            self._sort_returned()
            idle = self._free.get((stream, size))
            if idle:
                block = idle.pop()
            else:
                if self.capacity is not None and self._reserved + size > self.capacity:
                    self._forget_free()  # what other streams and sizes have left
                if self.capacity is not None and self._reserved + size > self.capacity:
                    raise MemoryError(f"{self.device} is full: {self._reserved} of {self.capacity} bytes are taken")
                block = np.full(size, POISON, np.uint8)
                self._reserved += size
            self._in_use += size
        return Memory(block, nbytes, stream)

    def free(self, block: np.ndarray[Any, Any], stream: FakeStream) -> None:
        """Take memory back: poisoned in stream order, and at once free for later work of the stream.

        Called by the garbage collector at any point of any thread, hence without a lock.
        """
        stream.enqueue(lambda: block.fill(POISON))
        self._returned.append((block, stream))

    def trim(self) -> int:
        """Forget all free memory; returns its bytes."""
        with self._lock:
            self._sort_returned()
            return self._forget_free()

    @property
    def stats(self) -> AllocatorStats:
        """Bytes in use and reserved."""
        with self._lock:
            self._sort_returned()
            return AllocatorStats(self._in_use, self._reserved)

    def _sort_returned(self) -> None:
        while self._returned:
            block, stream = self._returned.popleft()
            self._in_use -= block.size
            self._free.setdefault((stream, block.size), []).append(block)

    def _forget_free(self) -> int:
        given_back = sum(block.size for blocks in self._free.values() for block in blocks)
        self._free.clear()
        self._reserved -= given_back
        return given_back


class FakeAllocator(IAllocator):
    """Arrays on a fake device, for the current stream."""

    def __init__(self, owner: FakeDevice) -> None:
        self._owner = owner

    def empty(self, shape: Sequence[int], dtype: Any) -> Any:
        from ort_py_kit.fake_array import empty_array

        return empty_array(self._owner, tuple(shape), np.dtype(dtype), self._owner.current_stream)

    def trim(self) -> int:
        return self._owner.trim()

    def stats(self) -> AllocatorStats:
        return self._owner.stats


class FakeTransfer(IDataTransfer):
    """Copies between the host and a fake device. A copy to the host has poison in it until its stream is waited for.

    Attributes:
        copies: (source, target, bytes) of each copy made so far.
    """

    def __init__(self, owner: FakeDevice) -> None:
        self._owner = owner
        self.copies: list[tuple[Device, Device, int]] = []

    def can_copy(self, source: Device, target: Device) -> bool:
        return (source, target) in ((HOST, self._owner.device), (self._owner.device, HOST))

    def copy(self, array: Any, source: Device, target: Device, stream: IStream | None) -> Any:
        from ort_py_kit.fake_array import FakeArray, empty_array

        assert isinstance(stream, FakeStream), f"a copy from {source} to {target} was given no stream"
        assert stream.owner is self._owner, f"a copy from {source} to {target} was given a stream of {stream.device}"
        if target == HOST:
            assert isinstance(array, FakeArray), f"{type(array).__name__} is not on {source}"
            assert array.owner is self._owner, f"the array is on {array.owner.device}, not on {source}"
            result = poisoned(array.shape, array.dtype)
            raw = array.raw
            stream.enqueue(lambda: np.copyto(result, raw))
            self.copies.append((source, target, result.nbytes))
            return result
        assert isinstance(array, np.ndarray | np.generic), f"{type(array).__name__} is not on the host"
        snapshot = np.array(array, order="C")  # the host may overwrite its array as soon as the call returns
        copied = empty_array(self._owner, snapshot.shape, snapshot.dtype, stream)
        goal = copied.raw
        stream.enqueue(lambda: np.copyto(goal, snapshot))
        self.copies.append((source, target, snapshot.nbytes))
        return copied


def poisoned(shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """A host array of poison."""
    nbytes = math.prod(shape) * dtype.itemsize
    return np.full(nbytes, POISON, np.uint8).view(dtype).reshape(tuple(shape))
