"""The automatic order of providers: the same on every run and every machine with the same packages.

Device class first (NPU, GPU, other accelerators, CPU), then the declared rank, then the name; the provider that can run
everything, CPUExecutionProvider, is always the last of these. Behind it stand those that are used by name only. Comes
after `probing`, before `selection`.
"""

from __future__ import annotations

from collections.abc import Iterable

from ort_py.devices import DeviceClass
from ort_py.discovery.records import CPU_ROLE, ProviderRecord

__all__ = ["ranked"]

_CLASSES = (DeviceClass.NPU, DeviceClass.GPU, DeviceClass.ACCELERATOR, DeviceClass.CPU)


def ranked(records: Iterable[ProviderRecord]) -> list[ProviderRecord]:
    """Records in the order in which providers are asked for their nodes."""
    return sorted(records, key=_key)


def _key(record: ProviderRecord) -> tuple[bool, bool, int, int, str, str]:
    device_class = _CLASSES.index(record.device_class or DeviceClass.CPU)
    return not record.automatic, record.name == CPU_ROLE, device_class, -record.rank, record.name, record.distribution
