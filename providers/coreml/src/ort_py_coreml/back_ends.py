"""Chooses a back end: by the option `backend` or by the name of a file, and by what is installed here."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ort_py.contracts import Availability
from ort_py.devices import HOST
from ort_py.errors import EPFail
from ort_py_coreml.back_end import BackEnd

__all__ = ["PACKAGES", "find", "open_back_end", "probe", "writer_for"]

PACKAGES = {".mlpackage": "coremltools", ".aimodel": "coreai-core"}
"""For each kind of file the distribution that writes it."""


def find(distribution: str) -> Availability:
    """Return whether a distribution is installed, without importing it."""
    try:
        found = version(distribution)
    except PackageNotFoundError:
        return Availability(False, reason=f"{distribution} is not installed", fix=f"pip install {distribution}")
    return Availability(True, reason=f"{distribution} {found}", devices=(HOST,))


def probe() -> Availability:
    """Return whether Core ML or Core AI can run models here, or what is missing."""
    if sys.platform == "darwin" and (found := find("coremltools")):
        return found
    other = find("coreai-core")
    if other or sys.platform == "darwin":
        return other if other else find("coremltools")
    return Availability(
        False,
        reason=f"Core ML is part of macOS, and this is {sys.platform}; Core AI is not installed",
        fix="pip install 'ort-py-coreml[coreai]', or run the model with another provider; "
        "packages for Core ML can be built on every system",
    )


def open_back_end(options: Mapping[str, Any], *, half: bool) -> BackEnd:
    """Return the back end that a session asks for, or Core ML if it runs here, and Core AI otherwise.

    Args:
        options: Validated options.
        half: Whether Core ML computes in float16.

    Raises:
        EPFail: It does not run here, or not in a process that was forked.
    """
    chosen = str(options["backend"])
    if chosen == "coreai" or (chosen == "auto" and sys.platform != "darwin" and find("coreai-core")):
        opened = _core_ai(options)
        opened.check_process()
        return opened
    from ort_py_coreml import runtime

    loader = runtime.open_runtime()
    from ort_py_coreml.core_ml import CoreML

    return CoreML(options, half=half, runtime=loader)


def writer_for(target: Path, options: Mapping[str, Any], *, half: bool) -> BackEnd:
    """Return the back end that writes a file, which need not run here."""
    if target.suffix == ".aimodel":
        return _core_ai(options)
    from ort_py_coreml.core_ml import CoreML

    return CoreML(options, half=half, runtime=None)


def _core_ai(options: Mapping[str, Any]) -> BackEnd:
    found = find("coreai-core")
    if not found:
        raise EPFail("Core AI cannot run models here.", why=(found.reason,), fix=found.fix)
    from ort_py_coreml.core_ai.back_end import CoreAI

    return CoreAI(options)
