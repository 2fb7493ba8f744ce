"""Compiled kernels on disk: what is kept, and what is not believed."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import pytest

from ort_py_cuda.code.cache import CodeCache, code_key, default_folder, session_cache

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no permission bits")
KEY = code_key(["source", "sm_90"])


def test_what_was_put_comes_back(tmp_path: Path) -> None:
    """In another process too: nothing but the folder is asked."""
    assert CodeCache(tmp_path / "a" / "b").put(KEY, b"machine code")
    assert CodeCache(tmp_path / "a" / "b").get(KEY) == b"machine code"
    assert CodeCache(tmp_path / "a" / "b").get(code_key(["other"])) is None


def test_keys_tell_parts_apart() -> None:
    """The border between one text and the next counts."""
    assert code_key(["ab", "c"]) != code_key(["a", "bc"])


def test_without_a_folder() -> None:
    cache = CodeCache(None)
    assert not cache.put(KEY, b"x")
    assert cache.get(KEY) is None


@POSIX
def test_the_folder_is_its_owners_alone(tmp_path: Path) -> None:
    CodeCache(tmp_path / "code").put(KEY, b"x")
    assert (tmp_path / "code").stat().st_mode & 0o777 == 0o700


@POSIX
def test_a_folder_that_others_can_write_to(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    folder.chmod(0o777)
    with caplog.at_level(logging.WARNING):
        assert not CodeCache(folder).put(KEY, b"x")
    assert "can be written by others" in caplog.text
    assert list(folder.iterdir()) == []


@POSIX
def test_a_file_that_others_can_write_to(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache = CodeCache(tmp_path)
    tmp_path.chmod(0o700)
    cache.put(KEY, b"x")
    next(tmp_path.glob("*.code")).chmod(0o666)
    with caplog.at_level(logging.WARNING):
        assert cache.get(KEY) is None
    assert "others can write to it" in caplog.text


@POSIX
def test_links_are_not_followed(tmp_path: Path) -> None:
    """They may lead to what others write."""
    tmp_path.chmod(0o700)
    cache = CodeCache(tmp_path)
    cache.put(KEY, b"x")
    (tmp_path / f"{KEY}.code").rename(tmp_path / "elsewhere")
    (tmp_path / f"{KEY}.code").symlink_to(tmp_path / "elsewhere")
    assert cache.get(KEY) is None


@pytest.mark.parametrize("damage", ["cut", "changed", "foreign"])
def test_damaged_files(tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    """Are a miss, and written again."""
    tmp_path.chmod(0o700)
    cache = CodeCache(tmp_path)
    cache.put(KEY, b"machine code")
    path = tmp_path / f"{KEY}.code"
    content = path.read_bytes()
    path.write_bytes({"cut": content[:-3], "changed": content[:-1] + b"?", "foreign": b"x"}[damage])
    with caplog.at_level(logging.WARNING):
        assert cache.get(KEY) is None
    assert "is damaged and was ignored" in caplog.text
    assert cache.put(KEY, b"machine code")
    assert cache.get(KEY) == b"machine code"


def test_the_oldest_files_go(tmp_path: Path) -> None:
    """Files are removed where there would be too much."""
    tmp_path.chmod(0o700)
    cache = CodeCache(tmp_path, capacity=500)
    keys = [code_key([str(number)]) for number in range(4)]
    for number, key in enumerate(keys):
        cache.put(key, bytes(100))
        os.utime(tmp_path / f"{key}.code", (number + 1, number + 1))
    assert [cache.get(key) is not None for key in keys] == [False, True, True, True]


def test_a_folder_that_cannot_be_made(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    with caplog.at_level(logging.WARNING):
        assert not CodeCache(tmp_path / "file" / "code").put(KEY, b"x")
    assert "compiled kernels are not cached" in caplog.text


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({"ORT_PY_CACHE": "off"}, None),
        ({"ORT_PY_CACHE": "0"}, None),
        ({"ORT_PY_CACHE": "/somewhere"}, Path("/somewhere/cuda")),
    ],
)
def test_the_environment_decides(environment: dict[str, str], wanted: Path | None) -> None:
    assert default_folder(environment) == wanted


def test_a_session_decides_before_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its own folder, none at all, or what the environment says."""
    monkeypatch.setenv("ORT_PY_CACHE", str(tmp_path / "environment"))
    assert session_cache(str(tmp_path / "own"), keeps=True).folder == tmp_path / "own" / "cuda"
    assert session_cache(None, keeps=True).folder == tmp_path / "environment" / "cuda"
    assert session_cache(None, keeps=False).folder is None


@POSIX
def test_the_users_folder() -> None:
    """Where XDG says, if that is absolute."""
    assert default_folder({"XDG_CACHE_HOME": "/cache"}) == Path("/cache/ort-py/cuda")
    assert default_folder({"XDG_CACHE_HOME": "cache"}) == Path.home() / ".cache" / "ort-py" / "cuda"
