"""Finding the library: where it is looked for, and what is said where it cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from ort_py.errors import EPFail
from ort_py_xnnpack.binding import library


def test_a_folder_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable takes the place of the folder in the package."""
    folder = Path(library.open_library().path).parent
    monkeypatch.setenv(library.VARIABLE, str(folder))
    monkeypatch.setattr(library, "FOLDER", Path("nowhere"))
    found = library.files()
    assert not isinstance(found, library.Missing)
    assert {file.parent for file in found} == {folder}


def test_a_folder_without_the_libraries_is_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The variable is named, and what the folder lacks."""
    monkeypatch.setenv(library.VARIABLE, str(tmp_path))
    found = library.files()
    assert isinstance(found, library.Missing)
    assert library.VARIABLE in found.reason
    assert "libexecutorch" in found.reason


def test_a_wheel_for_another_platform_is_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The advice says which wheels there are."""
    monkeypatch.delenv(library.VARIABLE, raising=False)
    monkeypatch.setattr(library, "FOLDER", tmp_path)
    found = library.files()
    assert isinstance(found, library.Missing)
    assert "aarch64" in found.fix


def test_a_file_that_is_no_library_is_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever the loader says is part of it; nothing is raised before a session asks."""
    files = library.files()
    assert not isinstance(files, library.Missing)
    for file in files:
        (tmp_path / file.name).write_bytes(b"no library")
    monkeypatch.setenv(library.VARIABLE, str(tmp_path))
    found = library._opened()
    assert isinstance(found, library.Missing)
    assert "does not load" in found.reason


def test_a_session_without_it_raises_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "_found", library.Missing("it is not there", "get it"))
    with pytest.raises(EPFail, match="cannot be used: it is not there"):
        library.open_library()
