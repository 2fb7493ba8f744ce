"""OrtDevice: where a value lives, in onnxruntime's numbers.

Comes after the table of names, before `device_memory`, values and bindings. Describes a device; says nothing about
whether it exists: `expect_host` refuses all but the host, for what lives only there.
"""

from __future__ import annotations

import operator
from typing import Any

from ort_py.devices import HOST, Device
from ort_py.errors import InvalidArgument, UsageError
from ort_py.suggestions import did_you_mean
from ort_py.values.device_table import DEVICE_TYPES, DEVICES


class OrtDevice:
    """A device by number: its kind, its memory, its vendor, and its index.

    Make one with `make`. The constructor takes another `OrtDevice`, or the numbers `(type, memory, id)` or
    `(type, memory, vendor, id)`, as onnxruntime's internal class of this name does.

    Raises:
        ValueError: The only argument is not a device.
        TypeError: The numbers are not integers, or not three or four.
    """

    __slots__ = ("_kind", "_numbers")

    _numbers: tuple[int, int, int, int]

    def __init__(self, c_ort_device: Any, *numbers: Any) -> None:
        self._kind = ""
        if isinstance(c_ort_device, OrtDevice) and not numbers:
            self._kind, self._numbers = c_ort_device._kind, c_ort_device._numbers
            return
        if not numbers:
            raise ValueError(
                f"An OrtDevice is made of another one or of numbers, not of {c_ort_device!r}: use OrtDevice.make."
            )
        whole = [operator.index(number) for number in (c_ort_device, *numbers)]
        if len(whole) == 3:
            whole.insert(2, 0)
        if len(whole) != 4:
            raise TypeError(
                f"OrtDevice takes (type, memory, id) or (type, memory, vendor, id), not {len(whole)} numbers."
            )
        self._numbers = (whole[0], whole[1], whole[2], whole[3])

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int = -1) -> OrtDevice:
        """A device by the name of its kind.

        Args:
            ort_device_name: Lower-case kind, e.g. ``"cpu"``, ``"gpu"``.
            device_id: Number of the device among those of its kind.
            vendor_id: Number of its maker; negative for the usual one of that name.

        Raises:
            InvalidArgument: No such kind.
            TypeError: An argument has the wrong type.
        """
        if not isinstance(ort_device_name, str):
            raise TypeError(f"The name of a device must be a str, not {type(ort_device_name).__name__}.")
        row = DEVICES.get(ort_device_name)
        if row is None:
            raise InvalidArgument(
                f"Unsupported device type: {ort_device_name!r}.",
                why=f"known: {', '.join(DEVICES)}",
                fix=did_you_mean(ort_device_name.lower(), DEVICES) or "Use device_type='cpu'.",
            )
        made = OrtDevice(
            row.device_type, OrtDevice.default_memory(), row.vendor_id if vendor_id < 0 else vendor_id, device_id
        )
        made._kind = ort_device_name
        return made

    def device_type(self) -> int:
        """Number of the kind."""
        return self._numbers[0]

    def device_mem_type(self) -> int:
        """Number of the kind of memory, 0 for the device's own."""
        return self._numbers[1]

    def device_vendor_id(self) -> int:
        """Number of the maker."""
        return self._numbers[2]

    def device_id(self) -> int:
        """Index among devices of its kind."""
        return self._numbers[3]

    mem_type = device_mem_type
    vendor_id = device_vendor_id

    def _get_c_device(self) -> OrtDevice:
        return self  # onnxruntime wraps a second object; applications pass it around and read the same numbers from it

    @staticmethod
    def default_memory() -> int:
        """Number of a device's own memory."""
        return 0

    @staticmethod
    def cpu() -> int:
        """Number of the host."""
        return DEVICE_TYPES["cpu"]

    @staticmethod
    def gpu() -> int:
        """Number of graphics processors."""
        return DEVICE_TYPES["gpu"]

    @staticmethod
    def npu() -> int:
        """Number of neural processors."""
        return DEVICE_TYPES["npu"]

    @staticmethod
    def fpga() -> int:
        """Number of programmable gate arrays."""
        return DEVICE_TYPES["fpga"]

    def __eq__(self, other: object) -> bool:
        return self._numbers == other._numbers if isinstance(other, OrtDevice) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._numbers)

    def __repr__(self) -> str:
        kind, memory, vendor, index = self._numbers
        return f"OrtDevice(type={kind}, memory={memory}, vendor={vendor:#06x}, id={index})"


def _add_kinds() -> None:
    """A static method for each kind of the table that has none yet, as applications call them: ``OrtDevice.dml()``."""
    for kind, number in DEVICE_TYPES.items():
        if kind not in vars(OrtDevice):
            setattr(OrtDevice, kind, staticmethod(lambda number=number: number))


_add_kinds()


def expect_host(device_type: str | OrtDevice, device_id: int = 0, vendor_id: int = -1) -> Device:
    """The host as a `Device`; anything else is refused.

    Args:
        device_type: Name of the kind, or a device.
        device_id, vendor_id: As in `OrtDevice.make`; of no account where a device is given.

    Raises:
        InvalidArgument: No such kind.
        UsageError: A kind without memory here.
    """
    if device_type == "cpu" and device_id == 0:
        return HOST  # the device of nearly every value
    device = device_type if isinstance(device_type, OrtDevice) else OrtDevice.make(device_type, device_id, vendor_id)
    if device.device_type() != OrtDevice.cpu():
        raise UsageError(
            f"There is no memory of device type '{device._kind or device.device_type()}' here.",
            why="no usable provider offers memory of this type for values",
            fix="Use device_type='cpu', or see what `ort-py providers` says about the provider of the device.",
        )
    return Device("cpu", device.device_id())
