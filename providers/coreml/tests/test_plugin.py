"""The plug-in of CoreMLExecutionProvider: what discovery sees, and that seeing it is cheap."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError

import pytest

import ort_py as ort
from ort_py.contracts import CORE_API_RANGE, SessionContext
from ort_py.devices import HOST, DeviceClass
from ort_py.errors import EPFail
from ort_py_coreml import back_ends, plugin
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
    """Listing the providers loads neither coremltools nor Core AI."""
    code = (
        "import sys, ort_py_coreml.plugin as p; p.ort_py_providers()[0].probe(); "
        "print(sorted({'coremltools', 'coreai', 'sympy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def _installed(*names: str) -> Callable[[str], str]:
    def found(name: str) -> str:
        if name not in names:
            raise PackageNotFoundError(name)
        return "1.0"

    return found


@pytest.mark.parametrize("system", ["linux", "win32"])
def test_other_systems_are_a_reason_and_a_fix(
    system: str, factory: plugin.CoreMLProviderFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(back_ends, "version", _installed("coremltools"))
    found = factory.probe()
    assert not found
    assert found.reason == f"Core ML is part of macOS, and this is {system}; Core AI is not installed"
    assert found.fix.startswith("pip install 'ort-py-coreml[coreai]', or run the model with another provider")


@pytest.mark.parametrize(
    ("system", "installed", "automatic"),
    [("darwin", "coremltools", True), ("darwin", "coreai-core", True), ("linux", "coreai-core", False)],
)
def test_one_of_two_back_ends_is_enough(
    system: str,
    installed: str,
    automatic: bool,
    factory: plugin.CoreMLProviderFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Core AI on other systems is slower than the providers for processors, and runs where it is named."""
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(back_ends, "version", _installed(installed))
    found = factory.probe()
    assert (bool(found), found.reason, found.devices) == (True, f"{installed} 1.0", (HOST,))
    assert factory.automatic is automatic


def test_missing_coremltools_is_a_reason_and_a_fix(
    factory: plugin.CoreMLProviderFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(back_ends, "version", _installed())
    found = factory.probe()
    assert (bool(found), found.reason, found.fix) == (False, "coremltools is not installed", "pip install coremltools")


@pytest.mark.skipif(sys.platform == "darwin", reason="Core ML is here")
def test_core_ml_cannot_be_made_elsewhere(factory: plugin.CoreMLProviderFactory) -> None:
    """The error says why, and not that a module is missing."""
    with pytest.raises(EPFail, match="Core ML cannot run models here") as caught:
        factory.create(OPTIONS | {"backend": "coreml"}, SessionContext())
    assert "part of macOS" in str(caught.value)


def test_core_ai_that_is_missing_is_an_error(
    factory: plugin.CoreMLProviderFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says what to install."""
    monkeypatch.setattr(back_ends, "version", _installed("coremltools"))
    with pytest.raises(EPFail, match="Core AI cannot run models here") as caught:
        factory.create(OPTIONS | {"backend": "coreai"}, SessionContext())
    assert "pip install coreai-core" in str(caught.value)


def test_the_provider_is_made_and_closed(
    factory: plugin.CoreMLProviderFactory, interpreted: InterpretedRuntime
) -> None:
    provider = factory.create(OPTIONS, SessionContext())
    assert provider.name == factory.name
    assert provider.kernel_registry() == ()
    assert not provider.checks_inputs
    provider.close()


def test_it_is_listed_where_it_runs(interpreted: InterpretedRuntime) -> None:
    assert "CoreMLExecutionProvider" in ort.get_available_providers()
