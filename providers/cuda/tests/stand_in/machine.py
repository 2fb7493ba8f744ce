"""A machine with simulated GPUs: memory, streams and copies that happen only at a wait.

What the CUDA runtime promises and no more: work of one stream is done in its order, work of different streams in any;
memory that is dropped is poisoned when its stream gets there, locked host memory at once; an address that was not
handed out is an error. So a copy that reads what was dropped, or a result that is read before it is there, is seen.
"""

from __future__ import annotations

import bisect
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["POISON", "CUDARuntimeError", "Event", "Machine", "OutOfMemoryError", "Stream"]

POISON = 0xFF
"""NaN in every floating type, -1 in the signed integers."""

_LINE = 256


class CUDARuntimeError(RuntimeError):
    """CuPy's exception: a status and its text."""

    def __init__(self, status: int, text: str = "") -> None:
        self.status = status
        super().__init__(text or f"cudaError {status}")


class OutOfMemoryError(MemoryError):
    """CuPy's exception for missing memory."""


class Block:
    """Bytes with an address, of a device or locked on the host."""

    __slots__ = ("__weakref__", "address", "content", "device")

    def __init__(self, nbytes: int, device: int) -> None:
        raw = np.full(nbytes + _LINE, POISON, np.uint8)
        start = -raw.ctypes.data % _LINE
        self.content = raw[start : start + nbytes]
        self.address = int(self.content.ctypes.data)
        self.device = device


class Machine:
    """The state of the machine. A test makes one, and looks at it afterwards.

    Args:
        devices: How many GPUs.
        capacity: Bytes of memory of each; None for no limit.
        capability: Compute capability ×10 of each.

    Attributes:
        log: What was enqueued last, in order: (what, stream handle, bytes).
        broken: GPUs whose context an error has broken: number → status.
        lockable: Whether host memory can be locked.
    """

    def __init__(self, devices: int = 1, capacity: int | None = None, capability: int = 90) -> None:
        self.devices = devices
        self.capacity = capacity
        self.capability = capability
        self.log: deque[tuple[str, int, int]] = deque(maxlen=32)
        self.broken: dict[int, int] = {}
        self.lockable = True
        self.held = [0] * devices
        self.streams: weakref.WeakValueDictionary[int, Stream] = weakref.WeakValueDictionary()
        self.lock = threading.RLock()
        self._local = threading.local()
        self._starts: list[int] = []
        self._blocks: dict[int, weakref.ref[Block]] = {}
        self._next_handle = 0x1000
        self.default = [Stream(self, index, 0) for index in range(devices)]

    # -- what is current on a thread ---------------------------------------------------------------------------

    @property
    def device(self) -> int:
        """Number of the current device."""
        return self._stack("device")[-1] if self._stack("device") else 0

    def enter_device(self, index: int) -> None:
        self.check(index)
        self._stack("device").append(index)

    def leave_device(self) -> None:
        self._stack("device").pop()

    def bind(self, index: int) -> None:
        """The context of a device becomes the thread's, which driver calls work in."""
        self.check(index)
        self._local.context = index

    @property
    def context(self) -> int | None:
        """The device whose context is the thread's; None on a thread that asked CUDA for nothing but its device."""
        return getattr(self._local, "context", None)

    @property
    def stream(self) -> Stream:
        """The current stream of the current device."""
        stack = self._stack(f"stream{self.device}")
        return stack[-1] if stack else self.default[self.device]

    def enter_stream(self, stream: Stream) -> None:
        self._stack(f"stream{stream.device}").append(stream)

    def leave_stream(self, stream: Stream) -> None:
        left = self._stack(f"stream{stream.device}").pop()
        assert left is stream, "streams were left in another order than they were entered"

    def _stack(self, name: str) -> list[Any]:
        stack: list[Any] | None = getattr(self._local, name, None)
        if stack is None:
            stack = []
            setattr(self._local, name, stack)
        return stack

    # -- memory ------------------------------------------------------------------------------------------------

    def check(self, device: int) -> None:
        """Return CUDA's status for a call on a device."""
        if not 0 <= device < self.devices:
            raise CUDARuntimeError(101, "cudaErrorInvalidDevice: invalid device ordinal")
        if device in self.broken:
            raise CUDARuntimeError(self.broken[device], "cudaErrorIllegalAddress: an illegal memory access")

    def take(self, nbytes: int, device: int) -> Block:
        """Memory of a device, or locked on the host where it is -1."""
        if device >= 0:
            self.check(device)
            if self.capacity is not None and self.held[device] + nbytes > self.capacity:
                raise CUDARuntimeError(2, "cudaErrorMemoryAllocation: out of memory")
        elif not self.lockable:
            raise CUDARuntimeError(2, "cudaErrorMemoryAllocation: out of memory")
        block = Block(nbytes, device)
        with self.lock:
            if device >= 0:
                self.held[device] += nbytes
            bisect.insort(self._starts, block.address)
            self._blocks[block.address] = weakref.ref(block)
        return block

    def release(self, block: Block) -> None:
        """Give memory back to the system."""
        with self.lock:
            if block.device >= 0:
                self.held[block.device] -= block.content.nbytes
            self._starts.remove(block.address)
            del self._blocks[block.address]

    def at(self, address: int, nbytes: int) -> tuple[np.ndarray[Any, Any], int]:
        """Bytes at an address, and the device they are on."""
        with self.lock:
            place = bisect.bisect_right(self._starts, address) - 1
            start = self._starts[place] if place >= 0 else None
            block = None if start is None else self._blocks[start]()
        if block is None or start is None or address + nbytes > start + block.content.nbytes:
            raise CUDARuntimeError(1, f"cudaErrorInvalidValue: nothing of {nbytes} bytes at {address:#x}")
        return block.content[address - start : address - start + nbytes], block.device

    def new_handle(self) -> int:
        with self.lock:
            self._next_handle += 0x10
            return self._next_handle

    def stream_of(self, handle: int) -> Stream:
        """A stream by its handle; 0 is the default stream of the current device."""
        return self.default[self.device] if handle == 0 else self.streams[handle]


class Stream:
    """An order of work. Done when somebody waits, on the thread that waits."""

    def __init__(self, machine: Machine, device: int, handle: int) -> None:
        self.machine = machine
        self.device = device
        self.ptr = handle
        self.lock = threading.RLock()
        self._queue: deque[Callable[[], None]] = deque()
        if handle:
            machine.streams[handle] = self

    @property
    def pending(self) -> int:
        """Pieces of work that are queued and not done."""
        return len(self._queue)

    def enqueue(self, what: str, work: Callable[[], None], nbytes: int = 0) -> None:
        self.machine.check(self.device)
        self.machine.log.append((what, self.ptr, nbytes))
        self._queue.append(work)

    def drain(self, until: Event | None = None) -> None:
        """Do the queued work, in order: all of it, or up to an event."""
        with self.lock:
            while self._queue and not (until is not None and until.done):
                self._queue.popleft()()

    def synchronize(self) -> None:
        self.machine.check(self.device)
        self.machine.log.append(("synchronize", self.ptr, 0))
        self.drain()
        self.machine.check(self.device)

    def record(self, event: Event) -> Event:
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        self.enqueue("wait", event.synchronize)

    def __enter__(self) -> Stream:
        self.machine.enter_stream(self)
        return self

    def __exit__(self, *_error: object) -> None:
        self.machine.leave_stream(self)


class Event:
    """A point in a stream's queue.

    Attributes:
        done: Whether the stream got there; asking does not wait.
    """

    def __init__(self) -> None:
        self.done = True
        self._stream: Stream | None = None

    def record(self, stream: Stream) -> None:
        self.done = False
        self._stream = stream
        stream.enqueue("event", self._mark)

    def _mark(self) -> None:
        self.done = True

    def synchronize(self) -> None:
        if self._stream is not None:
            self._stream.drain(until=self)
