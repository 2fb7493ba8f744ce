"""Devices as onnxruntime describes them, seen through providers that a test registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from ort_py.contracts import ProviderFactory
from ort_py.devices import DeviceClass, Hardware
from ort_py.discovery.ep_devices import OrtEpDevice, OrtHardwareDevice, get_ep_devices, provider_of
from ort_py.errors import InvalidArgument, UsageError
from ort_py.value_enums import OrtDeviceMemoryType, OrtHardwareDeviceType
from ort_py_kit.fake_device import FakeFactory


def device(name: str = "AExecutionProvider", kind: OrtHardwareDeviceType = OrtHardwareDeviceType.GPU) -> OrtEpDevice:
    """A device of a provider."""
    return OrtEpDevice(name, "maker", {}, {}, OrtHardwareDevice(kind, "maker", 7, 1))


def test_devices_of_one_provider_name_it() -> None:
    assert provider_of([device(), device()]) == "AExecutionProvider"


@pytest.mark.parametrize("devices", [[], [device(), device("BExecutionProvider")]])
def test_devices_of_no_or_several_providers_are_refused(devices: list[OrtEpDevice]) -> None:
    """It would not be known whose options are meant."""
    with pytest.raises(InvalidArgument, match="belong to"):
        provider_of(devices)


def test_memory_of_a_device_is_described() -> None:
    """By the provider's name, the vendor and the device's number; the host has none to ask for."""
    found = device().memory_info(OrtDeviceMemoryType.HOST_ACCESSIBLE)
    assert found is not None
    assert (found.name, found.device_id, found.device_vendor_id) == ("AExecutionProvider", 1, 7)
    assert device(kind=OrtHardwareDeviceType.CPU).memory_info(OrtDeviceMemoryType.DEFAULT) is None


@pytest.mark.parametrize("kind", list(OrtHardwareDeviceType))
def test_no_device_makes_streams_for_callers(kind: OrtHardwareDeviceType) -> None:
    with pytest.raises(UsageError, match="No stream"):
        device(kind=kind).create_sync_stream()


def _with_hardware(hardware: Callable[[], Sequence[Hardware] | None]) -> FakeFactory:
    class Factory(FakeFactory):
        def hardware(self) -> Sequence[Hardware] | None:
            return hardware()

    return Factory()


def _failing() -> Sequence[Hardware]:
    raise OSError("no driver")


@pytest.mark.parametrize(
    ("hardware", "found"),
    [
        (
            lambda: [Hardware(DeviceClass.GPU, "ACME", 0x1234, 7, {"LUID": "5"})],
            [OrtHardwareDevice(OrtHardwareDeviceType.GPU, "ACME", 0x1234, 7, {"LUID": "5"})],
        ),
        (list, []),
        (_failing, []),
        (lambda: None, [OrtHardwareDevice(OrtHardwareDeviceType.NPU, "nobody", 0, 0, {})]),
    ],
    ids=["found", "none", "failing", "not asked"],
)
def test_a_library_enumerates_its_devices(
    hardware: Callable[[], Sequence[Hardware] | None],
    found: list[OrtHardwareDevice],
    register: Callable[[ProviderFactory], None],
) -> None:
    """Devices that a probe names are listed only where the provider has no library to ask."""
    register(_with_hardware(hardware))
    assert [one.device for one in get_ep_devices() if one.ep_name == "FakeExecutionProvider"] == found
