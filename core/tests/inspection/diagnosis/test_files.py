"""Installed files against their record."""

from __future__ import annotations

import base64
import hashlib
import sys
from pathlib import Path

import pytest

from ort_py.inspection.diagnosis.files import check_files

INFO = "some_pkg-1.0.dist-info"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one distribution of two files, on the path."""
    contents = {"some/a.py": "A = 1\n", "some/b.py": "B = 2\n", f"{INFO}/METADATA": "Name: some-pkg\nVersion: 1.0\n"}
    lines = []
    for name, text in contents.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode())
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(text)}\n")
    (tmp_path / INFO / "RECORD").write_text("".join([*lines, f"{INFO}/RECORD,,\n"]), encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return tmp_path


def test_untouched_files(site: Path) -> None:
    """All with a hash are compared; the record itself has none."""
    found = check_files("some-pkg", str(site))
    assert (found.checked, found.fine, found.note) == (3, True, "")


def test_a_changed_file_and_a_missing_one(site: Path) -> None:
    (site / "some" / "a.py").write_text("A = 2\n", encoding="utf-8")
    (site / "some" / "b.py").unlink()
    found = check_files("Some_Pkg", str(site))
    assert (found.modified, found.missing, found.fine) == (("some/a.py",), ("some/b.py",), False)


def test_no_record(site: Path) -> None:
    """Some installers leave none: nothing is wrong, and nothing was checked."""
    (site / INFO / "RECORD").unlink()
    found = check_files("some-pkg", str(site))
    assert (found.checked, found.fine) == (0, True)
    assert "no list of files" in found.note


def test_a_record_that_is_no_record(site: Path) -> None:
    (site / INFO / "RECORD").write_bytes(b"\xff\xfe\x00")
    found = check_files("some-pkg", str(site))
    assert found.fine
    assert "record" in found.note


def test_another_copy_is_not_taken_for_this_one(site: Path) -> None:
    assert check_files("some-pkg", str(site / "elsewhere")).note == "its installer left no list of files"
