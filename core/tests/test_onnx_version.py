"""An onnx that is too old is refused at import, with the versions, the place and who keeps it back."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ort_py.onnx_version import NEEDED, installed, refuse_older


def _fake(folder: Path, version: str) -> Path:
    """A folder in which a package and the metadata of this version stand."""
    (folder / "onnx").mkdir()
    (folder / "onnx" / "__init__.py").write_text("raise AssertionError('imported')\n", encoding="utf-8")
    metadata = folder / f"onnx-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: onnx\nVersion: {version}\n", encoding="utf-8")
    return folder


def _package(folder: Path, name: str, requirement: str) -> None:
    metadata = folder / f"{name}-3.1.dist-info"
    metadata.mkdir()
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: 3.1\nRequires-Dist: {requirement}\n"
    (metadata / "METADATA").write_text(text, encoding="utf-8")


def test_import_and_doctor_say_who_keeps_it_back(tmp_path: Path) -> None:
    """The package with the pin and its words; others that merely use onnx or something of a similar name are not."""
    _fake(tmp_path, "1.16.2")
    _package(tmp_path, "holder", "onnx (<1.17,>=1.12)")
    _package(tmp_path, "bystander", "onnx>=1.2")
    _package(tmp_path, "neighbour", "onnx-simplifier==0.4")
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    script = tmp_path / "ort-py"  # as pip writes it
    script.write_text("import sys\nfrom ort_py.cli.main import main\nsys.exit(main())\n", encoding="utf-8")
    for arguments in (["-c", "import ort_py"], ["-m", "ort_py.cli", "doctor"], [str(script), "doctor"]):
        done = subprocess.run(
            [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert ("Traceback" in done.stderr) == ("-c" in arguments)
        last = done.stderr.strip().splitlines()[-1]
        assert f"ort-py needs onnx 1.21 or newer, and {tmp_path} has onnx 1.16.2." in last
        assert "holder 3.1 (onnx (<1.17,>=1.12))" in last
        assert "bystander" not in last
        assert "neighbour" not in last
        assert "pip install 'onnx>=1.21'" in last


@pytest.mark.parametrize("version", ["1.16.2", "1.20.0", "1.9", "0.9.1", "1.20.1rc1"])
def test_older_ones_are_refused(tmp_path: Path, version: str) -> None:
    with pytest.raises(ImportError, match=re.escape(f"has onnx {version}. ")):
        refuse_older([str(_fake(tmp_path, version))])


@pytest.mark.parametrize("version", ["1.21.0", "1.21", "1.100.0", "2.0", "1.21.0rc1", "1.22.0.dev20260101"])
def test_newer_ones_are_taken(tmp_path: Path, version: str) -> None:
    """Also releases to come and what is built on the way to them."""
    refuse_older([str(_fake(tmp_path, version))])


def test_what_is_not_known_is_not_refused(tmp_path: Path) -> None:
    """No onnx, and one without metadata; then importing it decides."""
    refuse_older([str(tmp_path / "nothing"), str(tmp_path)])
    (tmp_path / "onnx").mkdir()
    refuse_older([str(tmp_path)])


def test_the_first_in_the_path_counts(tmp_path: Path) -> None:
    for name, version in (("a", "1.22.0"), ("b", "1.16.0")):
        (tmp_path / name).mkdir()
        _fake(tmp_path / name, version)
    assert installed([str(tmp_path / "a"), str(tmp_path / "b")]) == ("1.22.0", str(tmp_path / "a"))


def test_the_metadata_ask_for_the_same() -> None:
    """`pip` refuses what the import refuses."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"onnx>={'.'.join(map(str, NEEDED))}" in project["dependencies"]
