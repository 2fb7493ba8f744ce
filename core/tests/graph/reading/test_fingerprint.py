"""The hash of a model's content: computed when somebody asks, and true to what was read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ort_py.files import FileIdentity
from ort_py.graph.reading import fingerprint
from ort_py.graph.reading.fingerprint import ContentHash, content_hash

LARGE = b"model" * 300_000


def _of(path: Path, content: bytes) -> ContentHash:
    path.write_bytes(content)
    return ContentHash.of_file(str(path), FileIdentity.of(path.stat()), memoryview(content))


def test_a_large_file_is_hashed_when_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Making a session does not read all of it."""
    monkeypatch.setattr(fingerprint, "content_hash", lambda content: pytest.fail("it was hashed"))
    found = _of(tmp_path / "model.onnx", LARGE)
    monkeypatch.undo()
    assert str(found) == content_hash(LARGE)


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
