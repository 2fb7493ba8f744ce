"""Memory of a fake device for users' values, which a device provider's factory offers for `OrtValue`s and bindings.

Comes after `fake_memory`. Addresses are those of the host's memory that stands for the device's; foreign memory cannot
be distinguished from it, so memory behind a given address is not poisoned.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_py.contracts import IAllocator, IDataTransfer, IDeviceMemory, IStream
from ort_py.devices import Device
from ort_py_kit.fake_array import FakeArray
from ort_py_kit.fake_memory import FakeDevice, Memory
from ort_py_kit.fake_transfer import FakeAllocator, FakeTransfer

DLPACK_TYPE = 12
"""kDLExtDev: DLPack's number of devices that it does not know."""


class FakeDeviceMemory(IDeviceMemory):
    """Memory of a fake device."""

    def __init__(self, owner: FakeDevice) -> None:
        self._owner = owner
        self.copies = FakeTransfer(owner)
        self.waits = 0

    @property
    def device(self) -> Device:
        return self._owner.device

    @property
    def allocator(self) -> IAllocator:
        return FakeAllocator(self._owner)

    @property
    def transfer(self) -> IDataTransfer:
        return self.copies

    def create_stream(self) -> IStream:
        return self._owner.create_stream()

    def address(self, array: Any) -> int:
        assert isinstance(array, FakeArray), f"{type(array).__name__} is not on {self.device}"
        return int(array.raw.ctypes.data)

    def at_address(self, address: int, shape: Sequence[int], dtype: Any) -> Any:
        form = np.dtype(dtype)
        nbytes = math.prod(shape) * form.itemsize
        block = np.frombuffer((ctypes.c_char * nbytes).from_address(address), np.uint8) if nbytes else _nothing()
        return FakeArray(block.view(form).reshape(tuple(shape)), _Foreign(block, nbytes, self._owner.current_stream))

    @property
    def dlpack_types(self) -> frozenset[int]:
        return frozenset({DLPACK_TYPE})

    def from_dlpack(self, producer: Any) -> Any:
        """A fake array that its producer hands out in place of a capsule."""
        found = producer.__dlpack__()
        assert isinstance(found, FakeArray), f"{type(found).__name__} is not on {self.device}"
        return found

    def synchronize(self) -> None:
        self.waits += 1


class _Foreign(Memory):
    """Memory that is never returned."""

    __slots__ = ()

    def __del__(self) -> None:
        return


def _nothing() -> np.ndarray[Any, Any]:
    return np.empty(0, np.uint8)
