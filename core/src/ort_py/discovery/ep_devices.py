"""Devices as onnxruntime describes them: a provider together with a piece of hardware it can use.

A view of the records of `discovery`; choosing devices is choosing their providers. Native libraries of onnxruntime's
providers are refused here: a provider of ort-py is a pip package.
"""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cache
from typing import Any

from ort_py.devices import Device, DeviceClass, Hardware
from ort_py.discovery import CPU_ROLE, ProviderRecord, default_catalog
from ort_py.errors import Fail, InvalidArgument, Location, UsageError
from ort_py.lazy_dataclass import dataclass
from ort_py.platform.processors import processor_facts
from ort_py.value_enums import OrtAllocatorType, OrtDeviceMemoryType, OrtHardwareDeviceType, OrtMemoryInfoDeviceType
from ort_py.values.memory_info import OrtMemoryInfo

_TYPES = {
    DeviceClass.CPU: OrtHardwareDeviceType.CPU,
    DeviceClass.GPU: OrtHardwareDeviceType.GPU,
    DeviceClass.NPU: OrtHardwareDeviceType.NPU,
    DeviceClass.ACCELERATOR: OrtHardwareDeviceType.NPU,
}

_MEMORY_TYPES = {
    OrtHardwareDeviceType.CPU: OrtMemoryInfoDeviceType.CPU,
    OrtHardwareDeviceType.GPU: OrtMemoryInfoDeviceType.GPU,
    OrtHardwareDeviceType.NPU: OrtMemoryInfoDeviceType.NPU,
}


@dataclass(frozen=True, slots=True)
class OrtHardwareDevice:
    """A piece of hardware.

    Attributes:
        type: Its kind.
        vendor: Maker of the device, as far as it is known.
        vendor_id: Number of that vendor on PCI, 0 where it is not known.
        device_id: Its number among those of its kind.
        metadata: Further facts.
    """

    type: OrtHardwareDeviceType
    vendor: str = ""
    vendor_id: int = 0
    device_id: int = 0
    metadata: Mapping[str, str] = field(default_factory=dict)


class OrtSyncStream:
    """A queue of work on a device. Only a provider whose device has streams makes one."""

    __slots__ = ("_handle",)

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def get_handle(self) -> int:
        """The native handle as a number."""
        return self._handle


@dataclass(frozen=True, slots=True)
class OrtEpDevice:
    """A provider with one device it can use.

    Attributes:
        ep_name: The provider's name.
        ep_vendor: Maker of the provider.
        ep_metadata: Its distribution and version.
        ep_options: Options that choose this device.
        device: The hardware.
    """

    ep_name: str
    ep_vendor: str
    ep_metadata: Mapping[str, str]
    ep_options: Mapping[str, str]
    device: OrtHardwareDevice

    def memory_info(self, memory_type: OrtDeviceMemoryType, /) -> OrtMemoryInfo | None:
        """Memory of the device that a caller can allocate; None on the host, as in onnxruntime."""
        hardware = self.device
        if hardware.type == OrtHardwareDeviceType.CPU:
            return None
        return OrtMemoryInfo.create_v2(
            self.ep_name,
            _MEMORY_TYPES[hardware.type],
            hardware.vendor_id,
            hardware.device_id,
            memory_type,
            0,
            OrtAllocatorType.ORT_DEVICE_ALLOCATOR,
        )

    def create_sync_stream(self) -> OrtSyncStream:
        """A queue of work on the device.

        Raises:
            UsageError: The device has none; a builtin RuntimeError too.
        """
        raise UsageError(
            f"No stream can be created on {self.device.type.name} {self.device.device_id}.",
            where=Location(provider=self.ep_name),
            why="work on the host is not queued"
            if self.device.type == OrtHardwareDeviceType.CPU
            else "each run of a session makes the streams its providers need",
            fix="Run the session; it waits for its devices itself.",
        )


def get_ep_devices() -> list[OrtEpDevice]:
    """A device each for what the usable providers found, in the order in which sessions rank them."""
    return [device for record in default_catalog().records() if record.usable for device in _devices_of(record)]


def provider_of(devices: Sequence[Any]) -> str:
    """The provider that some devices belong to.

    Raises:
        TypeError: They are no sequence of `OrtEpDevice`s.
        InvalidArgument: There is none, or they belong to several providers.
    """
    if not isinstance(devices, Sequence) or not all(isinstance(device, OrtEpDevice) for device in devices):
        raise TypeError(f"The argument must be a list of OrtEpDevice, not {devices!r}.")
    names: list[str] = list(dict.fromkeys(device.ep_name for device in devices))
    if len(names) != 1:
        raise InvalidArgument(
            f"The devices belong to {len(names)} providers.",
            why=", ".join(names) or "the list is empty",
            fix="Pass one or more devices of one provider, from get_ep_devices().",
        )
    return names[0]


def register_execution_provider_library(registration_name: str, library_path: str | os.PathLike[str], /) -> None:
    """Refused: providers of ort-py are pip packages, found without registration.

    Raises:
        TypeError: An argument has a wrong type.
        Fail: The file does not exist, or is a native library of onnxruntime's interface.
    """
    if not isinstance(registration_name, str) or not isinstance(library_path, str | os.PathLike):
        raise TypeError(f"The arguments must be a name and a path, not {registration_name!r} and {library_path!r}.")
    file = os.fspath(library_path)
    if not os.path.exists(file):  # `Path.exists` raises where a path is too long
        raise Fail(f"The library '{file}' does not exist.", where=Location(file=file), fix="Check the path.")
    raise Fail(
        f"The library '{file}' of an execution provider cannot be loaded.",
        where=Location(file=file),
        why="it calls onnxruntime's native interface, which ort-py does not have",
        fix="Install a provider for ort-py with pip; `ort-py providers` lists those that are installed.",
    )


def unregister_execution_provider_library(registration_name: str, /) -> None:
    """Reject every name: `register_execution_provider_library` never registers a library, so there is none to remove.

    Raises:
        TypeError: The name is not a string.
        Fail: No library is registered under the name.
    """
    if not isinstance(registration_name, str):
        raise TypeError(f"The argument must be a name, not {registration_name!r}.")
    raise Fail(
        f"No execution provider library '{registration_name}' is registered.",
        why="providers of ort-py are pip packages and need no registration",
        fix="Uninstall the package, or name it in ORT_PY_BLOCK_PROVIDERS.",
    )


def _devices_of(record: ProviderRecord) -> list[OrtEpDevice]:
    metadata = {"version": record.version} if record.version else {}
    if record.distribution:
        metadata["distribution"] = record.distribution
    found = []
    for one in _hardware_of(record):
        kind = _TYPES[one.device_class]
        vendor = one.vendor or (_processor_vendor() if kind == OrtHardwareDeviceType.CPU else record.vendor)
        hardware = OrtHardwareDevice(kind, vendor, one.vendor_id, one.device_id, one.metadata or {})
        options = {"device_id": str(one.device_id)} if _takes(record, "device_id") else {}
        found.append(OrtEpDevice(record.name, record.vendor, metadata, options, hardware))
    return found


def _hardware_of(record: ProviderRecord) -> Sequence[Hardware]:
    try:
        found = record.factory.hardware() if record.factory is not None else None
    except Exception as error:  # of a library
        logging.getLogger("ort_py.discovery").info("%s finds no devices: %s", record.name, error)
        return ()
    if found is not None:
        return found
    kind = record.device_class or DeviceClass.CPU
    return [Hardware(kind, device_id=device.index) for device in record.devices or (Device("cpu", 0),)]


def _takes(record: ProviderRecord, option: str) -> bool:
    return any(spec.name == option for spec in record.options)


@cache
def _processor_vendor() -> str:
    """Vendor of the processor as the system reports it, or its architecture."""
    return processor_facts().get("vendor_id") or platform.processor() or platform.machine()


def input_devices(count: int) -> list[OrtEpDevice]:
    """The host's device once for each input: feeds are arrays on the host.

    Args:
        count: Number of inputs.
    """
    record = default_catalog().record(CPU_ROLE)
    return ([] if record is None or not record.usable else _devices_of(record)[:1]) * count
