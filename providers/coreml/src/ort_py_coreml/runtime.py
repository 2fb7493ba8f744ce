"""Runs model packages. Only macOS can; elsewhere `open_runtime` says so.

It has not been run so far: no machine with macOS was at hand. Its calls are those of coremltools' documentation
(https://apple.github.io/coremltools/docs-guides/source/model-prediction.html).
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from ort_py.errors import EPFail
from ort_py.lazy_dataclass import dataclass
from ort_py_coreml.back_end import Array

__all__ = ["Loading", "Package", "Runtime", "open_runtime"]

_LOG = logging.getLogger(__name__)
_UNITS = {"ALL": "ALL", "CPUOnly": "CPU_ONLY", "CPUAndGPU": "CPU_AND_GPU", "CPUAndNeuralEngine": "CPU_AND_NE"}
"""coremltools' name for each value of the option MLComputeUnits."""


class Package(Protocol):
    """A package that is ready to run."""

    def predict(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        """Run once; inputs and outputs by the names in the package."""


@dataclass(frozen=True, slots=True)
class Loading:
    """The settings that packages are loaded with.

    Attributes:
        units: A value of the option MLComputeUnits.
        cache: Folder in which compiled models are kept; none if empty.
        strategy: A value of the option SpecializationStrategy.
        low_precision: Whether the GPU may add in float16.
        profile: Whether the plan of the hardware is logged.
    """

    units: str
    cache: str
    strategy: str
    low_precision: bool
    profile: bool


class Runtime(Protocol):
    """Whatever can run packages."""

    def load(self, package: Path, how: Loading) -> Package:
        """Make a package ready to run."""


class _CoreML:
    """Core ML itself, through coremltools."""

    def load(self, package: Path, how: Loading) -> Package:
        """Compile the package unless the cache has it, and load it."""
        import coremltools

        chosen = coremltools.ComputeUnit[_UNITS[how.units]]
        hints = _hints(how)
        if not how.cache:
            model: Any = coremltools.models.MLModel(str(package), compute_units=chosen, optimization_hints=hints)
            if how.profile:
                _log_plan(model.get_compiled_model_path(), chosen)
            whole: Package = model
            return whole
        compiled = Path(how.cache) / f"{_digest(package)}.mlmodelc"
        if not compiled.is_dir():
            _compile(package, compiled)
        if how.profile:
            _log_plan(str(compiled), chosen)
        loaded: Package = coremltools.models.CompiledMLModel(
            str(compiled), compute_units=chosen, optimization_hints=hints
        )
        return loaded


def _hints(how: Loading) -> dict[str, Any] | None:
    """Return coremltools' form of two options, or None if they have their defaults, which older systems take too."""
    import coremltools

    found: dict[str, Any] = {}
    if how.strategy != "Default":
        found["specializationStrategy"] = coremltools.SpecializationStrategy[how.strategy]
    if how.low_precision:
        found["allowLowPrecisionAccumulationOnGPU"] = True
    return found or None


def _log_plan(compiled: str, units: Any) -> None:
    """Log for each operator the hardware that Core ML prefers, and its part of the work."""
    from coremltools.models.compute_plan import MLComputePlan

    plan = MLComputePlan.load_from_path(compiled, units)
    for operation in plan.model_structure.program.functions["main"].block.operations:
        usage = plan.get_compute_device_usage_for_mlprogram_operation(operation)
        cost = plan.get_estimated_cost_for_mlprogram_operation(operation)
        device = "none" if usage is None else type(usage.preferred_compute_device).__name__
        _LOG.info(
            "%s: %s, %s of the work", operation.operator_name, device, "?" if cost is None else f"{cost.weight:.1%}"
        )


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
