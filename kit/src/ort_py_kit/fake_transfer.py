"""The way to the fake device and back: its allocator, and copies between it and the host, made when waited for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_py.contracts import AllocatorStats, IAllocator, IDataTransfer, IStream
from ort_py.devices import HOST, Device
from ort_py_kit.fake_array import FakeArray, empty_array
from ort_py_kit.fake_memory import POISON, FakeDevice
from ort_py_kit.fake_stream import FakeStream


class FakeAllocator(IAllocator):
    """Arrays on a fake device, for the current stream."""

    def __init__(self, owner: FakeDevice) -> None:
        self._owner = owner

    def empty(self, shape: Sequence[int], dtype: Any) -> Any:
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
