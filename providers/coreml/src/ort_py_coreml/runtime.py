"""Runs model packages. Only macOS can; elsewhere `open_runtime` says so.

It has not been run so far: no machine with macOS was at hand. Its calls are those of coremltools' documentation
(https://apple.github.io/coremltools/docs-guides/source/model-prediction.html).
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from ort_py.errors import EPFail
from ort_py_coreml.back_end import Array

__all__ = ["Package", "Runtime", "open_runtime"]

_UNITS = {"ALL": "ALL", "CPUOnly": "CPU_ONLY", "CPUAndGPU": "CPU_AND_GPU", "CPUAndNeuralEngine": "CPU_AND_NE"}
"""coremltools' name for each value of the option MLComputeUnits."""


class Package(Protocol):
    """A package that is ready to run."""

    def predict(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        """Run once; inputs and outputs by the names in the package."""


class Runtime(Protocol):
    """Whatever can run packages."""

    def load(self, package: Path, units: str, cache: str) -> Package:
        """Make a package ready to run.

        Args:
            package: The package.
            units: A value of the option MLComputeUnits.
            cache: Folder in which compiled models are kept; none if empty.
        """


class _CoreML:
    """Core ML itself, through coremltools."""

    def load(self, package: Path, units: str, cache: str) -> Package:
        """Compile the package unless the cache has it, and load it."""
        import coremltools

        chosen = coremltools.ComputeUnit[_UNITS[units]]
        if not cache:
            model: Package = coremltools.models.MLModel(str(package), compute_units=chosen)
            return model
        compiled = Path(cache) / f"{_digest(package)}.mlmodelc"
        if not compiled.is_dir():
            _compile(package, compiled)
        loaded: Package = coremltools.models.CompiledMLModel(str(compiled), compute_units=chosen)
        return loaded


def open_runtime() -> Runtime:
    """Return the runtime of this machine.

    Raises:
        EPFail: This is not macOS.
    """
    if sys.platform != "darwin":
        raise EPFail(
            "Core ML cannot run models here.",
            why=(f"it is part of macOS, and this is {sys.platform}",),
            fix="run the model with another provider",
        )
    return _CoreML()


def _compile(package: Path, target: Path) -> None:
    """Compile a package into a cache that other processes may fill at the same time."""
    import coremltools

    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / "model.mlmodelc"
        coremltools.models.utils.compile_model(str(package), str(made))
        try:
            made.rename(target)
        except OSError:
            if not target.is_dir():
                shutil.copytree(made, target)


def _digest(package: Path) -> str:
    found = hashlib.sha256()
    for file in sorted(file for file in package.rglob("*") if file.is_file()):
        found.update(f"{file.relative_to(package).as_posix()} {file.stat().st_size}\n".encode())
        found.update(file.read_bytes())
    return found.hexdigest()
