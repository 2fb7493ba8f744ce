"""The artifact cache: damage is a miss, what others can write to is not used, writes are atomic."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from ort_py.cache.artifacts import ArtifactCache, artifact_key

KEY = artifact_key(["model", "provider", b"options"])
posix = pytest.mark.skipif(not hasattr(os, "getuid"), reason="permissions and owners are POSIX's")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that does not exist yet."""
    return tmp_path / "a" / "cache"


def entry(folder: Path) -> Path:
    """The one file of a cache."""
    (path,) = folder.iterdir()
    return path


def test_what_was_put_is_got(folder: Path) -> None:
    """By the same key, from another cache object too; unknown keys are a miss."""
    assert ArtifactCache(folder).put(KEY, b"\x00engine")
    assert ArtifactCache(folder).get(KEY) == b"\x00engine"
    assert ArtifactCache(folder).get(artifact_key(["other"])) is None


def test_an_empty_artifact_is_one(folder: Path) -> None:
    """Nothing is something."""
    cache = ArtifactCache(folder)
    cache.put(KEY, b"")
    assert cache.get(KEY) == b""


def test_keys_keep_parts_apart() -> None:
    """Moving a letter from one part to the next changes the key; text and bytes of the same content do not."""
    assert artifact_key(["ab", "c"]) != artifact_key(["a", "bc"])
    assert artifact_key(["a"]) != artifact_key(["a", ""])
    assert artifact_key(["ä"]) == artifact_key(["ä".encode()])


@pytest.mark.parametrize("damage", ["flip", "cut", "header", "empty"])
def test_a_damaged_entry_is_a_miss(folder: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    """A flipped bit, a truncated or foreign file: a warning, never an error, and it can be written anew."""
    cache = ArtifactCache(folder)
    cache.put(KEY, b"engine")
    path = entry(folder)
    content = bytearray(path.read_bytes())
    if damage == "flip":
        content[-1] ^= 1
    path.write_bytes(bytes({"cut": content[:-2], "header": b"foreign" + content, "empty": b""}.get(damage, content)))
    with caplog.at_level(logging.WARNING, "ort_py.cache"):
        assert cache.get(KEY) is None
    assert "is damaged and was ignored" in caplog.text
    assert cache.put(KEY, b"engine")
    assert cache.get(KEY) == b"engine"


@posix
def test_the_folder_and_its_files_are_private(folder: Path) -> None:
    """Only the owner may read or write."""
    ArtifactCache(folder).put(KEY, b"engine")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert entry(folder).stat().st_mode & 0o777 == 0o600


@posix
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_others_can_write_to_is_not_used(folder: Path, mode: int, caplog: pytest.LogCaptureFixture) -> None:
    """Artifacts are code: whoever can write one runs as this user."""
    ArtifactCache(folder).put(KEY, b"engine")
    folder.chmod(mode)
    with caplog.at_level(logging.WARNING, "ort_py.cache"):
        assert ArtifactCache(folder).get(KEY) is None
        assert not ArtifactCache(folder).put(KEY, b"other")
    assert f"{folder} can be written by others" in caplog.text


@posix
def test_a_folder_of_another_user_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner could change permissions at any time."""
    ArtifactCache(folder).put(KEY, b"engine")
    owner = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    assert ArtifactCache(folder).get(KEY) is None


def test_a_folder_that_cannot_be_made_switches_the_cache_off(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A file stands where the folder should be."""
    (tmp_path / "file").write_text("")
    cache = ArtifactCache(tmp_path / "file" / "cache")
    with caplog.at_level(logging.WARNING, "ort_py.cache"):
        assert not cache.put(KEY, b"engine")
        assert cache.get(KEY) is None
    assert "no compile cache" in caplog.text


def test_a_write_that_fails_leaves_the_old_entry_and_no_litter(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry is replaced whole or not at all."""
    cache = ArtifactCache(folder)
    cache.put(KEY, b"old")

    def full(_self: Path, _target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    assert not cache.put(KEY, b"new")
    assert cache.get(KEY) == b"old"
    assert entry(folder).suffix == ".artifact"


def test_a_folder_that_is_gone_is_no_error(folder: Path) -> None:
    """Somebody cleaned up while the session lived."""
    cache = ArtifactCache(folder)
    cache.put(KEY, b"engine")
    entry(folder).unlink()
    folder.rmdir()
    assert cache.get(KEY) is None
    assert not cache.put(KEY, b"engine")
