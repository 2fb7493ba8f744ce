"""Whether OpenVINO is installed here, as far as files and metadata tell: nothing of it is imported.

Comes before `runtime`, which imports it.
"""

from __future__ import annotations

import re
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from ort_py.lazy_dataclass import dataclass

__all__ = ["OLDEST", "Installed", "Missing", "find"]

OLDEST = (2025, 0)
"""The first release whose Python API, properties and front end are those used here."""

_FIX = 'pip install --upgrade "openvino>=2025.0"'


@dataclass(frozen=True, slots=True)
class Installed:
    """OpenVINO is there.

    Attributes:
        version: As its distribution says, e.g. ``"2026.4.1"``.
        folder: Where the package is.
    """

    version: str
    folder: Path


@dataclass(frozen=True, slots=True)
class Missing:
    """It is not, or cannot work.

    Attributes:
        reason: What was found.
        fix: The command that mends it.
    """

    reason: str
    fix: str


def find() -> Installed | Missing:
    """Look for the package, its version and the files that it cannot do without."""
    try:
        spec = find_spec("openvino")
    except (ImportError, ValueError) as error:
        return Missing(f"looking for the package openvino fails: {error}", f"{_FIX} --force-reinstall")
    if spec is None or not spec.submodule_search_locations:
        return Missing("the package openvino is not installed", _FIX)
    folder = Path(next(iter(spec.submodule_search_locations)))
    try:
        found = version("openvino")
    except PackageNotFoundError:
        return Missing(f"there is a folder {folder}, but no distribution named openvino", f"{_FIX} --force-reinstall")
    numbers = tuple(int(number) for number in re.findall(r"\d+", found)[:2])
    if numbers < OLDEST:
        return Missing(f"openvino {found} is installed; {OLDEST[0]}.{OLDEST[1]} is the oldest that works", _FIX)
    lacking = _lacking(folder)
    if lacking:
        return Missing(f"openvino {found} in {folder} lacks {lacking}", f"{_FIX} --force-reinstall")
    return Installed(found, folder)


def _lacking(folder: Path) -> str:
    """The first file of a wheel that is not there."""
    if not any((folder / f"_pyopenvino{suffix}").is_file() for suffix in EXTENSION_SUFFIXES):
        return f"its extension module for Python {sys.version_info.major}.{sys.version_info.minor}"
    if not any((folder / "frontend" / "onnx").glob("py_onnx_frontend*")):
        return "its reader of ONNX models"
    return ""
