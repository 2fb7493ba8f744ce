"""CuPy's pools on the stand-in machine: memory goes back to the stream it was taken on, and is poison from there on."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from .machine import POISON, Block, CUDARuntimeError, Machine, OutOfMemoryError, Stream

__all__ = ["MemoryPointer", "MemoryPool", "PinnedMemory", "PinnedMemoryPool", "function_allocator"]

_UNIT = 512


class Memory:
    """Some memory of a device; dropping it gives it back."""

    def __init__(self, block: Block, give_back: Callable[[Block], None] | None) -> None:
        self.block = block
        self.ptr = block.address
        self.device_id = block.device
        if give_back is not None:
            weakref.finalize(self, give_back, block).atexit = False


class MemoryPointer:
    """An address inside some memory."""

    def __init__(self, mem: Any, offset: int) -> None:
        self.mem = mem
        self.ptr = mem.ptr + offset
        self.device_id = mem.device_id


class MemoryPool:
    """CuPy's pool: free blocks by stream and size, and a limit.

    Args:
        machine: The machine.
        system: Takes memory from the device; the machine's own where None.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._limit = 0
        self._used = 0
        self._free: dict[tuple[Stream, int], list[Block]] = {}
        self.memoryAsyncHasStat = True

    def set_limit(self, size: int) -> None:
        self._limit = size

    def malloc(self, nbytes: int) -> MemoryPointer:
        machine = self._machine
        size = max(_UNIT, -(-nbytes // _UNIT) * _UNIT)
        stream = machine.stream
        machine.check(stream.device)
        with machine.lock:
            free = self._free.get((stream, size))
            block = free.pop() if free else self._fresh(size, stream.device)
            self._used += size
        return MemoryPointer(Memory(block, self._giving_back_to(stream)), 0)

    def _fresh(self, size: int, device: int) -> Block:
        for last in (False, True):
            if not self._limit or self.total_bytes() + size <= self._limit:
                try:
                    return self._machine.take(size, device)
                except CUDARuntimeError as error:
                    if error.status != 2 or last:
                        raise OutOfMemoryError(f"Out of memory allocating {size} bytes.") from error
            if not last:
                self.free_all_blocks()
        raise OutOfMemoryError(f"Out of memory allocating {size} bytes (limit set to {self._limit}).")

    def _giving_back_to(self, stream: Stream) -> Callable[[Block], None]:
        def give_back(block: Block) -> None:
            # The poison is queued now: work enqueued before may read the memory, work enqueued later may not.
            stream._queue.append(lambda: block.content.fill(POISON))
            with self._machine.lock:
                self._used -= block.content.nbytes
                self._free.setdefault((stream, block.content.nbytes), []).append(block)

        return give_back

    def free_all_blocks(self) -> None:
        with self._machine.lock:
            for (stream, _), blocks in list(self._free.items()):  # what is drained may give back
                if blocks:
                    stream.drain()  # as cudaFree waits
                while blocks:
                    self._machine.release(blocks.pop())

    def used_bytes(self) -> int:
        return self._used

    def total_bytes(self) -> int:
        with self._machine.lock:  # other threads give back meanwhile
            return self._used + sum(block.content.nbytes for blocks in self._free.values() for block in blocks)


class PinnedMemory(np.ndarray[Any, Any]):
    """Locked memory: an address, and bytes for NumPy."""

    ptr: int


class PinnedMemoryPool:
    """CuPy's pool: dropped memory is free at once, even if it is still being read."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._free: dict[int, list[Block]] = {}

    def malloc(self, nbytes: int) -> PinnedMemory:
        free = self._free.get(nbytes)
        block = free.pop() if free else self._machine.take(nbytes, -1)
        memory = block.content.view(PinnedMemory)
        memory.ptr = block.address
        weakref.finalize(memory, self._give_back, block).atexit = False
        return memory

    def _give_back(self, block: Block) -> None:
        block.content.fill(POISON)
        self._free.setdefault(block.content.nbytes, []).append(block)

    def free_all_blocks(self) -> None:
        for blocks in self._free.values():
            while blocks:
                self._machine.release(blocks.pop())


def function_allocator(
    machine: Machine, malloc: Callable[[int, int], int], free: Callable[[int, int], None]
) -> Callable[[int], MemoryPointer]:
    """``PythonFunctionAllocator``: addresses of functions."""

    class Given:
        """Memory at an address of somebody's function."""

        def __init__(self, nbytes: int) -> None:
            self.device_id = machine.device
            self.ptr = malloc(nbytes, self.device_id)
            weakref.finalize(self, free, self.ptr, self.device_id).atexit = False

    return lambda nbytes: MemoryPointer(Given(nbytes), 0)
