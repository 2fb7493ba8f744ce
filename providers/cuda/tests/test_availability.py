"""Results of the probe: each missing or unfitting piece by name, with the command that repairs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ort_py_cuda import availability, installed, libraries
from ort_py_cuda.driver import Driver, Gpu, read_driver, visible

H200 = Gpu("NVIDIA H200", (9, 0), "GPU-aaaa")
T4 = Gpu("Tesla T4", (7, 5), "GPU-bbbb")
V100 = Gpu("Tesla V100", (7, 0), "GPU-cccc")
GOOD = Driver(True, "", (13, 1), "590.44", (H200,))
CUPY = installed.CuPy("cupy-cuda13x", "14.2.0", 13)


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """An installation in which nothing is missing."""
    monkeypatch.setattr(availability, "find_cupy", lambda: CUPY)
    monkeypatch.setattr(libraries, "find", lambda name, major=None: tmp_path)
    monkeypatch.setattr(libraries, "include_folders", lambda: (tmp_path,))
    monkeypatch.setattr(libraries, "wheel_version", lambda name, major=None: "9.28.0")
    monkeypatch.setattr(availability, "version", lambda name: "1.28.0")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return monkeypatch


def test_all_there(whole: pytest.MonkeyPatch) -> None:
    """Available, with what was found and the devices."""
    answer = availability.examine(GOOD)
    assert answer.available
    assert answer.reason == "cupy-cuda13x 14.2.0, driver 590.44 for CUDA 13.1, cuDNN 9.28.0, NVIDIA H200 (9.0)"
    assert [str(device) for device in answer.devices] == ["cuda:0"]


def test_several_gpus_are_several_devices(whole: pytest.MonkeyPatch) -> None:
    driver = Driver(True, "", (13, 1), "590.44", (H200, T4, H200))
    assert len(availability.examine(driver).devices) == 3
    whole.setenv("CUDA_VISIBLE_DEVICES", "2,1")
    assert len(availability.examine(driver).devices) == 2


def test_no_driver(whole: pytest.MonkeyPatch) -> None:
    answer = availability.examine(Driver(False, "libcuda.so.1: cannot open shared object file"))
    assert not answer.available
    assert answer.reason == "there is no NVIDIA driver (libcuda.so.1: cannot open shared object file)"
    assert "install NVIDIA's driver" in answer.fix


def test_no_gpu(whole: pytest.MonkeyPatch) -> None:
    """A driver without one: a container that was given none."""
    answer = availability.examine(Driver(True, "", (13, 1), "590.44", ()))
    assert "the driver shows no GPU" in answer.reason
    assert "container" in answer.fix


def test_all_gpus_hidden(whole: pytest.MonkeyPatch) -> None:
    whole.setenv("CUDA_VISIBLE_DEVICES", "7")
    answer = availability.examine(GOOD)
    assert answer.reason == "CUDA_VISIBLE_DEVICES='7' hides all 1 GPUs"
    assert "unset CUDA_VISIBLE_DEVICES" in answer.fix


def test_a_driver_too_old_for_the_wheel(whole: pytest.MonkeyPatch) -> None:
    """Both ways out: a newer driver, or the wheel for the older CUDA."""
    answer = availability.examine(Driver(True, "", (12, 4), "550.54", (T4,)))
    assert answer.reason == "driver 550.54 runs CUDA up to 12.4, and cupy-cuda13x needs 13.0"
    assert "update the driver to 580" in answer.fix
    assert 'pip uninstall -y cupy-cuda13x && pip install "ort-py-cuda[cuda12]"' in answer.fix


def test_a_gpu_too_old_for_the_wheel(whole: pytest.MonkeyPatch) -> None:
    """The wheel for CUDA 12 still has code for it; a newer one beside it is enough."""
    answer = availability.examine(Driver(True, "", (13, 1), "590.44", (V100,)))
    assert answer.reason == "Tesla V100 has compute capability 7.0, and CUDA 13 needs 7.5"
    assert '"ort-py-cuda[cuda12]"' in answer.fix
    assert availability.examine(Driver(True, "", (13, 1), "590.44", (V100, H200))).available


def test_gpus_that_nobody_lists(whole: pytest.MonkeyPatch) -> None:
    """Without NVML the driver is believed, and one device assumed."""
    answer = availability.examine(Driver(True, "", (13, 1)))
    assert answer.available
    assert len(answer.devices) == 1
    assert "does not list its GPUs" in answer.reason


@pytest.mark.parametrize(("cuda", "extra"), [((13, 0), "cuda13"), ((12, 6), "cuda12")])
def test_no_cupy(whole: pytest.MonkeyPatch, cuda: tuple[int, int], extra: str) -> None:
    """The extra that suits the driver."""
    missing = installed.Missing("CuPy is not installed", installed.install_command())
    whole.setattr(availability, "find_cupy", lambda: missing)
    answer = availability.examine(Driver(True, "", cuda, "570", (H200,)))
    assert answer.reason == "CuPy is not installed"
    assert answer.fix == f'pip install "ort-py-cuda[{extra}]"'


@pytest.mark.parametrize(("name", "title"), [("nvrtc", "NVRTC"), ("cublas", "cuBLAS"), ("cublasLt", "cuBLASLt")])
def test_a_library_that_everything_needs(whole: pytest.MonkeyPatch, tmp_path: Path, name: str, title: str) -> None:
    """Without it nothing runs; the extra brings it."""
    whole.setattr(libraries, "find", lambda one, major=None: None if one == name else tmp_path)
    answer = availability.examine(GOOD)
    assert answer.reason == f"{title} is not installed"
    assert answer.fix == 'pip install "ort-py-cuda[cuda13]"'


def test_headers_that_everything_needs(whole: pytest.MonkeyPatch) -> None:
    whole.setattr(libraries, "include_folders", lambda: ())
    assert availability.examine(GOOD).reason == "cuda_fp16.h of the CUDA runtime is not installed"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("cudnn", "without cuDNN: convolutions, pooling and attention take slower kernels (pip install nvidia-cudnn"),
        ("cufft", "without cuFFT: DFT and STFT fail over to the next provider (pip install nvidia-cufft)"),
        ("cusolver", "without cuSOLVER: Det and Inverse fail over to the next provider (pip install nvidia-cusolver)"),
    ],
)
def test_a_library_that_some_operators_need(whole: pytest.MonkeyPatch, tmp_path: Path, name: str, says: str) -> None:
    """Available, and said what works less well."""
    whole.setattr(libraries, "find", lambda one, major=None: None if one == name else tmp_path)
    answer = availability.examine(GOOD)
    assert answer.available
    assert says in answer.reason


def test_everything_wrong_is_told_at_once(whole: pytest.MonkeyPatch) -> None:
    """All reasons and all fixes, not the first."""
    missing = installed.Missing("CuPy is not installed", installed.install_command())
    whole.setattr(availability, "find_cupy", lambda: missing)
    answer = availability.examine(Driver(False, "nothing"))
    assert answer.reason == "there is no NVIDIA driver (nothing); CuPy is not installed"
    assert answer.fix.count(";") == 1


# -- which CuPy ----------------------------------------------------------------------------------------------------


def _installed(monkeypatch: pytest.MonkeyPatch, folder: bool = True, **versions: str) -> Any:
    names = {name.replace("_", "-"): version for name, version in versions.items()}
    monkeypatch.setattr(installed, "_version", names.get)
    monkeypatch.setattr(installed, "find_spec", lambda name: object() if folder else None)
    return installed.find_cupy()


def test_one_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name tells its CUDA; built from source it has none in its name."""
    assert _installed(monkeypatch, cupy_cuda12x="14.0.1") == installed.CuPy("cupy-cuda12x", "14.0.1", 12)
    assert _installed(monkeypatch, cupy="14.2.0") == installed.CuPy("cupy", "14.2.0", 0)


@pytest.mark.parametrize(
    ("versions", "folder", "reason", "fix"),
    [
        ({}, False, "CuPy is not installed", 'pip install "ort-py-cuda[cuda13]"'),
        ({}, True, "no distribution that it belongs to", "--force-reinstall"),
        (
            {"cupy_cuda12x": "14.2.0", "cupy_cuda13x": "14.2.0"},
            True,
            "cupy-cuda13x 14.2.0 and cupy-cuda12x 14.2.0 are both installed",
            'pip uninstall -y cupy-cuda13x cupy-cuda12x && pip install "ort-py-cuda[cuda13]"',
        ),
        ({"cupy_cuda12x": "13.6.0"}, True, "14.0 is the oldest", '"ort-py-cuda[cuda12]" --upgrade'),
        ({"cupy_cuda11x": "13.6.0"}, True, "14.0 is the oldest", "pip uninstall -y cupy-cuda11x && pip install"),
        ({"cupy_rocm_7_0": "14.0.0"}, True, "for AMD's devices", "pip uninstall -y cupy-rocm-7-0"),
        ({"cupy_cuda13x": "14.2.0"}, False, "its folder cupy is not there", "--force-reinstall"),
    ],
)
def test_a_cupy_that_does_not_work(
    monkeypatch: pytest.MonkeyPatch, versions: dict[str, str], folder: bool, reason: str, fix: str
) -> None:
    """Each way in which it is wrong has its own words and its own command."""
    found = _installed(monkeypatch, folder, **versions)
    assert isinstance(found, installed.Missing)
    assert reason in found.reason
    assert fix in found.fix


# -- what the driver says ------------------------------------------------------------------------------------------


class _Library:
    """A library of the driver's that answers."""

    def __init__(self, gpus: int = 1, fails: bool = False) -> None:
        self.gpus, self.fails, self.shut = gpus, fails, False

    def cuDriverGetVersion(self, out: Any) -> int:  # noqa: N802
        out._obj.value = 13010
        return 0

    def nvmlInit_v2(self) -> int:  # noqa: N802
        return 999 if self.fails else 0

    def nvmlShutdown(self) -> int:  # noqa: N802
        self.shut = True
        return 0

    def nvmlDeviceGetCount_v2(self, out: Any) -> int:  # noqa: N802
        out._obj.value = self.gpus
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: Any, out: Any) -> int:  # noqa: N802
        out._obj.value = index.value + 1
        return 0

    def nvmlDeviceGetCudaComputeCapability(self, handle: Any, major: Any, minor: Any) -> int:  # noqa: N802
        major._obj.value, minor._obj.value = 9, handle.value - 1
        return 0

    def nvmlSystemGetDriverVersion(self, buffer: Any, _size: Any) -> int:  # noqa: N802
        buffer.value = b"590.44"
        return 0

    def nvmlDeviceGetName(self, handle: Any, buffer: Any, _size: Any) -> int:  # noqa: N802
        buffer.value = f"GPU {handle.value}".encode()
        return 0

    def nvmlDeviceGetUUID(self, handle: Any, buffer: Any, _size: Any) -> int:  # noqa: N802
        buffer.value = f"GPU-{handle.value}".encode()
        return 0


def test_the_driver_is_asked_through_nvml(tmp_path: Path) -> None:
    """Where Linux shows nothing: version, GPUs and capabilities, and NVML is closed again."""
    library = _Library(gpus=2)
    found = read_driver(lambda name: library, tmp_path)
    assert (found.cuda, found.version) == ((13, 1), "590.44")
    assert found.gpus == (Gpu("GPU 1", (9, 0), "GPU-1"), Gpu("GPU 2", (9, 1), "GPU-2"))
    assert library.shut


def test_a_driver_without_nvml(tmp_path: Path) -> None:
    """Its CUDA version is known, its GPUs are not."""

    def opens(name: str) -> Any:
        if "nv" in name and "cuda" not in name:
            raise OSError(name)
        return _Library()

    assert read_driver(opens, tmp_path) == Driver(True, cuda=(13, 1))
    assert read_driver(lambda name: _Library(fails=True), tmp_path) == Driver(True, cuda=(13, 1))


def test_the_driver_is_read_from_what_linux_shows(tmp_path: Path) -> None:
    """No library but the driver's own is opened."""
    (tmp_path / "version").write_text("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release\n")
    for number, name in enumerate(("NVIDIA H200", "Tesla T4")):
        folder = tmp_path / "gpus" / f"0000:{number}1:00.0"
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"Model: \t\t {name}\nIRQ: 7\nGPU UUID: \t GPU-{number}\n")
    opened: list[str] = []

    def opens(name: str) -> Any:
        opened.append(name)
        return _Library()

    found = read_driver(opens, tmp_path)
    assert len(opened) == 1
    assert found.version == "580.65.06"
    assert found.gpus == (Gpu("NVIDIA H200", None, "GPU-0"), Gpu("Tesla T4", None, "GPU-1"))


@pytest.mark.parametrize(
    ("wanted", "left"),
    [
        (None, [H200, T4]),
        ("", []),
        ("-1", []),
        ("1", [T4]),
        ("1,0", [T4, H200]),
        ("0,9,1", [H200]),
        ("0,0", [H200]),
        ("GPU-b", [T4]),
        ("GPU-", []),
        ("MIG-1,MIG-2", [H200, H200]),
    ],
)
def test_what_the_environment_leaves(wanted: str | None, left: list[Gpu]) -> None:
    """CUDA's own rules: numbers or beginnings of names, up to the first that is none."""
    assert list(visible((H200, T4), wanted)) == left


def test_discovery_imports_no_cupy_and_opens_no_context() -> None:
    """Importing the plug-in and probing leaves CuPy, NumPy's stand-ins and NVIDIA's packages alone."""
    code = (
        "import sys, ort_py; ort_py.get_available_providers(); import ort_py_cuda.plugin as p; "
        "p.CUDAProviderFactory().probe(); "
        "print([name for name in ('cupy', 'cudnn', 'ort_py_array', 'ort_py_cuda.provider') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
