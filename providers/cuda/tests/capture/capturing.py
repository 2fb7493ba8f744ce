"""The stand-in machine with streams that can be captured: a graph is the list of work that was queued meanwhile.

While a stream captures, nothing is computed: what would be is recorded, with the very memory that it reads and
writes, and the poison of what is dropped too. A launch queues all of it again. So a result that comes out of memory
that somebody else has by then, or that was dropped, is wrong here as it would be on a device.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from providers.cuda.tests.stand_in.arrays import ArrayFunctions, DeviceArray
from providers.cuda.tests.stand_in.machine import CUDARuntimeError, Machine, Stream
from providers.cuda.tests.stand_in.module import Cuda, StandInModule
from providers.cuda.tests.stand_in.pools import MemoryPointer, MemoryPool

__all__ = ["CapturingModule", "Graph"]

_IN_PLACE = frozenset({"__setitem__", "copyto", "fill"})


class Graph:
    """A captured graph.

    Attributes:
        work: Pieces of work, in order.
        launches: How often it was launched.
    """

    def __init__(self, work: list[Callable[[], None]]) -> None:
        self.work = work
        self.launches = 0
        self.graph = id(self)

    def launch(self, stream: Stream) -> None:
        self.launches += 1
        for one in self.work:
            stream.enqueue("replay", one)


class CapturingStream(Stream):
    """A stream that can be captured; waiting for it meanwhile is an error, as on a device."""

    capturing = False
    graphs: list[Graph]

    def begin_capture(self) -> None:
        if not self.ptr:
            raise CUDARuntimeError(900, "cudaErrorStreamCaptureUnsupported: the default stream")
        self.drain()
        self.capturing = True

    def end_capture(self) -> Graph:
        self.capturing = False
        graph = Graph(list(self._queue))
        self._queue = deque()
        self.graphs = [*getattr(self, "graphs", []), graph]
        return graph

    def drain(self, until: Any = None) -> None:
        if self.capturing:
            raise CUDARuntimeError(906, "cudaErrorStreamCaptureImplicit: the stream is capturing")
        super().drain(until)


class _Arrays(ArrayFunctions):
    """Functions that are recorded while their stream captures."""

    def wrapped(self, function: Callable[..., Any], *bound: DeviceArray) -> Callable[..., Any]:
        usual = super().wrapped(function, *bound)

        def call(*args: Any, **keywords: Any) -> Any:
            stream = self.machine.stream
            if not getattr(stream, "capturing", False):
                return usual(*args, **keywords)
            given: list[DeviceArray] = []
            inside = [self._inside(value, given) for value in (*bound, *args)]
            named = {name: self._inside(value, given) for name, value in keywords.items()}
            if "out" in keywords or getattr(function, "__name__", "") in _IN_PLACE:
                stream.enqueue("captured", lambda: _quietly(function, inside, named))
                return keywords.get("out")
            raw = _quietly(function, inside, named)
            if not isinstance(raw, np.ndarray | np.generic):
                return raw
            if any(raw is one for one in inside):  # an output that was given by its place
                stream.enqueue("captured", lambda: _quietly(function, inside, named))
                return next(array for array in given if array.raw is raw)
            raw = np.asarray(raw)
            for array in given:
                if raw.size and np.may_share_memory(raw, array.raw):
                    return self.view(array, raw)
            made = self.empty(raw.shape, raw.dtype)
            target = made.raw

            def work() -> None:
                target[...] = _quietly(function, inside, named)

            stream.enqueue("captured", work)
            return made

        return call


def _quietly(function: Callable[..., Any], inside: Any, named: Any) -> Any:
    with np.errstate(all="ignore"):  # of poison too
        return function(*inside, **named)


class _NestedPool(MemoryPool):
    """A pool whose memory comes from another allocator."""

    def __init__(self, machine: Machine, allocator: Callable[[int], MemoryPointer]) -> None:
        super().__init__(machine)
        self._allocator = allocator
        self._chunks: list[MemoryPointer] = []

    def _fresh(self, size: int, device: int) -> Any:
        pointer = self._allocator(size)
        self._chunks.append(pointer)
        return pointer.mem.block


class _Streams:
    """`cupy.cuda.Stream`, whose streams can be captured."""

    def __init__(self, machine: Machine, usual: Any) -> None:
        self._machine = machine
        self.from_external = usual.from_external
        self._usual = usual

    def __call__(self, null: bool = False, non_blocking: bool = False) -> Stream:
        machine = self._machine
        if null or not non_blocking:
            made: Stream = self._usual(null, non_blocking)
            return made
        return CapturingStream(machine, machine.device, machine.new_handle())


class _Cuda(Cuda):
    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.Stream: Any = _Streams(machine, self.Stream)

    def get_allocator(self) -> Callable[[int], Any]:
        stack = self._stack()
        return stack[-1] if stack else self._default.malloc

    def MemoryPool(self, allocator: Callable[[int], Any] | None = None) -> MemoryPool:  # noqa: N802
        if allocator is None:
            return super().MemoryPool()
        pool = _NestedPool(self._machine, allocator)
        self.pools.append(pool)
        return pool


class CapturingModule(StandInModule):
    """`cupy` whose streams can be captured."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.cuda = _Cuda(machine)
        self.arrays = _Arrays(machine, self.cuda.malloc, self.cuda.Device)
        self.empty = self.arrays.empty

    def asarray(self, value: Any, dtype: Any = None, order: str = "K") -> Any:
        """Uploads; while a stream captures, from memory of the host that is somebody else's later."""
        if getattr(self.machine.stream, "capturing", False) and not isinstance(value, DeviceArray):
            stream = self.machine.stream
            assert isinstance(stream, CapturingStream)
            made = self.arrays.empty(np.shape(value), np.asarray(value, dtype).dtype)
            stream.enqueue("upload", lambda: None)
            self.uploads = getattr(self, "uploads", 0) + 1
            return made
        return super().asarray(value, dtype, order)

    def stream(self) -> CapturingStream:
        """A new stream."""
        return CapturingStream(self.machine, 0, self.machine.new_handle())

    def frame(self) -> Any:
        """Resources that a frame lends to its instances."""
        return SimpleNamespace(stream=None, threads=1)
