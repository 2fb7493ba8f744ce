"""The hash of a model's content: computed when somebody asks, and true to what was read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import ort_py.files
from ort_py.files import FileIdentity
from ort_py.graph.reading import fingerprint
from ort_py.graph.reading.fingerprint import ContentHash, content_hash, hash_of_file

LARGE = b"model" * 300_000


@pytest.fixture(autouse=True)
def written_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are not taken for written a moment ago."""
    monkeypatch.setattr(ort_py.files, "_RACY_NS", 0)


def _of(path: Path, content: bytes) -> ContentHash:
    path.write_bytes(content)
    return ContentHash.of_file(str(path), FileIdentity.of(path.stat()), memoryview(content))


def test_a_large_file_is_hashed_when_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Making a session does not read all of it."""
    monkeypatch.setattr(fingerprint, "content_hash", lambda content: pytest.fail("it was hashed"))
    found = _of(tmp_path / "model.onnx", LARGE)
    monkeypatch.undo()
    assert str(found) == content_hash(LARGE)


def test_a_file_written_a_moment_ago_is_hashed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It could be written again without another identity."""
    monkeypatch.setattr(ort_py.files, "_RACY_NS", 10**18)
    found = _of(tmp_path / "model.onnx", LARGE)
    (tmp_path / "model.onnx").unlink()
    assert str(found) == content_hash(LARGE)


def test_threads_hash_what_one_hashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A content in many pieces, the last of which is shorter: the same from memory and from a file."""
    monkeypatch.setattr(fingerprint, "_PIECE", 1000)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    path = tmp_path / "model.onnx"
    path.write_bytes(LARGE[:10_001])
    found = []
    for large in (1 << 30, 1):
        monkeypatch.setattr(fingerprint, "_LARGE", large)
        found += [content_hash(LARGE[:10_001]), hash_of_file(str(path), FileIdentity.of(path.stat()))]
    assert len(set(found)) == 1
    assert len({content_hash(LARGE[:size]) for size in range(8_000, 12_000)}) == 4_000


def test_a_file_that_is_written_while_it_is_hashed_has_no_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of its pieces would be of the former content."""
    monkeypatch.setattr(fingerprint, "_PIECE", 1000)
    path = tmp_path / "model.onnx"
    path.write_bytes(LARGE[:5000])
    identity = FileIdentity.of(path.stat())
    assert hash_of_file(str(path), identity)
    monkeypatch.setattr(fingerprint, "_hash", lambda content: path.write_bytes(LARGE[1:4001]) and "hash")
    assert hash_of_file(str(path), identity) == ""


def test_the_hash_is_that_of_the_bytes(tmp_path: Path) -> None:
    """A file, its bytes, and a file under another name are the same model; a text compares too."""
    one, two = _of(tmp_path / "one.onnx", LARGE), _of(tmp_path / "two.onnx", LARGE)
    assert one == two == ContentHash(content_hash(LARGE)) == content_hash(LARGE)
    assert hash(one) == hash(two)
    assert repr(one) == f"ContentHash('{content_hash(LARGE)}')"


def test_a_file_that_has_changed_is_no_other_model(tmp_path: Path) -> None:
    """The original content cannot be hashed any more; the new content is not taken for it."""
    path = tmp_path / "model.onnx"
    found = _of(path, LARGE)
    path.write_bytes(LARGE[::-1])
    os.utime(path, ns=(1, 1))
    assert str(found) not in (content_hash(LARGE), content_hash(LARGE[::-1]))


def test_a_file_that_is_gone_has_a_hash(tmp_path: Path) -> None:
    """It differs from that of any other file."""
    one, two = _of(tmp_path / "one.onnx", LARGE), _of(tmp_path / "two.onnx", LARGE)
    (tmp_path / "one.onnx").unlink()
    (tmp_path / "two.onnx").unlink()
    assert len(str(one)) == len(content_hash(LARGE))
    assert one != two


def test_nothing_is_nothing() -> None:
    """Models that came from nowhere have no hash."""
    assert str(ContentHash()) == ""
