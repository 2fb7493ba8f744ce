"""The fake device itself: memory with a cap, which is poisoned when it is freed. Does not know arrays.

Memory is reused as a device's pool does it: what is dropped is free at once for later work of the same stream. The
poison is queued at the same moment, so it destroys what was dropped too early and nothing else. Queued work holds the
bytes, never the array: an array the engine drops is gone, whatever is still queued.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

import numpy as np

from ort_py.contracts import AllocatorStats
from ort_py.devices import Device
from ort_py_kit.fake_stream import FakeStream

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
        self.module: object = None
        """Its array module: `fake_module`, which knows this module, puts it here on first use."""

    def create_stream(self) -> FakeStream:
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
