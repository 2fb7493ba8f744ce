"""The automatic order is the same everywhere."""

from __future__ import annotations

import random

import pytest

from ort_py.devices import DeviceClass
from ort_py.discovery import CPU_ROLE, ProviderRecord, ranked


def _record(name: str, device_class: DeviceClass | None, rank: int = 0, distribution: str = "pkg") -> ProviderRecord:
    return ProviderRecord(name, distribution, "1", "m", device_class=device_class, rank=rank)


ORDER = [
    _record("Npu", DeviceClass.NPU),
    _record("GpuHigh", DeviceClass.GPU, 5),
    _record("GpuA", DeviceClass.GPU),
    _record("GpuB", DeviceClass.GPU, distribution="pkg-1"),
    _record("GpuB", DeviceClass.GPU, distribution="pkg-2"),
    _record("Accelerator", DeviceClass.ACCELERATOR, 99),
    _record("FastCpu", DeviceClass.CPU, 10),
    _record("NotLoaded", None),
    _record("SlowCpu", DeviceClass.CPU, -100),
    _record(CPU_ROLE, DeviceClass.CPU, 1000),
    ProviderRecord("ByNameOnly", "pkg", "1", "m", device_class=DeviceClass.NPU, rank=7, automatic=False),
]


@pytest.mark.parametrize("seed", range(5))
def test_device_class_then_rank_then_name_and_cpu_last(seed: int) -> None:
    """The order does not depend on discovery. A rank never lifts a provider above another class or the CPU provider,
    which is the last of those that are chosen without being named.
    """
    shuffled = random.Random(seed).sample(ORDER, len(ORDER))
    assert ranked(shuffled) == ORDER
