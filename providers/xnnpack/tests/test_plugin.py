"""The plug-in of XnnpackExecutionProvider: what discovery sees, and that seeing it is cheap."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ort_py as ort
from ort_py.contracts import CORE_API_RANGE, SessionContext
from ort_py.devices import HOST
from ort_py_xnnpack import plugin
from ort_py_xnnpack.binding import library
from ort_py_xnnpack.options import OPTIONS


@pytest.fixture
def factory() -> plugin.XnnpackProviderFactory:
    """The one factory the hook contributes."""
    (found,) = plugin.ort_py_providers()
    assert isinstance(found, plugin.XnnpackProviderFactory)
    return found


def test_it_has_the_name_of_its_entry_point_and_stands_in_for_the_cpu(factory: plugin.XnnpackProviderFactory) -> None:
    assert factory.name == "XnnpackExecutionProvider"
    assert factory.stands_in_for == "CPUExecutionProvider"
    assert factory.default_rank > 0


def test_it_fits_the_contracts_of_this_core(factory: plugin.XnnpackProviderFactory) -> None:
    """The declared range of contract versions meets the core's."""
    assert factory.api_range.meets(CORE_API_RANGE)


def test_probe_opens_nothing(factory: plugin.XnnpackProviderFactory) -> None:
    """It looks for files; neither cffi nor NumPy is loaded for the list of providers."""
    assert factory.probe().devices == (HOST,)
    code = (
        "import sys, ort_py_xnnpack.plugin as p; found = p.ort_py_providers()[0].probe(); "
        "print(bool(found), sorted({'cffi', '_cffi_backend'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True []"


def test_a_missing_library_is_a_reason_and_a_fix(
    factory: plugin.XnnpackProviderFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No import error: the provider is listed as unavailable."""
    monkeypatch.setattr(library, "files", lambda: library.Missing("it is not there", "get it"))
    found = factory.probe()
    assert (bool(found), found.reason, found.fix) == (False, "it is not there", "get it")


def test_the_provider_is_made_and_closed(factory: plugin.XnnpackProviderFactory) -> None:
    """Its name is right, and all its kernels are in regions."""
    provider = factory.create({option.name: option.default for option in OPTIONS}, SessionContext())
    assert provider.name == factory.name
    assert provider.kernel_registry() == ()
    provider.close()


def test_it_is_installed_and_listed() -> None:
    """Discovery finds it through its entry point."""
    assert "XnnpackExecutionProvider" in ort.get_available_providers()


def test_sessions_that_do_not_name_it_stay_as_they_are() -> None:
    """Where another provider stands in for the CPU on x86-64, it comes before this one."""
    names = ort.get_available_providers()
    if "DnnlExecutionProvider" not in names:
        pytest.skip("no other provider stands in for the CPU here")
    assert names.index("DnnlExecutionProvider") < names.index("XnnpackExecutionProvider")
