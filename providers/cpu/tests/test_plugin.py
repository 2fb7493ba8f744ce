"""The plug-in of CPUExecutionProvider: what discovery sees, and that seeing it is cheap."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest

from ort_py.contracts import CORE_API_RANGE, SessionContext
from ort_py.devices import HOST
from ort_py_cpu import plugin


@pytest.fixture
def factory() -> plugin.CpuProviderFactory:
    """The one factory the hook contributes."""
    (found,) = plugin.ort_py_providers()
    assert isinstance(found, plugin.CpuProviderFactory)
    return found


def test_the_hook_contributes_the_name_of_the_entry_point(factory: plugin.CpuProviderFactory) -> None:
    """Discovery refuses a plug-in whose factories do not have the entry point's name."""
    assert factory.name == "CPUExecutionProvider"


def test_it_fits_the_contracts_of_this_core(factory: plugin.CpuProviderFactory) -> None:
    """The declared range of contract versions meets the core's."""
    assert factory.api_range.meets(CORE_API_RANGE)


def test_probe_says_available_quickly(factory: plugin.CpuProviderFactory) -> None:
    """Probing takes at most the contract's 20 ms of processor time and finds the host."""
    start = time.thread_time()
    availability = factory.probe()
    assert time.thread_time() - start < 0.02
    assert availability
    assert availability.devices == (HOST,)


def test_it_ranks_last_and_stands_in_for_nothing(factory: plugin.CpuProviderFactory) -> None:
    """Other CPU providers come first; the role CPUExecutionProvider is its own name."""
    assert factory.default_rank < 0
    assert factory.stands_in_for is None
    assert factory.option_schema == ()


def test_importing_the_plugin_loads_no_operator() -> None:
    """Listing providers must not pay for the operator library."""
    code = "import sys, ort_py_cpu.plugin as p; p.ort_py_providers()[0].probe(); print('ort_py_array' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_provider_brings_the_operator_library_on_numpy(factory: plugin.CpuProviderFactory) -> None:
    """Kernels of the library, NumPy arrays, the host's device and memory."""
    provider = factory.create({}, SessionContext())
    assert provider.name == factory.name
    assert {"Conv", "MatMul", "LSTM"} <= {definition.op_type for definition in provider.kernel_registry()}
    assert provider.array_module is np
    assert provider.device == HOST
    assert provider.allocator() is None
    provider.close()


def test_sessions_share_one_catalogue_of_kernels(factory: plugin.CpuProviderFactory) -> None:
    """A module that one session imported is available to the next."""
    first, second = (factory.create({}, SessionContext()) for _ in range(2))
    assert first.kernel_registry() is second.kernel_registry()
