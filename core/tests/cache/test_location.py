"""The place of the cache: option, environment, the user's folder; and its size."""

from __future__ import annotations

import sys

import pytest

from ort_py.cache.location import DEFAULT_BYTES, cache_bytes, cache_folder
from ort_py.errors import OptionError


def test_the_option_beats_the_environment() -> None:
    """Also where one of them switches the cache off."""
    assert cache_folder("/a", {"ORT_PY_CACHE": "/b"}) == "/a"
    assert cache_folder("/a", {"ORT_PY_CACHE": "off"}) == "/a"
    assert cache_folder("off", {"ORT_PY_CACHE": "/b"}) is None


def test_the_environment_names_a_folder_or_none() -> None:
    """``off`` in any case, and 0."""
    assert cache_folder("", {"ORT_PY_CACHE": "/b"}) == "/b"
    assert [cache_folder("", {"ORT_PY_CACHE": word}) for word in ("off", "OFF", " off ", "0")] == [None] * 4


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="the XDG folders are those of other systems")
def test_the_default_is_the_users_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the XDG specification, which ignores a relative path."""
    monkeypatch.setenv("HOME", "/home/somebody")
    assert cache_folder("", {}) == "/home/somebody/.cache/ort-py/compiled"
    assert cache_folder("", {"XDG_CACHE_HOME": "/x"}) == "/x/ort-py/compiled"
    assert cache_folder("", {"XDG_CACHE_HOME": "x"}) == "/home/somebody/.cache/ort-py/compiled"


def test_without_a_home_there_is_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service user may have none."""

    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    assert cache_folder("", {}) is None


def test_sizes() -> None:
    assert cache_bytes({}) == DEFAULT_BYTES == 2 << 30
    sizes = {"1000": 1000, "10K": 10 << 10, "5 MiB": 5 << 20, "3gb": 3 << 30, "0": 0}
    assert {text: cache_bytes({"ORT_PY_CACHE_SIZE": text}) for text in sizes} == sizes


@pytest.mark.parametrize("text", ["large", "-1", "1.5G", "9" * 30])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match=r"ORT_PY_CACHE_SIZE is .* which is not a size") as caught:
        cache_bytes({"ORT_PY_CACHE_SIZE": text})
    assert "500M" in caught.value.fix
