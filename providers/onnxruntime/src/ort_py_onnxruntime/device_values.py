"""Memory of one device as onnxruntime has it, behind the contracts that devices have: copies, order, users' values.

Comes after `device_arrays`, before `region` and `provider`. onnxruntime waits for its device at the end of each run,
and its Python package has no order of work that could be waited for later. The exception is a stream that the user
names for all sessions of a provider (`user_compute_stream`): then runs are queued there, and the wait comes where the
host reads.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ort_py.contracts import IAllocator, IDataTransfer, IDeviceMemory, IStream
from ort_py.devices import HOST, Device
from ort_py.errors import EPFail, UsageError
from ort_py.lazy_dataclass import dataclass
from ort_py_onnxruntime.device_arrays import OrtArray, empty, from_host, to_host
from ort_py_onnxruntime.native import devices_of, logger, native
from ort_py_onnxruntime.routes import ROUTES, Route
from ort_py_onnxruntime.settings import Settings

__all__ = ["Copies", "DeviceValues", "Memory", "Queue", "Residence", "residence_of", "values_on"]

_SAMPLE = np.arange(64, dtype=np.float32).reshape(8, 8)


@dataclass(frozen=True, slots=True)
class Residence:
    """The device on which values stay between the regions of a provider.

    Attributes:
        device: Its name in ort-py.
        place: onnxruntime's device.
        stream: Handle of the user's stream that all runs are queued on; 0 where onnxruntime waits after each run.
    """

    device: Device
    place: Any
    stream: int = 0


def residence_of(settings: Settings) -> Residence | None:
    """Where the values of a provider stay; None for the host, and where onnxruntime does not copy to the device.

    What this onnxruntime and its plug-ins can do with memory of a device is known after it was tried only.
    """
    used = settings.providers[0]
    route = ROUTES.get(used.name)
    if settings.completes or route is None or not route.memory:
        return None
    index, stream = (int(used.options.get(name) or 0) for name in ("device_id", "user_compute_stream"))
    return _tried(route, index, used.devices, stream)


def values_on(device: Device, name: str) -> DeviceValues | None:
    """Memory of a device for users' values; None where onnxruntime does not copy there.

    Args:
        device: Of the kind that the provider has.
        name: The provider's name in onnxruntime.
    """
    route = ROUTES[name]
    try:
        devices = devices_of(name)
    except EPFail as error:
        logger.info("there is no memory of %s: %s", device, error)
        return None
    found = _tried(route, device.index, devices, 0)
    if found is None or found.device != device:
        return None
    return DeviceValues(found, frozenset(route.dlpack_types))


def _tried(route: Route, index: int, devices: Sequence[Any], stream: int) -> Residence | None:
    """A device whose memory gives back what is copied there.

    Args:
        devices: Those of a plug-in, which say where their values are.
    """
    real = native()
    vendor = route.memory_vendor
    if devices:
        info = devices[0].memory_info(real.OrtDeviceMemoryType.DEFAULT)
        if info is None:
            return None
        index, vendor = info.device_id, info.device_vendor_id
    number = getattr(real.OrtDevice, route.memory)()
    place = real.OrtDevice(number, real.OrtDevice.default_memory(), vendor, index)
    found = Residence(Device(route.memory_kind, index), place, stream)
    return found if _works(found) else None


def _works(residence: Residence) -> bool:
    try:
        there = from_host(_SAMPLE, residence.place)
        back = to_host(there.copy())
    except Exception as error:  # onnxruntime's exceptions have no base of their own
        logger.info("values between regions go through the host, not %s: %s", residence.device, error)
        return False
    return bool(np.array_equal(back, _SAMPLE))


class Queue(IStream):
    """Runs of one frame on the user's stream, which are waited for together.

    What a queued run reads stays alive until it was waited for: memory that is given back may be written by a copy,
    which has another order.
    """

    def __init__(self, residence: Residence) -> None:
        self._residence = residence
        self._waits: dict[int, Callable[[], None]] = {}
        self._held: list[OrtArray] = []

    @property
    def device(self) -> Device:
        """The device."""
        return self._residence.device

    @property
    def handle(self) -> int:
        """The user's stream."""
        return self._residence.stream

    def queued(self, binding: Any, held: Sequence[OrtArray]) -> None:
        """Note a run.

        Args:
            binding: onnxruntime's, which can be waited for.
            held: Values that the run reads or writes.
        """
        self._waits[id(binding)] = binding.synchronize_outputs
        self._held.extend(held)

    def synchronize(self) -> None:
        """Wait for all runs, then let their values go."""
        waits, held = list(self._waits.values()), self._held
        self._waits, self._held = {}, []
        for wait in waits:
            wait()
        for array in held:
            array.wait = None
        held.clear()

    def __del__(self) -> None:
        # A run that failed may leave others behind it, whose memory must not be given back before they are done.
        with contextlib.suppress(Exception):
            self.synchronize()


class Copies(IDataTransfer):
    """Copies between the host and a device, both ways. They are made when they return."""

    def __init__(self, residence: Residence) -> None:
        self._residence = residence

    def can_copy(self, source: Device, target: Device) -> bool:
        """Return whether one side is the host and the other one the device."""
        return (source, target) in ((HOST, self._residence.device), (self._residence.device, HOST))

    def copy(self, array: Any, source: Device, target: Device, stream: IStream | None) -> Any:
        """A copy, after what was queued."""
        if target != HOST:
            return from_host(array, self._residence.place)
        if stream is not None:
            stream.synchronize()
        return to_host(array)


class Memory(IAllocator):
    """onnxruntime's allocator of a device.

    It is not asked for blocks that are cut: there are regions only, whose outputs onnxruntime makes.
    """

    def __init__(self, residence: Residence) -> None:
        self._residence = residence

    def empty(self, shape: Sequence[int], dtype: Any) -> OrtArray:
        """An uninitialised array."""
        return empty(shape, dtype, self._residence.place)


class DeviceValues(IDeviceMemory):
    """Users' values on a device."""

    def __init__(self, residence: Residence, dlpack_types: frozenset[int] = frozenset()) -> None:
        self._residence = residence
        self._dlpack_types = dlpack_types
        self._allocator = Memory(residence)
        self._copies = Copies(residence)

    @property
    def device(self) -> Device:
        """The device."""
        return self._residence.device

    @property
    def allocator(self) -> IAllocator:
        """onnxruntime's."""
        return self._allocator

    @property
    def transfer(self) -> IDataTransfer:
        """Copies by onnxruntime."""
        return self._copies

    def address(self, array: OrtArray) -> int:
        """Address of the first byte."""
        return array.address

    def at_address(self, address: int, shape: Sequence[int], dtype: Any) -> OrtArray:
        """Refused: onnxruntime's Python package makes no values of addresses.

        Raises:
            UsageError: Always.
        """
        raise UsageError(
            f"onnxruntime makes no value of an address on {self.device} in Python.",
            fix="Pass an OrtValue, or an array that has DLPack.",
        )

    @property
    def dlpack_types(self) -> frozenset[int]:
        """Kinds of arrays that onnxruntime takes."""
        return self._dlpack_types

    def from_dlpack(self, producer: Any) -> OrtArray:
        """An array over the memory of another library's."""
        # Asked without a stream, the other library puts its work before that of the device's default stream, which
        # onnxruntime's copies are made on: when one of them is made, that work is done.
        found = OrtArray(native().OrtValue.from_dlpack(producer.__dlpack__(), False), self._residence.place)
        to_host(self._allocator.empty((1,), np.uint8))
        return found
