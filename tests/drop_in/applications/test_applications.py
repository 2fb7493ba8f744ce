"""Released applications that import onnxruntime, run unchanged: once with it, once with ort-py under its name.

Each runs in processes of its own, on the same input, and must find the same. What it finds is coarse, texts and
labels, so every tensor its sessions gave is compared as well.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.drop_in.applications.packages import installed_applications

pytestmark = pytest.mark.models

PROGRAMS = Path(__file__).parent / "programs"
TOLERANCE = {
    "use_mtcnn": 2e-3,  # its pictures are scaled by the boxes of the step before
    "use_tashkeel": 2e-2,  # quantised: one rounding decided the other way is a step of the scale
}
"""Largest difference of tensors, of the larger of 1 and their largest element; 1e-3 for the others."""


@dataclass(frozen=True)
class Found:
    """The output of a program."""

    runtime: dict[str, str]
    found: Any
    tensors: dict[str, np.ndarray[Any, Any]]


@pytest.fixture(scope="session")
def packages() -> Path:
    """Folder with the applications."""
    return installed_applications()


def run(program: str, packages: Path, target: Path, *prefix: str, blocked: str = "") -> Found:
    """Run a program in a process of its own, some providers kept out."""
    inherited = os.environ.get("PYTHONPATH", "")
    path = os.pathsep.join(part for part in (inherited, str(packages)) if part)
    done = subprocess.run(
        [sys.executable, *prefix, str(PROGRAMS / f"{program}.py"), str(target)],
        env=os.environ | {"PYTHONPATH": path, "ORT_PY_BLOCK_PROVIDERS": blocked},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    written = json.loads(target.read_text(encoding="utf-8"))
    with np.load(target.with_suffix(".npz")) as archive:
        tensors = dict(archive)
    return Found(written["runtime"], written["found"], tensors)


def expect_same(ours: Any, theirs: Any, where: str = "found") -> None:
    """Texts are equal, numbers close."""
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys(), where
        for key in theirs:
            expect_same(ours[key], theirs[key], f"{where}.{key}")
    elif isinstance(theirs, list):
        assert len(ours) == len(theirs), where
        for index, item in enumerate(theirs):
            expect_same(ours[index], item, f"{where}[{index}]")
    elif isinstance(theirs, float):
        assert ours == pytest.approx(theirs, rel=1e-3, abs=1e-3), where
    else:
        assert ours == theirs, where


@pytest.mark.parametrize("program", sorted(file.stem for file in PROGRAMS.glob("use_*.py")))
def test_same_result_as_with_onnxruntime(program: str, packages: Path, tmp_path: Path) -> None:
    """The application finds the same, its sessions give the same tensors, and it was ort-py that ran."""
    expect_same_run(program, packages, tmp_path)


@pytest.mark.parametrize("program", ["use_lac", "use_magika", "use_mtcnn", "use_silero_vad"])
def test_same_result_by_the_plain_provider(program: str, packages: Path, tmp_path: Path, stand_ins: str) -> None:
    """Likewise where nothing stands in for the CPU provider; the models of all are compared elsewhere."""
    expect_same_run(program, packages, tmp_path, stand_ins)


def expect_same_run(program: str, packages: Path, folder: Path, blocked: str = "") -> None:
    """Run a program with both runtimes and compare all that it left."""
    theirs = run(program, packages, folder / "theirs.json")
    ours = run(program, packages, folder / "ours.json", "-m", "ort_py.as_onnxruntime", blocked=blocked)
    assert "ort_py" in ours.runtime["file"]
    assert "ort_py" not in theirs.runtime["file"]
    assert ours.runtime["version"] == theirs.runtime["version"]
    expect_same(ours.found, theirs.found)
    assert theirs.tensors, "the application ran no model"
    assert ours.tensors.keys() == theirs.tensors.keys()
    for name, expected in theirs.tensors.items():
        found = ours.tensors[name]
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape), name
        largest = max(1.0, float(np.abs(expected).max(initial=0)))
        difference = np.abs(found.astype(np.float64) - expected.astype(np.float64)).max(initial=0)
        assert difference <= TOLERANCE.get(program, 1e-3) * largest, f"tensor {name}: {difference} of {largest}"
