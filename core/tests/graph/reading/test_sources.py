"""Sources that a caller can give as a model, and others that are refused."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import onnx
import pytest

from ort_py.errors import Fail, InvalidArgument, InvalidProtobuf, LimitError, NoSuchFile
from ort_py.files import FileIdentity
from ort_py.graph.reading.sources import expect_unwritten, read_source
from ort_py.limits import Limits

pytestmark = pytest.mark.quick


@pytest.fixture
def model() -> onnx.ModelProto:
    """A small model."""
    return onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }'
    )


@pytest.fixture
def path(model: onnx.ModelProto, tmp_path: Path) -> Path:
    """The same in a file."""
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_every_kind_of_source_is_read(model: onnx.ModelProto, path: Path) -> None:
    """str, Path, bytes, bytearray, memoryview and message give the same model."""
    content = path.read_bytes()
    for source in (str(path), path, content, bytearray(content), memoryview(content), model):
        read = read_source(source, Limits(), None)
        assert read.proto.graph.node[0].op_type == "Relu"
        assert read.size == len(content)


def test_a_path_tells_folder_and_name(path: Path) -> None:
    """External data is looked for beside the file; bytes have no folder."""
    assert read_source(path, Limits(), None).folder == str(path.parent)
    assert read_source(path, Limits(), None).path == str(path)
    assert read_source(path.read_bytes(), Limits(), None).folder is None
    assert read_source(path.read_bytes(), Limits(), "some").folder == "some"


def test_a_link_also_tells_where_the_model_lies(path: Path, tmp_path: Path) -> None:
    """The real folder is one in which external data may be."""
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "m.onnx"
    link.symlink_to(path)
    read = read_source(link, Limits(), None)
    assert (read.folder, read.real_folder) == (str(link.parent), str(path.parent.resolve()))


def test_equal_bytes_have_equal_fingerprints(model: onnx.ModelProto, path: Path) -> None:
    """From a file or not; other bytes have another."""
    first = read_source(path, Limits(), None).fingerprint
    assert read_source(path.read_bytes(), Limits(), None).fingerprint == first
    model.producer_name = "other"
    assert read_source(model, Limits(), None).fingerprint != first


def test_missing_files() -> None:
    """Also a FileNotFoundError; the text quotes the path and the working directory."""
    with pytest.raises(NoSuchFile, match=r"the file 'none.onnx' does not exist(.|\n)*working directory") as caught:
        read_source("none.onnx", Limits(), None)
    assert isinstance(caught.value, FileNotFoundError)


def test_directories(tmp_path: Path) -> None:
    """A folder is not a model, as in onnxruntime."""
    with pytest.raises(InvalidProtobuf, match="is a directory, not a model"):
        read_source(tmp_path, Limits(), None)


def test_garbage() -> None:
    """The text shows how the bytes start."""
    with pytest.raises(InvalidProtobuf, match=r"not an ONNX model(.|\n)*starting with b'garbage'"):
        read_source(b"garbage", Limits(), None)


def test_truncated_files(path: Path) -> None:
    """A file cut in the middle names the file."""
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(InvalidProtobuf, match=r"not an ONNX model(.|\n)*model.onnx(.|\n)*truncated, damaged"):
        read_source(path, Limits(), None)


def test_git_lfs_pointers(path: Path) -> None:
    """The most frequent garbage has its own advice."""
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    with pytest.raises(InvalidProtobuf, match=r"Git LFS pointer(.|\n)*git lfs pull"):
        read_source(path, Limits(), None)


def test_ort_files() -> None:
    with pytest.raises(InvalidProtobuf, match=r"own .ort format(.|\n)*Load the .onnx file"):
        read_source(b"\x18\0\0\0ORTM" + b"\xff" * 20, Limits(), None)


def test_nesting_that_protobuf_cannot_read() -> None:
    """Too deep for protobuf is not garbage, and the text says so."""
    model = onnx.ModelProto(ir_version=8)
    graph = model.graph
    for _ in range(40):
        graph = graph.node.add().attribute.add(name="body").g
    graph.name = "innermost"
    content = model.SerializeToString()
    with pytest.raises(InvalidProtobuf, match="nested deeper than the 33 levels"):
        read_source(content, Limits(), None)


@pytest.mark.parametrize("content", [b"", onnx.ModelProto(ir_version=8).SerializeToString()])
def test_no_graph(content: bytes) -> None:
    """Nothing, or a model without a graph, as in onnxruntime."""
    with pytest.raises(InvalidArgument, match=f"No graph was found in the model.(.|\n)*it has {len(content)} bytes"):
        read_source(content, Limits(), None)


def test_other_objects() -> None:
    with pytest.raises(InvalidArgument, match="cannot be loaded from a int"):
        read_source(5, Limits(), None)  # type: ignore[arg-type]  # the point of the test


def test_paths_with_nul() -> None:
    """The system cannot even ask for such a file."""
    with pytest.raises(NoSuchFile, match="is not a path"):
        read_source("a\0b", Limits(), None)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows takes such a path for one of no file")
@pytest.mark.parametrize("name", ["x" * 5000, "x" * 300, "d/" * 3000 + "m.onnx"])
def test_paths_longer_than_the_system_allows(name: str, tmp_path: Path) -> None:
    """The class onnxruntime raises; the message has the beginning of the path, its length, and what to do."""
    path = str(tmp_path / name)
    with pytest.raises(Fail, match=rf"cannot be read(.|\n)*{len(path):,} characters(.|\n)*a shorter path") as caught:
        read_source(path, Limits(), None)
    assert len(str(caught.value)) < 1000


@pytest.mark.skipif(sys.platform == "win32", reason="Windows reports both as a file that is not there")
def test_paths_that_lead_nowhere(path: Path, tmp_path: Path) -> None:
    """Through a file, and through links in a circle: `Fail` as in onnxruntime, with what is wrong about the path."""
    with pytest.raises(Fail, match=r"a part of it that should be a folder is a file"):
        read_source(path / "m.onnx", Limits(), None)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(Fail, match=r"its links form a cycle"):
        read_source(tmp_path / "loop", Limits(), None)


def test_size_is_asked_for_first(path: Path) -> None:
    """Files and bytes above the limit are refused by size."""
    for source in (path, path.read_bytes()):
        with pytest.raises(LimitError, match=r"The model has \d+ bytes; 10 bytes are allowed"):
            read_source(source, Limits(model_bytes=10), None)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_pipes_are_refused_without_waiting(tmp_path: Path) -> None:
    """Opening a pipe would wait for a writer forever."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Fail, match=r"cannot be read(.|\n)*a device or a pipe"):
        read_source(tmp_path / "pipe", Limits(), None)


def test_a_file_written_while_it_is_read_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a former and half a new model are none."""
    size = path.stat().st_size
    found = [FileIdentity(1, 2, size, 3, 4), FileIdentity(1, 2, size, 3, 5)]
    monkeypatch.setattr(FileIdentity, "of_open", staticmethod(lambda file: found.pop(0)))
    with pytest.raises(Fail, match="changed while it was being read"):
        read_source(path, Limits(), None)


def test_a_file_written_while_it_is_parsed_is_refused(path: Path, tmp_path: Path) -> None:
    """A mapped file changes with its content; a replaced or removed one stays as it was."""
    read = read_source(path, Limits(), None)
    expect_unwritten(read)
    os.utime(path, (1, 1))
    with pytest.raises(Fail, match="changed while it was being read"):
        expect_unwritten(read)
    (tmp_path / "other").write_bytes(path.read_bytes())
    (tmp_path / "other").replace(path)
    expect_unwritten(read)
    path.unlink()
    expect_unwritten(read)
