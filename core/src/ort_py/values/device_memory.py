"""Memory of devices for users' values, as the usable providers offer it: found by device, kept, used by one at a time.

After discovery, before `device_tensor`. It does not depend on vendors: which names are whose stands in the table of
device names, and who has memory there says the factory of a provider.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from ort_py.contracts import IDeviceMemory, IStream, ProviderFactory
from ort_py.devices import HOST, Device
from ort_py.discovery import default_catalog
from ort_py.errors import EngineError, UsageError
from ort_py.platform.forks import ProcessLock
from ort_py.values.device import OrtDevice, expect_host
from ort_py.values.device_table import DEVICES

_Made = TypeVar("_Made")


class DeviceMemory:
    """A provider's memory functions for one device. Each use is synchronous."""

    def __init__(self, offered: IDeviceMemory) -> None:
        self.device = offered.device
        self._offered = offered
        self._stream = offered.create_stream()
        self._lock = ProcessLock()

    def empty(self, shape: Sequence[int], dtype: Any) -> Any:
        """An uninitialised array of the device."""
        return self._done(lambda _: self._offered.allocator.empty(tuple(shape), np.dtype(dtype)))

    def from_host(self, array: np.ndarray[Any, Any]) -> Any:
        """A copy of a C-contiguous array of the host on the device."""
        return self._done(lambda stream: self._offered.transfer.copy(array, HOST, self.device, stream))

    def to_host(self, array: Any) -> np.ndarray[Any, Any]:
        made = self._done(lambda stream: self._offered.transfer.copy(array, self.device, HOST, stream))
        assert isinstance(made, np.ndarray)
        return made

    def copied(self, array: Any) -> Any:
        """A C-contiguous copy on the device."""
        return self._done(lambda _: array.copy())

    def write(self, target: Any, source: Any) -> None:
        """Write an array of the device into the memory of another of the same form."""

        def assign(_: IStream | None) -> None:
            target[...] = source

        self._done(assign)

    def at_address(self, address: int, shape: Sequence[int], dtype: Any) -> Any:
        """An array over memory of the device."""
        return self._done(lambda _: self._offered.at_address(address, tuple(shape), np.dtype(dtype)))

    def from_dlpack(self, producer: Any) -> Any:
        """An array over the memory of another library's."""
        return self._done(lambda _: self._offered.from_dlpack(producer))

    def address(self, array: Any) -> int:
        """Address of an array's first byte."""
        return self._offered.address(array)

    def synchronize(self) -> None:
        """Wait for all work of the process on the device."""
        self._offered.synchronize()

    @property
    def dlpack_types(self) -> frozenset[int]:
        """DLPack's numbers of the arrays it takes."""
        return self._offered.dlpack_types

    def _done(self, work: Callable[[IStream | None], _Made]) -> _Made:
        with self._lock.held(), self._current() as stream:
            made = work(stream)
            if stream is not None:
                stream.synchronize()
        return made

    @contextlib.contextmanager
    def _current(self) -> Iterator[IStream | None]:
        if self._stream is None:
            yield None
            return
        with self._stream:
            yield self._stream


_made: weakref.WeakKeyDictionary[ProviderFactory, dict[Device, DeviceMemory]] = weakref.WeakKeyDictionary()
_lock = ProcessLock()


def memory_of(device: Device) -> DeviceMemory | None:
    """The memory of a device that the first usable provider offers; None where none does.

    Raises:
        Exception: An error of the provider, e.g. where its device cannot be used.
    """
    if device.kind == HOST.kind:
        return None
    for record in default_catalog().records():
        factory = record.factory
        if factory is None or not record.usable:
            continue
        with _lock.held():
            known = _made.setdefault(factory, {})
            if device not in known:
                offered = factory.device_memory(device)
                if offered is None:
                    continue
                if offered.device != device:
                    raise EngineError(
                        f"{record.name} offers memory of {offered.device} for {device}.",
                        fix="Its device_memory() must return the memory of the device that was passed to it.",
                    )
                known[device] = DeviceMemory(offered)
            return known[device]
    return None


def memory_of_dlpack(device_type: int, device_id: int) -> DeviceMemory | None:
    """The memory of a device by DLPack's numbers; None where no usable provider takes such arrays."""
    for record in default_catalog().records():
        for device in record.devices if record.usable else ():
            found = memory_of(device) if device.index == device_id else None
            if found is not None and device_type in found.dlpack_types:
                return found
    return None


def wanted_place(device_type: str | OrtDevice | Device, device_id: int = 0, vendor_id: int = -1) -> Device:
    """The device of these names where it has memory here, else the host.

    Raises:
        InvalidArgument: No such kind.
    """
    for device in _candidates(device_type, device_id, vendor_id):
        if memory_of(device) is not None:
            return device
    if isinstance(device_type, str):
        OrtDevice.make(device_type, device_id, vendor_id)
    return HOST


def place_of(device_type: str | OrtDevice | Device, device_id: int = 0, vendor_id: int = -1) -> Device:
    """The device of these names: the host, or one that a usable provider has memory of.

    Args:
        device_id, vendor_id: As in `OrtDevice.make`; of no account where a device is given.

    Raises:
        InvalidArgument: No such kind.
        UsageError: A device without memory here.
    """
    if device_type == HOST.kind and device_id == 0:
        return HOST  # the device of nearly every value
    for device in _candidates(device_type, device_id, vendor_id):
        if device.kind == HOST.kind or memory_of(device) is not None:
            return device
    if isinstance(device_type, Device):
        raise UsageError(f"Memory of {device_type} is not available here.", fix="Use device_type='cpu'.")
    return expect_host(device_type, device_id, vendor_id)


def _candidates(device_type: str | OrtDevice | Device, device_id: int, vendor_id: int) -> list[Device]:
    """The devices that may be meant, by the names that providers have for them."""
    if isinstance(device_type, Device):
        return [device_type]
    if isinstance(device_type, str) and device_type not in DEVICES:
        return [Device(device_type, device_id)]  # a provider's own kind
    device = device_type if isinstance(device_type, OrtDevice) else OrtDevice.make(device_type, device_id, vendor_id)
    if device.device_mem_type() != OrtDevice.default_memory():
        return []
    numbers = (device.device_type(), device.vendor_id())
    kinds = [kind for kind, row in DEVICES.items() if (row.device_type, row.vendor_id) == numbers]
    return [Device(kind, device.device_id()) for kind in dict.fromkeys([*kinds, device._kind]) if kind]
