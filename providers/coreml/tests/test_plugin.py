"""The plug-in of CoreMLExecutionProvider: what discovery sees, and that seeing it is cheap."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import PackageNotFoundError

import pytest

import ort_py as ort
from ort_py.contracts import CORE_API_RANGE, SessionContext
from ort_py.devices import HOST, DeviceClass
from ort_py.errors import EPFail
from ort_py_coreml import plugin, writer
from ort_py_coreml.options import OPTIONS as OPTION_SPECS
from providers.coreml.tests.mil_interpreter import InterpretedRuntime

OPTIONS = {option.name: option.default for option in OPTION_SPECS}


@pytest.fixture
def factory() -> plugin.CoreMLProviderFactory:
    """The one factory that the hook contributes."""
    (found,) = plugin.ort_py_providers()
    assert isinstance(found, plugin.CoreMLProviderFactory)
    return found


def test_it_has_the_name_of_its_entry_point_and_comes_before_processors(factory: plugin.CoreMLProviderFactory) -> None:
    assert factory.name == "CoreMLExecutionProvider"
    assert factory.device_class is DeviceClass.NPU
    assert factory.stands_in_for is None


def test_it_fits_the_contracts_of_this_core(factory: plugin.CoreMLProviderFactory) -> None:
    assert factory.api_range.meets(CORE_API_RANGE)


def test_probe_imports_nothing() -> None:
    """Listing the providers loads neither coremltools nor NumPy for it."""
    code = (
        "import sys, ort_py_coreml.plugin as p; p.ort_py_providers()[0].probe(); "
        "print(sorted({'coremltools', 'sympy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("system", ["linux", "win32"])
def test_other_systems_are_a_reason_and_a_fix(
    system: str, factory: plugin.CoreMLProviderFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    found = factory.probe()
    assert not found
    assert found.reason == f"Core ML is part of macOS, and this is {system}"
    assert found.fix.startswith("run the model with another provider")


def test_a_mac_has_it(factory: plugin.CoreMLProviderFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    found = factory.probe()
    assert (bool(found), found.devices) == (True, (HOST,))


def test_missing_coremltools_is_a_reason_and_a_fix(
    factory: plugin.CoreMLProviderFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(writer, "version", missing)
    found = factory.probe()
    assert (bool(found), found.reason, found.fix) == (False, "coremltools is not installed", "pip install coremltools")


@pytest.mark.skipif(sys.platform == "darwin", reason="Core ML is here")
def test_a_provider_cannot_be_made_elsewhere(factory: plugin.CoreMLProviderFactory) -> None:
    """The error says why, and not that a module is missing."""
    with pytest.raises(EPFail, match="Core ML cannot run models here") as caught:
        factory.create(OPTIONS, SessionContext())
    assert "part of macOS" in str(caught.value)


def test_the_provider_is_made_and_closed(
    factory: plugin.CoreMLProviderFactory, interpreted: InterpretedRuntime
) -> None:
    provider = factory.create(OPTIONS, SessionContext())
    assert provider.name == factory.name
    assert provider.kernel_registry() == ()
    assert not provider.checks_inputs
    provider.close()


def test_it_is_listed_where_it_runs(interpreted: InterpretedRuntime) -> None:
    """Before the providers of processors."""
    names = ort.get_available_providers()
    assert names.index("CoreMLExecutionProvider") < names.index("CPUExecutionProvider")
