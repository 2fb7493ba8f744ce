"""The suites that every provider goes through, with the stand-in in the place of CuPy: order and lifetimes, no CUDA.

The array library runs the nodes, on NumPy under the stand-in: that results are right is shown elsewhere. What is shown
here is that every value was copied, waited for and kept as long as it had to be, in all of ONNX's own cases.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ort_py_kit import AllocatorSuite, DataTransferSuite, ProviderSuite

from .stand_in.machine import Machine


class _OnStandIn:
    provider = "CUDAExecutionProvider"

    @pytest.fixture(autouse=True)
    def _machine(self, machine: Machine) -> Machine:
        return machine


class TestAllocator(_OnStandIn, AllocatorSuite):
    """Its memory."""


class TestDataTransfer(_OnStandIn, DataTransferSuite):
    """Its copies."""


@pytest.mark.slow  # two thousand sessions
class TestProvider(_OnStandIn, ProviderSuite):
    """The provider itself, and the backend suite."""

    expected_failures = Path(__file__).with_name("stand_in.xfail.txt")
