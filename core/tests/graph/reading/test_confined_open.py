"""Opening files below a folder, with and without directory handles."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ort_py.graph.reading.confined_open import HAS_HANDLES, EscapeError, open_confined

pytestmark = pytest.mark.quick

WAYS = [
    pytest.param(True, marks=pytest.mark.skipif(not HAS_HANDLES, reason="this system has no directory handles")),
    False,
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's folder with a file, next to a secret."""
    (tmp_path / "secret").write_bytes(b"secret")
    folder = tmp_path / "model"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "data").write_bytes(b"data")
    return folder


@pytest.mark.parametrize("handles", WAYS)
def test_files_below_the_folder_open(folder: Path, handles: bool) -> None:
    """A path through sub-folders gives the file."""
    with open_confined(["inner", "data"], [folder], handles=handles) as opened:
        assert opened.read() == b"data"


@pytest.mark.parametrize("handles", WAYS)
def test_links_inside_the_folder_open(folder: Path, handles: bool) -> None:
    """A link that stays inside is fine, be it the file or a folder."""
    (folder / "short").symlink_to("inner")
    (folder / "shorter").symlink_to("short/data")
    with open_confined(["shorter"], [folder], handles=handles) as opened:
        assert opened.read() == b"data"


@pytest.mark.parametrize("handles", WAYS)
def test_links_out_of_the_folder_are_refused(folder: Path, handles: bool) -> None:
    """A link to a file outside, however it is spelled."""
    (folder / "out").symlink_to("../secret")
    (folder / "away").symlink_to(folder.parent)
    for parts in (["out"], ["away", "secret"]):
        with pytest.raises(EscapeError, match="secret"):
            open_confined(parts, [folder], handles=handles)


@pytest.mark.parametrize("handles", WAYS)
def test_links_into_a_second_folder_open(folder: Path, tmp_path: Path, handles: bool) -> None:
    """Model hubs link model and data into a folder of blobs: naming that folder allows it."""
    blobs = tmp_path / "blobs"
    blobs.mkdir()
    (blobs / "0123").write_bytes(b"blob")
    (folder / "data").symlink_to(blobs / "0123")
    with open_confined(["data"], [folder, blobs], handles=handles) as opened:
        assert opened.read() == b"blob"


@pytest.mark.parametrize("handles", WAYS)
def test_folders_are_no_files(folder: Path, handles: bool) -> None:
    """A folder is refused, the root included."""
    for parts in (["inner"], ["."]):
        with pytest.raises(OSError, match=r"folder|regular|directory"):
            open_confined(parts, [folder], handles=handles)


@pytest.mark.parametrize("handles", WAYS)
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_pipes_are_refused_without_waiting(folder: Path, handles: bool) -> None:
    """Opening a pipe would wait for a writer forever."""
    os.mkfifo(folder / "pipe")
    with pytest.raises(OSError, match="regular file"):
        open_confined(["pipe"], [folder], handles=handles)


@pytest.mark.parametrize("handles", WAYS)
def test_missing_files_say_so(folder: Path, handles: bool) -> None:
    """The system's own error, for the caller to explain."""
    with pytest.raises(FileNotFoundError):
        open_confined(["none"], [folder], handles=handles)


@pytest.mark.parametrize("handles", WAYS)
def test_a_link_swapped_in_at_the_last_moment_is_noticed(
    folder: Path, handles: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between looking and opening, somebody replaces the file by a link to a secret."""
    real = os.path.realpath
    victim = folder / "inner" / "data"

    def swap(path: str, *, strict: bool = False) -> str:
        answer = real(path, strict=strict)
        if answer == real(victim) and not victim.is_symlink():
            victim.unlink()
            victim.symlink_to(folder.parent / "secret")
        return answer

    monkeypatch.setattr(os.path, "realpath", swap)
    with pytest.raises((EscapeError, OSError)):
        open_confined(["inner", "data"], [folder], handles=handles)
