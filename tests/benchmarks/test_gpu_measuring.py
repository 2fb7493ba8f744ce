"""Measurement and reports of `benchmarks.gpu` on the CPU: processes, ceilings, refusals, the page, and no device."""

from __future__ import annotations

import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import gpu, gpu_device
from benchmarks.alternating import Runtimes
from benchmarks.gpu_device import Ceilings, copy_rate, no_device, product_rate, rate
from benchmarks.gpu_families import FAMILIES, Family
from benchmarks.gpu_models import GpuModel, model_of
from benchmarks.gpu_report import FamilyRow, ModelRow, page
from benchmarks.gpu_work import Work

KNOWN = Ceilings("A device, 8 GiB", "driver 1", 1e12, {"float32": 1e13}, {"tf32": "RuntimeError: none"})


class _Driver:
    """A driver with scripted answers."""

    def __init__(self, initialised: int = 0, devices: int = 1) -> None:
        self._initialised, self._devices = initialised, devices

    def cuInit(self, _flags: int) -> int:  # noqa: N802 - the driver's own name
        """Whether it starts."""
        return self._initialised

    def cuDeviceGetCount(self, count: Any) -> int:  # noqa: N802 - the driver's own name
        """Number of devices."""
        count._obj.value = self._devices
        return 0


def test_without_a_device_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Code 2 and one line, before anything is made."""
    monkeypatch.setattr(gpu, "no_device", lambda: "no CUDA device: none here")
    assert gpu.main(["unet"]) == 2
    assert capsys.readouterr().err == "no CUDA device: none here\n"


def test_ceilings_without_a_device(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Their own command says it too."""
    monkeypatch.setattr(gpu_device, "no_device", lambda: "no CUDA device: none here")
    assert gpu_device.main([]) == 2
    assert capsys.readouterr().err == "no CUDA device: none here\n"


def test_why_there_is_no_device() -> None:
    """No driver, one that does not start, no device; or there is one."""

    def missing(_name: str) -> Any:
        raise OSError("cannot open")

    assert no_device(missing) == "no CUDA device: NVIDIA's driver is not installed (cannot open)"
    assert str(no_device(lambda _: _Driver(initialised=100))).endswith("says 100")
    assert no_device(lambda _: _Driver(devices=0)) == "no CUDA device: cuDeviceGetCount says 0, 0 devices"
    assert no_device(lambda _: _Driver()) is None


def test_a_rate_counts_what_ran() -> None:
    """Each turn is synchronised once; the amount is that of all its runs."""
    runs, waits = [], []
    assert rate(1.0, lambda: runs.append(0), lambda: waits.append(len(runs)), seconds=0.001) > 0
    assert len(waits) == 7  # two runs to know how many a turn takes, five turns
    assert len(set(np.diff(waits[2:]))) == 1


def test_ceilings_are_measured_with_the_array_module() -> None:
    """NumPy in place of CuPy: what is copied and multiplied is what is divided by the time."""
    assert 1e6 < copy_rate(np, lambda: None, nbytes=1 << 20, seconds=0.01) < 1e13
    assert 1e5 < product_rate(np, "float32", lambda: None, side=64, seconds=0.01) < 1e14


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_a_model_in_all_processes(precision: str, tmp_path: Path) -> None:
    """Ours, onnxruntime and PyTorch by the same road as on a device; what is not installed is refused."""
    settings = gpu.variants(["eager", "onnxruntime", "ours"], "cpu", precision, graphs=False)
    with Runtimes(1, names=list(settings), variants=settings) as runtimes:
        row = gpu.measure_model(
            runtimes, model_of("bert-large"), 2, precision, 1, KNOWN, small=True, seconds=0.02, folder=tmp_path
        )
    assert {"onnxruntime", "ours"} <= row.seconds.keys()
    assert all(one > 0 for one in row.seconds.values())
    assert (row.roofline is None) == (precision == "float16")
    if find_spec("torch"):
        assert row.error is not None
        assert row.error < (1e-5 if precision == "float32" else 5e-3)
    else:
        assert "PyTorch is not installed here: pip install torch" in row.refused["eager"]


@pytest.mark.slow
def test_a_runtime_without_the_device_is_refused(tmp_path: Path) -> None:
    """A missing CUDA provider is never silently measured on another one."""
    settings = gpu.variants(["onnxruntime"], "cuda", "float32", graphs=True)
    assert settings["onnxruntime@onnxruntime"]["device"]["graphs"]
    with Runtimes(1, names=list(settings), variants=settings) as runtimes:
        row = gpu.measure_model(
            runtimes, model_of("resnet50"), 1, "float32", 1, KNOWN, small=True, seconds=0.02, folder=tmp_path
        )
    assert row.seconds == {}
    assert "has no CUDAExecutionProvider here" in row.refused["onnxruntime"]


@pytest.mark.slow
def test_a_family_is_held_against_its_ceiling(tmp_path: Path) -> None:
    """Bytes of inputs, weights and outputs over the median."""
    family = Family("scaled", "y = Mul (x, s)", {"x": (4, 8)}, (4, 8), weights={"s": (8,)})
    settings = gpu.variants(["ours"], "cpu", "float32", graphs=False)
    with Runtimes(1, names=list(settings), variants=settings) as runtimes:
        row = gpu.measure_family(runtimes, family, "float32", 1, KNOWN, tmp_path, seconds=0.02)
    assert row.achieved is not None
    assert 0 < row.achieved < 1e10
    assert row.ceiling == KNOWN.copied


@pytest.mark.slow
def test_the_command_writes_its_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Everything from the arguments to the file, with the processor as the device."""
    family = Family("scaled", "y = Mul (x, s)", {"x": (4, 8)}, (4, 8), weights={"s": (8,)})
    small = model_of("vit-large").small
    on_device = gpu.variants
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(gpu, "no_device", lambda: None)
    monkeypatch.setattr(gpu, "ceilings", lambda: KNOWN)
    monkeypatch.setattr(gpu, "FAMILIES", (family,))
    monkeypatch.setattr(gpu, "model_of", lambda name: GpuModel(name, small, small))
    monkeypatch.setattr(gpu, "variants", lambda names, _, *others, **more: on_device(names, "cpu", *others, **more))
    target = tmp_path / "gpu.md"
    chosen = ["--batch", "2", "--precision", "float32", "--runtimes", "onnxruntime", "ours", "--blocks", "1"]
    assert gpu.main(["vit-large", *chosen, "--write", str(target)]) == 0
    text = target.read_text(encoding="utf-8")
    assert text.startswith("# On a GPU: A device\n\n```\npython -m benchmarks.gpu vit-large --batch 2")
    assert "| model | batch | onnxruntime ms | ort-py ms |" in text
    assert "| vit-large | 2 |" in text
    assert "| scaled | float32 |" in text


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_families_say_what_they_move(family: Family) -> None:
    """A family bound by operations has some; names are unique."""
    assert family.bound in {"bytes", "operations"}
    assert [one.name for one in FAMILIES].count(family.name) == 1


def test_a_familys_work(tmp_path: Path) -> None:
    """float16 has half the bytes; products that are not ONNX nodes are counted by hand."""
    family = Family("product", "y = MatMul (x, w)", {"x": (4, 8)}, (4, 2), weights={"w": (8, 2)}, bound="operations")
    _, feeds, work = family.make(tmp_path, half=False)
    assert work == Work(2 * 4 * 2 * 8, 4 * (32 + 16 + 8))
    assert feeds["x"].dtype == np.float32
    _, feeds, work = family.make(tmp_path, half=True)
    assert work.transferred == 2 * (32 + 16 + 8)
    assert feeds["x"].dtype == np.float16


def test_the_page() -> None:
    """Hardware, date, ceilings, ratios, what is good, what did not run and why."""
    names = {"eager": "torch eager", "compiled": "torch.compile", "onnxruntime": "onnxruntime", "ours": "ort-py"}
    rows = [
        ModelRow("m", 1, "float32", {"eager": 2e-3, "compiled": 1e-3, "ours": 1.2e-3}, {}, 0.5e-3, 1e-6),
        ModelRow("m", 32, "float32", {"eager": 2e-3, "compiled": 1e-3, "ours": 1.5e-3}, {}, 0.5e-3, 1e-6),
        ModelRow("m", 1, "tf32", {"ours": 1e-3}, {"eager": "RuntimeError: no\nmemory"}, None, None),
    ]
    families = [
        FamilyRow("softmax", "float32", "bytes", 0.5e12, 1e12),
        FamilyRow("product", "tf32", "operations", None, None, "refused: why"),
    ]
    text = page("21 November 2026", KNOWN, names, rows, families)
    assert text.startswith("Measured on 21 November 2026: A device, 8 GiB; driver 1.")
    assert "| copy, read and written | 1000 GB/s |" in text
    assert "| product, tf32 | not measured: RuntimeError: none |" in text
    assert "| m | 1 | 2.000 | 1.000 | – | 1.200 | 0.60 | 1.20 | 2.40 | 1e-06 | yes |" in text
    assert "| m | 32 | 2.000 | 1.000 | – | 1.500 | 0.75 | 1.50 | 3.00 | 1e-06 | no |" in text
    assert "| m | 1 | – | – | – | 1.000 | – | – | – | – | – |" in text
    assert "Geometric means of our time: 0.67 of eager (2), 1.34 of compiled (2)." in text
    assert "| softmax | float32 | 500.0 GB/s | 1000.0 GB/s | 50% |" in text
    assert "- eager: RuntimeError: no memory (m × 1 tf32)" in text
    assert "- refused: why (product tf32)" in text
