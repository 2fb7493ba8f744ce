"""The NumPy provider at the door that every provider goes through."""

from __future__ import annotations

from pathlib import Path

import pytest

from ort_py_kit import AllocatorSuite, DataTransferSuite, ProviderSuite

pytestmark = pytest.mark.slow  # two thousand sessions


@pytest.mark.redundant(one_in=3, table="backend_case")  # the library's own tests run every case on these kernels
class TestCpu(ProviderSuite):
    """CPUExecutionProvider, which runs every operator; nothing is known to fail."""

    provider = "CPUExecutionProvider"
    expected_failures = Path(__file__).with_name("cpu.xfail.txt")


class TestCpuMemory(AllocatorSuite):
    """The host's memory."""

    provider = "CPUExecutionProvider"


class TestCpuCopies(DataTransferSuite):
    """The host copies nothing."""

    provider = "CPUExecutionProvider"
