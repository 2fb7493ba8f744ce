"""Identities of files, and opening them: no change is overlooked, and nothing blocks."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from ort_py import files
from ort_py.files import FileIdentity, FileSnapshot, open_regular, read_regular

posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no time of the last status change")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file."""
    path = tmp_path / "file"
    path.write_bytes(b"first")
    return path


def identity(path: Path) -> FileIdentity:
    """The identity of what a path names."""
    return FileIdentity.of(path.stat())


def kept_times(path: Path, change: Callable[[], object]) -> None:
    """Change a file and set its times back."""
    former = path.stat()
    change()
    os.utime(path, ns=(former.st_atime_ns, former.st_mtime_ns))


@pytest.fixture(params=["in place", "rewritten", "replaced", "copied over"])
def change(request: pytest.FixtureRequest, path: Path) -> Callable[[], object]:
    """Ways to give a file another content of the same size."""
    other = path.with_name("other")
    other.write_bytes(b"other")

    def in_place() -> None:
        with path.open("r+b") as file:
            file.write(b"other")

    ways: dict[str, Callable[[], object]] = {
        "in place": in_place,
        "rewritten": lambda: path.write_bytes(b"other"),
        "replaced": lambda: other.replace(path),
        "copied over": lambda: shutil.copyfile(other, path),
    }
    return ways[request.param]


@posix
def test_a_file_whose_time_was_set_back_is_another(
    path: Path, change: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In all ways, and also for a snapshot, whether its content is compared or not."""
    os.utime(path, ns=(10**18, 10**18))
    former, compared = identity(path), FileSnapshot(str(path))
    monkeypatch.setattr(files, "_RACY_NS", 0)
    trusted = FileSnapshot(str(path))
    kept_times(path, change)
    assert path.stat().st_mtime_ns == 10**18
    assert identity(path) != former
    assert not compared.holds()
    assert not trusted.holds()


def test_links_are_the_file_they_lead_to(path: Path) -> None:
    """A symbolic link, and a hard link."""
    path.with_name("soft").symlink_to(path)
    path.with_name("hard").hardlink_to(path)
    assert identity(path.with_name("soft")) == identity(path.with_name("hard")) == identity(path)


def test_reading_leaves_the_identity(path: Path) -> None:
    with open_regular(path) as file:
        former = FileIdentity.of_open(file)
        assert file.read() == b"first"
        assert FileIdentity.of_open(file) == former == identity(path)
    assert FileSnapshot(str(path)).holds()


def test_windows_knows_a_file_by_when_it_was_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.12 and newer have another ctime there for an open file than for its path (python/cpython#157671)."""
    monkeypatch.setattr(files, "_WINDOWS", True)
    known = {"st_dev": 1, "st_ino": 2, "st_size": 3, "st_mtime_ns": 4, "st_birthtime_ns": 5}
    path, opened = SimpleNamespace(**known, st_ctime_ns=5), SimpleNamespace(**known, st_ctime_ns=6)
    assert FileIdentity.of(cast("os.stat_result", path)) == FileIdentity.of(cast("os.stat_result", opened))


def test_content_tells_what_no_time_can(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was written again within the same moment has the same identity, but not the same content."""
    snapshot = FileSnapshot(str(path))
    path.write_bytes(b"other")
    monkeypatch.setattr(FileIdentity, "of", staticmethod(lambda status: snapshot.identity))
    assert not snapshot.holds()


def test_content_is_compared_until_a_change_would_show(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Later on, the identity alone is looked at."""
    snapshot = FileSnapshot(str(path))
    monkeypatch.setattr(files, "_RACY_NS", 0)
    assert snapshot.holds()
    monkeypatch.setattr(files, "_digest", lambda path: pytest.fail("the file was read"))
    assert snapshot.holds()


def test_what_is_gone_does_not_hold(path: Path) -> None:
    """Neither as a file that is missing, nor as one that was missing before."""
    snapshot = FileSnapshot(str(path))
    former = snapshot.identity
    path.unlink()
    assert not snapshot.holds()
    assert not FileSnapshot(str(path), former).holds()


def test_a_hash_stands_for_place_and_times() -> None:
    """Where all content is checked, only the content counts: its hash and its size."""
    one, two = (FileIdentity.of_content(9, bytes([number]) * 24) for number in (1, 2))
    assert FileIdentity.of_content(9, bytes([1]) * 24) == one != two
    assert FileIdentity.of_content(8, bytes([1]) * 24) != one


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("links", [True, False])
def test_a_pipe_is_refused_without_waiting(tmp_path: Path, links: bool) -> None:
    """Also one that takes the place of a file after it was looked at."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="a device or a pipe"):
        open_regular(tmp_path / "pipe", links=links)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_that_comes_between_is_refused(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The descriptor is looked at, not the path alone."""
    os.mkfifo(tmp_path / "pipe")
    regular = path.stat()
    monkeypatch.setattr(os, "stat", lambda *arguments, **options: regular)
    with pytest.raises(OSError, match="a device or a pipe"):
        open_regular(tmp_path / "pipe")


@posix
def test_devices_sockets_and_folders_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        for name in (os.devnull, "socket"):
            with pytest.raises(OSError, match="a device or a pipe"):
                open_regular(name)
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)


def test_links_are_refused_where_none_may_be(path: Path) -> None:
    link = path.with_name("link")
    link.symlink_to(path)
    with open_regular(link) as file:
        assert file.read() == b"first"
    with pytest.raises(OSError, match="symbolic link"):
        open_regular(link, links=False)


def test_a_file_that_changes_while_it_is_read_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The content may be neither the former nor the new one."""
    found = [FileIdentity(1, 2, 5, 3, 4), FileIdentity(1, 2, 5, 3, 5)]
    monkeypatch.setattr(FileIdentity, "of_open", staticmethod(lambda file: found.pop(0)))
    with pytest.raises(OSError, match="it changed while it was being read"):
        read_regular(path)


def test_content_is_read(path: Path) -> None:
    assert read_regular(path) == b"first"
