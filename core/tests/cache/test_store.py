"""The store: private, atomic, bounded; damage and failing disks are misses, never errors."""

from __future__ import annotations

import errno
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ort_py.cache import store as store_module
from ort_py.cache.format import description_of
from ort_py.cache.store import CacheStore

KEY = "0123abcd"
posix = pytest.mark.skipif(not hasattr(os, "getuid"), reason="permissions and owners are POSIX's")


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reset messages that are logged once per process, so that each test sees them."""
    monkeypatch.setattr(store_module, "_said", set())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that does not exist yet."""
    return tmp_path / "a" / "cache"


def store(folder: Path, capacity: int = 1 << 20) -> CacheStore:
    """A store in the folder."""
    return CacheStore(folder, capacity)


def entry(folder: Path) -> Path:
    """The one file of a cache."""
    (path,) = folder.iterdir()
    return path


def content(folder: Path, key: str = KEY) -> bytes | None:
    """The description under a key, None for a miss."""
    found = store(folder).read(key, "model")
    return None if found is None else description_of(found)[0]


def test_what_was_put_is_read(folder: Path) -> None:
    """By another object too; another kind or key is a miss."""
    assert store(folder).put(KEY, "model", b"text")
    assert content(folder) == b"text"
    assert store(folder).read(KEY, "artifact") is None
    assert content(folder, "other") is None


@pytest.mark.parametrize("damage", ["flip", "cut", "foreign", "empty"])
def test_a_damaged_file_is_a_miss(folder: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    """A warning, never an error, and it can be written again."""
    store(folder).put(KEY, "model", b"text")
    path = entry(folder)
    old = path.read_bytes()
    flipped = old[:-1] + bytes([old[-1] ^ 1])
    path.write_bytes({"flip": flipped, "cut": old[:-2], "foreign": b"foreign" + old, "empty": b""}[damage])
    with caplog.at_level(logging.WARNING, "ort_py.cache"):
        assert content(folder) is None
    assert "is damaged and was ignored" in caplog.text
    assert store(folder).put(KEY, "model", b"text")
    assert content(folder) == b"text"


@posix
def test_the_folder_and_its_files_are_private(folder: Path) -> None:
    """Only the owner may read or write."""
    store(folder).put(KEY, "model", b"text")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert entry(folder).stat().st_mode & 0o777 == 0o600


@posix
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_others_can_write_to_is_not_used(folder: Path, mode: int, caplog: pytest.LogCaptureFixture) -> None:
    """Its content would be run, so a user who can write there could act as this user. The log says it once."""
    store(folder).put(KEY, "model", b"text")
    folder.chmod(mode)
    with caplog.at_level(logging.WARNING, "ort_py.cache"):
        assert content(folder) is None
        assert not store(folder).put(KEY, "model", b"other")
    assert caplog.text.count(f"{folder} can be written by others") == 1


@posix
def test_a_folder_of_another_user_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner could change permissions at any time."""
    store(folder).put(KEY, "model", b"text")
    owner = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    assert content(folder) is None


@posix
def test_a_file_others_can_write_to_is_a_miss(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Somebody opened one file of a private folder."""
    store(folder).put(KEY, "model", b"text")
    entry(folder).chmod(0o666)
    with caplog.at_level(logging.WARNING, "ort_py.cache"):
        assert content(folder) is None
    assert "others can write to it" in caplog.text


@posix
def test_a_link_is_a_miss(folder: Path, tmp_path: Path) -> None:
    """A file that leads elsewhere was not written here."""
    store(folder).put(KEY, "model", b"text")
    real = tmp_path / "elsewhere"
    entry(folder).rename(real)
    (folder / f"{KEY}.model").symlink_to(real)
    assert content(folder) is None


def test_a_folder_that_cannot_be_made_switches_the_cache_off(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A file stands where the folder should be; said once."""
    (tmp_path / "file").write_text("")
    broken = store(tmp_path / "file" / "cache")
    with caplog.at_level(logging.WARNING, "ort_py.cache"):
        assert not broken.put(KEY, "model", b"text")
        assert broken.read(KEY, "model") is None
    assert caplog.text.count("no compile cache") == 1


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EDQUOT])
def test_a_disk_that_refuses_leaves_the_old_file_and_no_litter(
    folder: Path, number: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Full, read-only, or over a quota: a file is replaced whole or not at all."""
    store(folder).put(KEY, "model", b"old")

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(store_module, "write_file", refuse)
    with caplog.at_level(logging.WARNING, "ort_py.cache"):
        assert not store(folder).put(KEY, "model", b"new")
    assert f"was not cached: [Errno {number}]" in caplog.text
    assert content(folder) == b"old"
    assert entry(folder).suffix == ".model"


def test_a_folder_that_is_gone_is_no_error(folder: Path) -> None:
    """Somebody cleaned up while the session lived."""
    kept = store(folder)
    kept.put(KEY, "model", b"text")
    entry(folder).unlink()
    folder.rmdir()
    assert kept.read(KEY, "model") is None
    assert not kept.put(KEY, "model", b"text")


def used(folder: Path, key: str, ago: float) -> None:
    """Pretend that a file was last used some seconds ago."""
    moment = time.time() - ago
    os.utime(folder / f"{key}.model", (moment, moment))


def test_what_was_used_longest_ago_goes_first(folder: Path) -> None:
    """Writing past the capacity removes the oldest until the rest fits."""
    kept = store(folder, 3000)
    for number, key in enumerate(("a", "b", "c")):
        kept.put(key, "model", bytes(800))
        used(folder, key, 100 - number)
    assert kept.read("a", "model") is not None  # used now, so "b" is the oldest
    kept.put("d", "model", bytes(800))
    assert {one.path.stem for one in kept.files()} == {"a", "c", "d"}


def test_what_is_larger_than_the_cache_is_not_written(folder: Path) -> None:
    """It would push everything else out and not fit then."""
    kept = store(folder, 1000)
    kept.put("a", "model", b"small")
    assert not kept.put("b", "model", bytes(10), size=2000)
    assert [one.path.stem for one in kept.files()] == ["a"]


def test_reading_does_not_change_what_a_file_is_known_by(folder: Path) -> None:
    """Its time of writing stays: mappings of it are shared by its identity."""
    kept = store(folder)
    kept.put(KEY, "model", b"text")
    used(folder, KEY, 5000)
    before = entry(folder).stat().st_mtime_ns
    assert kept.read(KEY, "model")
    (one,) = kept.files()
    assert entry(folder).stat().st_mtime_ns == before
    assert time.time() - one.used < 60


def test_pruning_removes_what_dead_writers_left(folder: Path) -> None:
    """Not what somebody may be writing now."""
    kept = store(folder)
    kept.put(KEY, "model", b"text")
    for name, ago in (("old.part", 7200.0), ("new.part", 5.0)):
        (folder / name).write_bytes(b"half")
        os.utime(folder / name, (time.time() - ago,) * 2)
    assert kept.prune(1 << 20) == []
    assert sorted(path.name for path in folder.iterdir()) == sorted([f"{KEY}.model", "new.part"])


def test_pruning_removes_what_nobody_uses(folder: Path) -> None:
    """Older than asked for, whatever the size."""
    kept = store(folder)
    for key, ago in (("old", 5000.0), ("new", 5.0)):
        kept.put(key, "model", b"text")
        used(folder, key, ago)
    assert [one.path.stem for one in kept.prune(1 << 20, unused_seconds=1000)] == ["old"]


def test_verifying_names_the_damaged(folder: Path) -> None:
    kept = store(folder)
    kept.put("good", "model", b"text")
    kept.put("bad", "artifact", b"text")
    path = folder / "bad.artifact"
    path.write_bytes(path.read_bytes()[:-1])
    assert {one.path.stem: bool(wrong) for one, wrong in kept.verify()} == {"good": False, "bad": True}


WRITER = """
import sys
from pathlib import Path
from ort_py.cache.store import CacheStore
for number in range(60):
    assert CacheStore(Path(sys.argv[1]), 20_000).put(f"k{number % 7}", "model", bytes(3000))
"""


def test_processes_that_write_at_once_leave_whole_files(folder: Path) -> None:
    """No lock, no error, no half of a file, and no more than fits by more than what others write meanwhile."""
    children = [subprocess.Popen([sys.executable, "-c", WRITER, str(folder)]) for _ in range(3)]
    seen = 0
    while any(child.poll() is None for child in children):
        found = store(folder).read("k3", "model")
        seen += found is not None
    assert [child.wait() for child in children] == [0, 0, 0]
    assert all(not wrong for _, wrong in store(folder).verify())
    assert sum(one.size for one in store(folder).files()) <= 20_000
    assert not list(folder.glob("*.part"))


# -- what is not a file of the cache ------------------------------------------------------------------------------


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))


def _link(path: Path) -> None:
    path.symlink_to(path.with_name("elsewhere"))


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _long_head(path: Path) -> None:
    content = bytearray(path.with_name("elsewhere").read_bytes())
    content[16:24] = (1 << 40).to_bytes(8, "little")
    path.write_bytes(content)
    os.truncate(path, 1 << 40)


@posix
@pytest.mark.parametrize("make", [_sparse, _pipe, _socket, _link, _device, Path.mkdir, Path.touch, _long_head])
def test_what_is_no_entry_is_absent(
    folder: Path, make: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is neither waited for nor read, says so in the log, and is replaced where that is possible."""
    kept = store(folder)
    assert kept.put("elsewhere", "model", b"content")
    entry(folder).rename(folder / "elsewhere")
    monkeypatch.chdir(folder)
    make(folder / f"{KEY}.model")
    assert kept.read(KEY, "model") is None
    assert "was ignored" in caplog.text
    assert all(wrong for one, wrong in kept.verify() if one.path.stem == KEY)
    if make is not Path.mkdir:
        assert kept.put(KEY, "model", b"content")
        assert kept.read(KEY, "model") is not None
