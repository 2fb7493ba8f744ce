"""Results of the probe for an OpenVINO that is absent, too old, or broken, without importing it."""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ort_py_openvino import installed
from ort_py_openvino.installed import Installed, Missing, find


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A whole installation, as far as files go."""
    folder = tmp_path / "openvino"
    (folder / "frontend" / "onnx").mkdir(parents=True)
    (folder / f"_pyopenvino{EXTENSION_SUFFIXES[0]}").touch()
    (folder / "frontend" / "onnx" / "py_onnx_frontend.so").touch()
    monkeypatch.setattr(installed, "find_spec", lambda _: SimpleNamespace(submodule_search_locations=[str(folder)]))
    monkeypatch.setattr(installed, "version", lambda _: "2026.4.1")
    return folder


def missing() -> Missing:
    found = find()
    assert isinstance(found, Missing)
    return found


def test_a_whole_installation_is_found(package: Path) -> None:
    assert find() == Installed("2026.4.1", package)


def test_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "find_spec", lambda _: None)
    assert missing() == Missing("the package openvino is not installed", 'pip install --upgrade "openvino>=2025.0"')


def test_too_old(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "version", lambda _: "2024.6.0")
    assert missing().reason == "openvino 2024.6.0 is installed; 2025.0 is the oldest that works"
    assert missing().fix == 'pip install --upgrade "openvino>=2025.0"'


def test_for_another_python(package: Path) -> None:
    """The extension module of this interpreter is not there."""
    (package / f"_pyopenvino{EXTENSION_SUFFIXES[0]}").unlink()
    assert f"lacks its extension module for Python {sys.version_info.major}" in missing().reason
    assert "--force-reinstall" in missing().fix


def test_without_its_reader(package: Path) -> None:
    """A runtime alone reads no ONNX."""
    (package / "frontend" / "onnx" / "py_onnx_frontend.so").unlink()
    assert missing().reason == f"openvino 2026.4.1 in {package} lacks its reader of ONNX models"


def test_a_folder_without_distribution(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: str) -> str:
        raise PackageNotFoundError

    monkeypatch.setattr(installed, "version", none)
    assert "no distribution named openvino" in missing().reason


def test_a_package_that_cannot_be_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken finder is a reason, not an exception."""

    def broken(_: str) -> Any:
        raise ValueError("openvino.__spec__ is None")

    monkeypatch.setattr(installed, "find_spec", broken)
    assert "looking for the package openvino fails: openvino.__spec__ is None" in missing().reason


def test_probing_imports_nothing_of_it() -> None:
    program = (
        "import sys; from ort_py_openvino.plugin import OpenVINOProviderFactory as F; "
        "assert F().probe(); print('openvino' in sys.modules, 'onnx' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
