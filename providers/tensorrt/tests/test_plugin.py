"""The plug-in of both providers: what discovery sees, that it is cheap, and every reason why one is not usable."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import PackageNotFoundError

import pytest

import ort_py as ort
from ort_py.contracts import CORE_API_RANGE, Availability
from ort_py.devices import Device, DeviceClass
from ort_py_cuda import availability as cuda
from ort_py_tensorrt import installed, plugin
from ort_py_tensorrt.availability import examine, examine_compiler
from ort_py_tensorrt.variants import RTX, TENSORRT, VARIANTS, Variant

GPU = Availability(True, "a GPU", devices=(Device("cuda", 0), Device("cuda", 1)))
NO_GPU = Availability(False, "there is no NVIDIA driver; CuPy is not installed", "install a driver; pip install cupy")


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Versions of distributions that seem to be installed. Their modules are there."""
    found: dict[str, str] = {}

    def version(name: str) -> str:
        if name not in found:
            raise PackageNotFoundError(name)
        return found[name]

    monkeypatch.setattr(installed, "version", version)
    monkeypatch.setattr(installed, "find_spec", lambda name: object())
    return found


def test_the_names_are_those_of_the_entry_points() -> None:
    names = [factory.name for factory in plugin.ort_py_providers()]
    assert names == ["TensorrtExecutionProvider", "NvTensorRTRTXExecutionProvider"]
    assert {"TensorrtExecutionProvider", "NvTensorRTRTXExecutionProvider"} <= set(ort.get_installed_providers())


def test_they_fit_the_contracts_of_this_core_and_are_not_chosen_unnamed() -> None:
    for factory in plugin.ort_py_providers():
        assert factory.api_range.meets(CORE_API_RANGE)
        assert factory.device_class is DeviceClass.GPU
        assert not factory.automatic
        assert factory.stands_in_for is None


def test_probing_imports_nothing() -> None:
    """Neither TensorRT, nor CuPy, nor onnx."""
    code = (
        "import sys, ort_py_tensorrt.plugin as p; [f.probe() for f in p.ort_py_providers()]; "
        "print(sorted({'tensorrt', 'tensorrt_rtx', 'cupy', 'onnx'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda one: one.module)
def test_a_library_and_a_gpu_are_usable(
    variant: Variant, there: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda, "examine", lambda: GPU)
    there[variant.distributions[0]] = "99.0.1"
    found = examine(variant)
    assert found.available
    assert found.reason == f"{variant.distributions[0]} 99.0.1; a GPU"
    assert found.devices == GPU.devices


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda one: one.module)
def test_a_missing_library_is_a_reason_and_a_fix(
    variant: Variant, there: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda, "examine", lambda: GPU)
    found = examine(variant)
    assert (bool(found), found.reason) == (False, f"{variant.title} is not installed")
    assert found.fix == f'pip install "ort-py[{variant.extra}]"'


def test_everything_that_is_missing_is_named(there: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra brings CuPy, so that only the driver is left to install."""
    monkeypatch.setattr(cuda, "examine", lambda: NO_GPU)
    found = examine(TENSORRT)
    assert found.reason == "TensorRT is not installed; there is no NVIDIA driver; CuPy is not installed"
    assert found.fix == 'pip install "ort-py[tensorrt]"; install a driver'


def test_a_library_without_a_gpu_says_that_it_is_there(there: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "examine", lambda: NO_GPU)
    there["tensorrt-rtx-cu13"] = "1.7.1"
    found = examine(RTX)
    assert not found.available
    assert found.reason.startswith("tensorrt-rtx-cu13 1.7.1 is installed, but no GPU can be used: there is no NVIDIA")
    assert examine_compiler(RTX).available


def test_an_old_library_is_refused(there: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "examine", lambda: GPU)
    there["tensorrt"] = "10.3.0"
    found = examine(TENSORRT)
    assert found.reason == "tensorrt 10.3.0 is installed; 11.0 is the oldest that works"


def test_a_library_without_its_module_is_broken(there: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "examine", lambda: GPU)
    monkeypatch.setattr(installed, "find_spec", lambda name: None)
    there["tensorrt-rtx-cu13"] = "1.7.1"
    found = examine(RTX)
    assert "its module tensorrt_rtx is not there" in found.reason
    assert found.fix == "pip install --force-reinstall tensorrt-rtx-cu13"


def test_only_a_library_that_compiles_ahead_writes_without_a_gpu(
    there: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda, "examine", lambda: NO_GPU)
    there |= {"tensorrt": "11.4.0", "tensorrt-rtx": "1.7.1"}
    assert examine_compiler(RTX).available
    assert not examine_compiler(TENSORRT).available
