"""Artifacts of providers in the store: what was put is got, by keys that keep their parts apart."""

from __future__ import annotations

from pathlib import Path

from ort_py.cache.artifacts import ArtifactCache, artifact_key
from ort_py.cache.store import CacheStore

KEY = artifact_key(["model", "provider", b"options"])


def cache(folder: Path) -> ArtifactCache:
    """A cache in a folder."""
    return ArtifactCache(CacheStore(folder, 1 << 20))


def test_what_was_put_is_got(tmp_path: Path) -> None:
    """By the same key, from another cache object too; unknown keys are a miss."""
    assert cache(tmp_path / "a").put(KEY, b"\x00engine")
    assert cache(tmp_path / "a").get(KEY) == b"\x00engine"
    assert cache(tmp_path / "a").get(artifact_key(["other"])) is None


def test_an_empty_artifact_is_one(tmp_path: Path) -> None:
    cache(tmp_path / "a").put(KEY, b"")
    assert cache(tmp_path / "a").get(KEY) == b""


def test_keys_keep_parts_apart() -> None:
    """Moving a letter from one part to the next changes the key; text and bytes of the same content do not."""
    assert artifact_key(["ab", "c"]) != artifact_key(["a", "bc"])
    assert artifact_key(["a"]) != artifact_key(["a", ""])
    assert artifact_key(["ä"]) == artifact_key(["ä".encode()])
