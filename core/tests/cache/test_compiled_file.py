"""The file of a compiled model: what was put into it comes out, and what is damaged or foreign is told apart."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

import pytest

from ort_py.cache.compiled_file import CompiledFile, NotCompiledError, write_compiled
from ort_py.cache.format import HEAD_BYTES, description_of
from ort_py.cache.store import CacheStore

LARGE = bytes(range(256)) * 300


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with two others in it."""
    store = CacheStore(tmp_path / "cache", 1 << 30)
    store.put("a1", "model", b'{"one": 1}', [LARGE, b"short"])
    store.put("b2", "artifact", b"compiled")
    files = [("a1", "model", store.folder / "a1.model"), ("b2", "artifact", store.folder / "b2.artifact")]
    assert write_compiled(tmp_path / "m.ortpy", {"title": "m"}, files) == (tmp_path / "m.ortpy").stat().st_size
    return tmp_path / "m.ortpy"


def test_what_was_written_is_read(path: Path) -> None:
    """Mapped and as bytes; blocks lie on boundaries, also within the file in the file."""
    with path.open("rb") as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    compiled = CompiledFile(content, "m.ortpy")
    assert compiled.about["title"] == "m"
    assert (compiled.key_of("model"), compiled.key_of("artifact"), compiled.key_of("packed")) == ("a1", "b2", "")
    model = compiled.mapped("a1", "model")
    assert model is not None
    description, start = description_of(model)
    assert (description, bytes(model[start : start + len(LARGE)])) == (b'{"one": 1}', LARGE)
    offset = content.find(LARGE)
    assert offset % 64 == start % 64 == 0
    artifact = CompiledFile(path.read_bytes(), "bytes").read("b2", "artifact")
    assert artifact is not None
    assert description_of(artifact)[0] == b"compiled"
    assert compiled.mapped("b2", "model") is compiled.read("a1", "artifact") is None


def test_it_is_never_changed(path: Path) -> None:
    """It has the interface of a folder, and is none."""
    before = path.read_bytes()
    compiled = CompiledFile(before, "m.ortpy")
    compiled.discard("a1", "model")
    assert not compiled.put("a1", "model", b"another")
    assert (compiled.mapped("a1", "model") is not None, path.read_bytes()) == (True, before)


def test_it_appears_whole_or_not_at_all(path: Path, tmp_path: Path) -> None:
    """A file that was there stays if writing fails, and nothing is left behind."""
    before = path.read_bytes()
    with pytest.raises(FileNotFoundError):
        write_compiled(path, {}, [("c3", "model", tmp_path / "missing")])
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir() if one.is_file()] == ["m.ortpy"]


def test_every_changed_byte_of_the_description_is_noticed(path: Path) -> None:
    """Damage of the head is found, too, and every cut."""
    content = path.read_bytes()
    _, start = description_of(content)
    for place in range(start - start % 64):
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        if place < HEAD_BYTES + len(description_of(content)[0]):
            with pytest.raises(NotCompiledError):
                CompiledFile(bytes(changed), "m.ortpy")
    for size in (0, 1, 15, 16, HEAD_BYTES, start, len(content) - 1):
        with pytest.raises(NotCompiledError, match=r"truncated|bytes and not"):
            CompiledFile(content[:size], "m.ortpy")
    with pytest.raises(NotCompiledError, match="bytes and not"):
        CompiledFile(content + b"\0", "m.ortpy")


@pytest.mark.parametrize(
    ("start", "why"),
    [
        (b"ort-py model 2\n\0", "another version of ort-py"),
        (b"\x08\x0a\x12\x00 an ONNX model", "no compiled model: it begins with"),
        (b"ort-py cache 1\n\0", "no compiled model: it begins with"),
    ],
)
def test_foreign_files_are_told_apart(path: Path, start: bytes, why: str) -> None:
    with pytest.raises(NotCompiledError, match=why):
        CompiledFile(start + path.read_bytes()[len(start) :], "m.ortpy")


def test_huge_sizes_are_not_believed(path: Path) -> None:
    """A head that declares more than there is does not make anyone read or allocate it."""
    content = bytearray(path.read_bytes())
    for place in (16, 24):
        changed = bytearray(content)
        struct.pack_into("<Q", changed, place, 2**63)
        with pytest.raises(NotCompiledError, match="bytes and not"):
            CompiledFile(bytes(changed), "m.ortpy")


@pytest.mark.parametrize(
    "parts",
    [
        [["a", "model", 0, 2**62]],
        [["a", "model", -1, 10]],
        [["a", "model", 0, -1]],
        [["a", "model", 0.5, 1]],
        [["a", "model", True, 1]],
        [["a", "model", 0]],
        [1],
        None,
    ],
)
def test_parts_outside_of_the_file_are_refused(tmp_path: Path, parts: object) -> None:
    """Written by somebody who also wrote the right checksums."""
    import json

    from ort_py.cache.format import write_file
    from ort_py.graph.reading.given_model import COMPILED_MAGIC

    with (tmp_path / "m.ortpy").open("wb") as file:
        write_file(file, json.dumps({"parts": parts}).encode(), [b"x" * 100], COMPILED_MAGIC)
    with pytest.raises(NotCompiledError, match="does not fit together"):
        CompiledFile((tmp_path / "m.ortpy").read_bytes(), "m.ortpy")


def test_a_damaged_part_is_not_given(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Blocks that are only mapped have their checksums compared when they are used."""
    content = bytearray(path.read_bytes())
    content[content.find(b'{"one": 1}') + 3] ^= 1
    content[content.find(b"compiled", content.find(LARGE)) + 3] ^= 1
    compiled = CompiledFile(bytes(content), "m.ortpy")
    assert compiled.mapped("a1", "model") is None
    assert compiled.read("b2", "artifact") is None
    assert "the artifact in m.ortpy is damaged and was ignored" in caplog.text
