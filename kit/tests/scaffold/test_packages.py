"""Files of new packages: complete, filled in, and never written over others."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

from ort_py.errors import InvalidArgument
from ort_py_kit.scaffold import KINDS, LICENSES, package_files, package_names, write_package

NAMES = package_names("acme")


@pytest.mark.parametrize("kind", KINDS)
def test_a_package_is_complete(kind: str) -> None:
    """It contains everything for building, typing, CI and its readers."""
    files = package_files(kind, NAMES)
    needed = {
        ".github/workflows/test.yml",
        ".gitignore",
        "LICENSE",
        "README.md",
        "pyproject.toml",
        "src/ort_py_acme/__init__.py",
        "src/ort_py_acme/plugin.py",
        "src/ort_py_acme/py.typed",
    }
    assert needed <= set(files)
    assert [path for path in files if path.startswith("tests/test_")]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_left_to_fill_in(kind: str) -> None:
    """Beside what GitHub fills in; Python is Python, metadata is TOML."""
    for path, text in package_files(kind, NAMES).items():
        assert "$" not in text.replace("${{", ""), path
        if path.endswith(".py"):
            assert ast.get_docstring(ast.parse(text, path)), path
    assert tomllib.loads(package_files(kind, NAMES)["pyproject.toml"])["project"]["name"] == "ort-py-acme"


@pytest.mark.parametrize("kind", KINDS)
def test_the_entry_point_names_the_plugin(kind: str) -> None:
    """A provider's under the provider's name, the others' in their own group."""
    metadata = tomllib.loads(package_files(kind, NAMES)["pyproject.toml"])
    group, name = ("ort_py.providers", "AcmeExecutionProvider") if kind == "provider" else ("ort_py.plugins", "acme")
    assert metadata["project"]["entry-points"] == {group: {name: "ort_py_acme.plugin"}}


@pytest.mark.parametrize("licence", LICENSES)
def test_licences(licence: str) -> None:
    """The text, with who holds the copyright where it says so, and the metadata; or neither."""
    files = package_files("rule", NAMES, licence, "Ada & Co. $100")
    metadata = tomllib.loads(files["pyproject.toml"])["project"]
    if licence == "none":
        assert "LICENSE" not in files
        assert "license" not in metadata
        assert "No licence is chosen yet" in files["README.md"]
        return
    assert metadata["license"] == licence
    assert metadata["license-files"] == ["LICENSE"]
    assert ("Ada & Co. $100" in files["LICENSE"]) == (licence != "Apache-2.0")


def test_the_range_of_cores() -> None:
    """From this version to the next minor one, which may change what is not promised."""
    dependencies = tomllib.loads(package_files("provider", NAMES)["pyproject.toml"])["project"]["dependencies"]
    (core,) = [entry for entry in dependencies if entry.startswith("ort-py-core")]
    assert core == "ort-py-core>=0.1.0,<0.2"


def test_writing_into_a_new_or_an_empty_folder(tmp_path: Path) -> None:
    for folder in (tmp_path / "a" / "b", tmp_path / "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        written = write_package(folder, {"x/y.txt": "text\n"})
        assert written == [folder / "x" / "y.txt"]
        assert written[0].read_bytes() == b"text\n"


@pytest.mark.parametrize("there", ["a file", "a folder with a file"])
def test_nothing_is_written_over(tmp_path: Path, there: str) -> None:
    """And the message says what stands there."""
    target = tmp_path / "target"
    if there == "a file":
        target.write_text("mine")
    else:
        target.mkdir()
        (target / "README.md").write_text("mine")
    with pytest.raises(InvalidArgument, match="it is a file" if there == "a file" else "it holds README.md") as caught:
        write_package(target, {"README.md": "theirs"})
    assert "--into" in str(caught.value)
    assert (target if there == "a file" else target / "README.md").read_text() == "mine"
