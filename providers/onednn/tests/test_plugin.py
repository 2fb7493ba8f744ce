"""The plug-in of DnnlExecutionProvider: what discovery sees, and that seeing it is cheap."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

import ort_py as ort
from ort_py.contracts import CORE_API_RANGE, SessionContext
from ort_py.devices import HOST
from ort_py.errors import EPFail
from ort_py_onednn import plugin
from ort_py_onednn.binding import library


@pytest.fixture
def factory() -> plugin.DnnlProviderFactory:
    """The one factory the hook contributes."""
    (found,) = plugin.ort_py_providers()
    assert isinstance(found, plugin.DnnlProviderFactory)
    return found


def test_it_has_the_name_of_its_entry_point_and_stands_in_for_the_cpu(factory: plugin.DnnlProviderFactory) -> None:
    """A request for CPUExecutionProvider gets it, before the provider that completes."""
    assert factory.name == "DnnlExecutionProvider"
    assert factory.stands_in_for == "CPUExecutionProvider"
    assert factory.default_rank > 0


def test_it_fits_the_contracts_of_this_core(factory: plugin.DnnlProviderFactory) -> None:
    """The declared range of contract versions meets the core's."""
    assert factory.api_range.meets(CORE_API_RANGE)


def test_probe_names_version_and_instruction_sets(factory: plugin.DnnlProviderFactory) -> None:
    """A user sees which library is used and what it makes of this CPU."""
    found = factory.probe()
    assert found
    assert found.devices == (HOST,)
    assert "oneDNN 3." in found.reason
    assert "libdnnl.so" in found.reason


def test_a_repeated_probe_is_quick_and_starts_no_thread(factory: plugin.DnnlProviderFactory) -> None:
    """It uses less than the contract's 20 ms of processor time, whatever else the machine does."""
    factory.probe()
    before, start = threading.active_count(), time.thread_time()
    factory.probe()
    assert time.thread_time() - start < 0.02
    assert threading.active_count() == before


def test_importing_the_plugin_opens_nothing() -> None:
    """Listing providers imports the plug-in; neither cffi nor NumPy is loaded for that."""
    code = (
        "import sys, ort_py_onednn.plugin; "
        "print(sorted({'cffi', '_cffi_backend', 'ort_py_onednn.binding'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_probing_creates_no_engine() -> None:
    """The engine belongs to the first session. No thread is started besides those that NumPy's library has."""
    code = (
        "import os, sys, ort_py_onednn.plugin as p; tasks = lambda: len(os.listdir('/proc/self/task')); "
        "before = tasks(); found = p.ort_py_providers()[0].probe(); "
        "print(bool(found), 'ort_py_onednn.binding.engine' in sys.modules, tasks() - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False", "0"]


def test_a_missing_library_is_a_reason_and_a_fix(
    factory: plugin.DnnlProviderFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No import error: the provider is listed as unavailable, and making one raises the same words."""
    monkeypatch.setattr(library, "_found", library.Missing("it is not there", "get it"))
    found = factory.probe()
    assert (bool(found), found.reason, found.fix) == (False, "it is not there", "get it")
    with pytest.raises(EPFail, match="cannot be used: it is not there"):
        library.open_library()


def test_the_provider_is_made_and_closed(factory: plugin.DnnlProviderFactory) -> None:
    """Its name is right, and all its kernels are in regions."""
    provider = factory.create({"claim_small": False}, SessionContext())
    assert provider.name == factory.name
    assert provider.kernel_registry() == ()
    provider.close()


def test_it_is_installed_and_listed() -> None:
    """Discovery finds it through its entry point."""
    assert "DnnlExecutionProvider" in ort.get_available_providers()
