"""Metadata of installed distributions; the oracle is `importlib.metadata`."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from ort_py.installed import (
    entry_point_sections,
    folder_times,
    installed_distributions,
    normalise_distribution,
    version_of,
    versions_of,
)

SECTIONS = """
[console_scripts]
one = package.module:main
# a comment
two=package:other.attribute [extra]

[a.group]
Name With Spaces = package
"""


def test_the_distributions_of_this_environment_are_those_of_the_library() -> None:
    """Names, versions and entry points."""
    found = {
        (normalise_distribution(one.header("Name")), one.header("Version"), one.read_text("entry_points.txt"))
        for one in installed_distributions()
    }
    expected = {
        (normalise_distribution(one.metadata["Name"]), one.version, one.read_text("entry_points.txt"))
        for one in metadata.distributions()
    }
    assert found == expected


def test_versions_are_those_of_the_library() -> None:
    """Whatever spelling the name has; nothing is known of what is not installed."""
    assert version_of("NumPy") == metadata.version("numpy")
    assert version_of("ml.dtypes") == metadata.version("ml-dtypes")
    assert version_of("no-such-distribution") == ""
    expected = {"NumPy": metadata.version("numpy"), "ml.dtypes": metadata.version("ml-dtypes")}
    assert versions_of(["NumPy", "ml.dtypes", "no-such-distribution"]) == expected


def test_sections_are_those_of_the_library() -> None:
    """Groups, names and values, without comments."""
    expected: dict[str, list[tuple[str, str]]] = {}
    for one in metadata.EntryPoints._from_text_for(SECTIONS, None):  # type: ignore[attr-defined]  # its parser
        expected.setdefault(one.group, []).append((one.name, one.value))
    assert entry_point_sections(SECTIONS) == expected


@pytest.mark.parametrize("text", ["[group]\nno equals sign\n", "name = before any group\n"])
def test_lines_that_are_nothing(text: str) -> None:
    """They are an error that shows the line."""
    with pytest.raises(ValueError, match="is not 'name = value' in a group"):
        entry_point_sections(text)


def test_distributions_in_archives_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library reads them, as an import does."""
    with zipfile.ZipFile(tmp_path / "packages.zip", "w") as archive:
        archive.writestr("zipped-2.5.dist-info/METADATA", "Metadata-Version: 2.1\nName: zipped\nVersion: 2.5\n")
    monkeypatch.syspath_prepend(str(tmp_path / "packages.zip"))
    assert version_of("zipped") == "2.5"


def test_folders_that_are_gone_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry of `sys.path` need not exist."""
    folder = tmp_path / "found" / "half_one-3.dist-info"
    folder.mkdir(parents=True)
    monkeypatch.syspath_prepend(str(tmp_path / "gone"))
    monkeypatch.syspath_prepend(str(tmp_path / "found"))
    first = next(iter(installed_distributions()))
    assert (first.folder_name, first.header("Name"), first.read_text("entry_points.txt")) == ("half_one", "", None)
    assert first.location == str(tmp_path / "found")


def test_a_session_does_not_import_the_library() -> None:
    """It loads sixty modules, which a process that starts would wait for."""
    program = """
import sys, onnx.parser
for name in [one for one in sys.modules if one.startswith(("importlib.metadata", "email"))]:
    del sys.modules[name]
import ort_py
model = onnx.parser.parse_model('<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float[2] y) { y=Neg(x) }')
ort_py.InferenceSession(model, providers=["CPUExecutionProvider"])
assert not [one for one in sys.modules if one.startswith(("importlib.metadata", "email"))]
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_times_of_folders_tell_of_what_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another folder, or a new entry in one, gives other times; a folder that has just changed gives none."""
    old = time.time() - 3600
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "absent")])
    monkeypatch.setattr(sys, "meta_path", [])
    assert folder_times() is None, "the folder could change again within the same tick"
    os.utime(tmp_path, (old, old))
    before = folder_times()
    assert before is not None
    assert [name for name, _ in before] == [str(tmp_path)]
    (tmp_path / "new-1.0.dist-info").mkdir()
    assert folder_times() is None
    os.utime(tmp_path, (old + 10, old + 10))
    assert folder_times() not in (None, before)


def test_folders_are_listed_again_when_one_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not before: each listing takes as long as there are packages."""
    old = time.time() - 3600
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(sys, "meta_path", [])
    (tmp_path / "one-1.0.dist-info").mkdir()
    os.utime(tmp_path, (old, old))
    assert [found.folder_name for found in installed_distributions()] == ["one"]
    with monkeypatch.context() as listing:
        listing.setattr(os, "scandir", None)
        assert [found.folder_name for found in installed_distributions()] == ["one"]
    (tmp_path / "two-1.0.dist-info").mkdir()
    os.utime(tmp_path, (old + 10, old + 10))
    assert [found.folder_name for found in installed_distributions()] == ["one", "two"]


def test_archives_and_foreign_finders_have_no_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their contents change without a folder's time."""
    archive = tmp_path / "packages.zip"
    zipfile.ZipFile(archive, "w").close()
    os.utime(archive, (1, 1))
    monkeypatch.setattr(sys, "meta_path", [])
    monkeypatch.setattr(sys, "path", [str(archive)])
    assert folder_times() is None
    monkeypatch.setattr(sys, "path", [])
    assert folder_times() == ()

    class Finder:
        def find_distributions(self) -> None: ...

    monkeypatch.setattr(sys, "meta_path", [Finder()])
    assert folder_times() is None
