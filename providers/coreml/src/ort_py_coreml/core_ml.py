"""Core ML as a back end: regions are written by coremltools on every system, and run on macOS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import coremltools
import numpy as np

from ort_py.contracts import RegionView
from ort_py_coreml.artifact import Border
from ort_py_coreml.back_end import Array, BackEnd, Model
from ort_py_coreml.enumerations import shapes_of
from ort_py_coreml.package import save
from ort_py_coreml.program import program_of
from ort_py_coreml.runtime import Loading, Package, Runtime

__all__ = ["CoreML"]


class CoreML(BackEnd):
    """Packages of coremltools.

    Args:
        options: Validated options.
        half: Whether Core ML computes in float16.
        runtime: Whatever runs packages; None if they are only written.
    """

    def __init__(self, options: Mapping[str, Any], *, half: bool, runtime: Runtime | None) -> None:
        self._how = Loading(
            str(options["MLComputeUnits"]),
            str(options["ModelCacheDirectory"]),
            str(options["SpecializationStrategy"]),
            bool(options["AllowLowPrecisionAccumulationOnGPU"]),
            bool(options["ProfileComputePlan"]),
        )
        self._target = str(options["deployment_target"])
        self._longest = int(options["max_dimension"])
        self._states = str(options["states"])
        self._shapes = str(options["shapes"])
        self._half = half
        self._runtime = runtime

    @property
    def facts(self) -> Mapping[str, Any]:
        """Version of coremltools, and the options that packages depend on."""
        return {
            "coremltools": coremltools.__version__,
            "deployment_target": self._target,
            "float16": self._half,
            "max_dimension": self._longest,
        }

    @property
    def suffix(self) -> str:
        """Packages."""
        return ".mlpackage"

    @property
    def computes_float16(self) -> bool:
        """True: coremltools converts programs."""
        return True

    @property
    def is_later(self) -> bool:
        """Whether the option `deployment_target` says so."""
        return self._target != "macOS14"

    def save(self, region: RegionView, target: Path, *, named: bool = False) -> Border:
        """Write a package."""
        shapes = shapes_of(self._shapes, region, several=self.is_later) if self._shapes else {}
        program = program_of(region, named=named, system=self._target, states=self._states)
        return save(program, target, self._longest, half=self._half, shapes=shapes)

    def load(self, written: Path) -> Model:
        """Load a package."""
        assert self._runtime is not None, "a provider that only writes loads nothing"
        return _Loaded(self._runtime.load(written, self._how))


class _Loaded(Model):
    """A package in Core ML, which looks at no limit of time while it runs."""

    def __init__(self, package: Package) -> None:
        self._package: Package | None = package

    def predict(self, feeds: Mapping[str, Array], check: Callable[[], None] | None) -> Mapping[str, Array]:
        """Run once. coremltools hands arrays to Core ML without a copy, but only those that may be written to."""
        assert self._package is not None, "frames are closed before their region"
        return self._package.predict({name: np.require(array, None, ["C", "W"]) for name, array in feeds.items()})

    def close(self) -> None:
        """Release the package."""
        self._package = None
