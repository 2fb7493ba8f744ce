"""Conditions of entries: files of packages, versions, the machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ort_py.cache.circumstances import machine, package_of, package_stamp, versions


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of two files, imported."""
    folder = tmp_path / "madeup_package"
    (folder / "inner").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "inner" / "code.py").write_text("x = 1\n")
    module = ModuleType("madeup_package")
    module.__file__ = str(folder / "__init__.py")
    monkeypatch.setitem(sys.modules, "madeup_package", module)
    return folder


def stamp() -> str | None:
    """The stamp, looked at again."""
    package_stamp.cache_clear()
    return package_stamp("madeup_package")


def test_a_stamp_stays_while_the_files_do(package: Path) -> None:
    """Files that Python writes beside the sources do not count."""
    before = stamp()
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "code.cpython.pyc").write_bytes(b"")
    (package / "notes.txt").write_text("")
    assert before is not None
    assert stamp() == before


def test_a_stamp_changes_with_any_file(package: Path) -> None:
    """Edited with another length, edited in place, added, removed."""
    seen = {stamp()}
    code = package / "inner" / "code.py"
    code.write_text("x = 22\n")
    seen.add(stamp())
    os.utime(code, ns=(1, 1))
    seen.add(stamp())
    (package / "more.py").write_text("")
    seen.add(stamp())
    code.unlink()
    seen.add(stamp())
    assert len(seen) == 5


@pytest.mark.skipif(os.name == "nt", reason="Windows has no time of the last status change")
def test_the_stamp_of_an_installed_package_changes_when_it_is_installed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with the same version, files and times, as from the same wheel."""
    file = tmp_path / "site-packages" / "madeup_package" / "__init__.py"
    file.parent.mkdir(parents=True)
    module = ModuleType("madeup_package")
    module.__file__ = str(file)
    monkeypatch.setitem(sys.modules, "madeup_package", module)

    def install() -> int:
        file.unlink(missing_ok=True)
        file.write_text("")
        os.utime(file, ns=(1, 1))
        return file.stat().st_ctime_ns

    installed = install()
    before = stamp()
    while install() == installed:  # the system's clock for files has steps
        pass
    assert stamp() != before


def test_what_has_no_file_has_no_stamp() -> None:
    assert package_stamp("nobody_imported_this") is None
    assert package_stamp("sys") is None


def test_a_module_that_is_one_file_has_a_stamp() -> None:
    assert package_stamp("this_test") is None
    assert package_stamp("bisect")


def test_versions_of_what_is_installed() -> None:
    found = versions(["numpy", "madeup-distribution", "numpy"])
    assert len(found) == 1
    assert found[0].startswith("numpy==")


def test_the_machine_and_packages_are_named() -> None:
    """The interpreter is a part of the machine."""
    assert sys.implementation.cache_tag is not None
    assert sys.implementation.cache_tag in machine()
    assert package_of("a.b.c") == "a"
