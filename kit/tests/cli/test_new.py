"""``ort-py new``: what it writes, what it says, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.tests.cli.conftest import Call


def test_a_package_is_written(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Into a folder of the distribution's name; the next commands are shown."""
    monkeypatch.chdir(tmp_path)
    outcome = call("new", "provider", "acme")
    assert outcome.code == 0
    assert (tmp_path / "ort-py-acme" / "src" / "ort_py_acme" / "plugin.py").is_file()
    assert "cd ort-py-acme" in outcome.out
    assert "pytest" in outcome.out


def test_into_another_folder_as_json(call: Call, tmp_path: Path) -> None:
    """With every name for programs that go on from there."""
    report = call("new", "rule", "acme", "--into", tmp_path / "here", "--license", "MIT", "--json").report
    assert report["folder"] == str(tmp_path / "here")
    assert (report["distribution"], report["package"], report["provider"]) == ("ort-py-acme", "ort_py_acme", None)
    assert all((tmp_path / "here" / path).is_file() for path in report["files"])
    assert "MIT License" in (tmp_path / "here" / "LICENSE").read_text()


def test_a_second_time_is_refused(call: Call, tmp_path: Path) -> None:
    assert call("new", "op", "acme", "--into", tmp_path / "here").code == 0
    outcome = call("new", "op", "acme", "--into", tmp_path / "here")
    assert outcome.code == 1
    assert "a new or an empty folder only" in outcome.err


def test_wrong_names_and_kinds(call: Call, tmp_path: Path) -> None:
    """Say what is wrong, and write nothing."""
    outcome = call("new", "provider", "2fast", "--into", tmp_path / "here")
    assert outcome.code == 1
    assert "not with a letter" in outcome.err
    assert call("new", "driver", "acme", "--into", tmp_path / "here").code == 2
    assert not (tmp_path / "here").exists()
