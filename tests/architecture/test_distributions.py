"""The distributions agree with one another: version, licence, Python, and who depends on whom."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

import ort_py
from tests.support.source_tree import ROOT

FOLDERS = (".", *(str(file.parent.relative_to(ROOT)) for file in ROOT.glob("providers/*/pyproject.toml")), "core")


def _project(folder: str) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


@pytest.mark.parametrize("folder", FOLDERS)
def test_one_version(folder: str) -> None:
    """All distributions of the repository are released together."""
    assert _project(folder)["version"] == ort_py.__version__


@pytest.mark.parametrize("folder", FOLDERS)
def test_one_licence(folder: str) -> None:
    """Each distribution carries the licence's text; the copies are equal."""
    assert _project(folder)["license"] == "Apache-2.0"
    assert (ROOT / folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


@pytest.mark.parametrize("folder", FOLDERS)
def test_one_range_of_pythons(folder: str) -> None:
    """What one distribution needs, all need."""
    assert _project(folder)["requires-python"] == ">=3.11"


@pytest.mark.parametrize("folder", [folder for folder in FOLDERS if folder != "."])
def test_types_are_shipped(folder: str) -> None:
    """Every import package has the marker that its annotations count."""
    assert list((ROOT / folder / "src").glob("*/py.typed"))


def test_the_core_depends_on_no_provider() -> None:
    """Nor on anything that is not pure Python beside NumPy, onnx and the types package."""
    names = {entry.split(">")[0].split("=")[0] for entry in _project("core")["dependencies"]}
    assert names == {"numpy", "onnx", "ml_dtypes", "pluggy"}
