"""Devices and kinds of memory.

A leaf: imports nothing of ort-py. It is independent of vendors; a device kind is whatever string a provider declares.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from ort_py.lazy_dataclass import dataclass


class DeviceClass(Enum):
    """The class of work that a device is good for. Automatic ranking orders providers by it, accelerators first."""

    NPU = "npu"
    GPU = "gpu"
    ACCELERATOR = "accelerator"
    CPU = "cpu"


@dataclass(frozen=True, slots=True, order=True)
class Device:
    """One place that holds tensors.

    Attributes:
        kind: Lower-case kind as onnxruntime spells it (``"cpu"``, ``"cuda"``) or a provider's own.
        index: Number of the device among those of its kind.
    """

    kind: str
    index: int = 0

    def __str__(self) -> str:
        return f"{self.kind}:{self.index}"


@dataclass(frozen=True, slots=True)
class Hardware:
    """A device as the library of its provider describes it.

    Attributes:
        device_class: Its class.
        vendor: Maker of the device.
        vendor_id: Number of that vendor on PCI, 0 where it is not known.
        device_id: Its number, as the library has it.
        metadata: Further facts; None for none.
    """

    device_class: DeviceClass
    vendor: str = ""
    vendor_id: int = 0
    device_id: int = 0
    metadata: Mapping[str, str] | None = None


HOST = Device("cpu", 0)
"""The host: NumPy arrays, strings, sequences and shapes live here."""
