"""Conversion of the caller's model (a path, bytes or a message) to one message.

The first stage of loading. Every file that is not an ONNX model gets its own explanation here, with the exception class
that onnxruntime raises. Sessions read the messages of `onnx_messages`, whose large tensors stay where they are; who
needs a complete message gets protobuf's.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any, TypeAlias

from ort_py.errors import Fail, InvalidArgument, InvalidProtobuf, LimitError, Location, NoSuchFile
from ort_py.files import FileIdentity, open_regular
from ort_py.graph.reading.fingerprint import ContentHash, content_hash
from ort_py.graph.reading.given_model import COMPILED_MAGIC, COMPILED_SUFFIX, flat_bytes
from ort_py.graph.reading.onnx_messages import ModelProto
from ort_py.graph.reading.wire import Malformed, TooDeep, read
from ort_py.graph.weights.paging import forget_pages, mapped
from ort_py.hashing import blake2b
from ort_py.lazy_dataclass import dataclass
from ort_py.limits import Limits
from ort_py.limits.allocation import human_bytes
from ort_py.onnx_parts import is_message, onnx

__all__ = ["ModelSource", "Source", "content_hash", "expect_unwritten", "read_source"]

Source: TypeAlias = "str | os.PathLike[str] | bytes | bytearray | memoryview | onnx.ModelProto"

_LFS_POINTER = b"version https://git-lfs"
_ORT_IDENTIFIER = b"ORTM"  # at byte 4, as flatbuffers have it

_SHOWN = 200
"""Characters of a path that cannot be read which its message repeats: it may not be a path at all."""

_PATH_FIXES = {
    errno.ENAMETOOLONG: "Use a shorter path, or change into a folder on the way; a model itself is passed as bytes.",
    errno.ENOTDIR: "Check the path: a part of it that should be a folder is a file.",
    errno.ELOOP: "Check the path: its links form a cycle.",
}


@dataclass(slots=True)
class ModelSource:
    """A model that was read.

    Attributes:
        proto: The message. The parser drops it here, so that its memory is free before the graph is built.
        fingerprint: Hash of the bytes; of a large file, computed at the first request.
        folder: Folder of external data; None if the model has none.
        real_folder: Real folder of the file if `path` is a link.
        content: The bytes in which the pieces of `proto` lie; None where it has none.
        file: Identity of the file and content that it was read from; None for bytes and messages.
    """

    proto: Any
    path: str
    fingerprint: ContentHash
    size: int
    folder: str | None
    real_folder: str | None = None
    content: memoryview | None = None
    file: FileIdentity | None = None


def read_source(
    source: Source,
    limits: Limits,
    external_data_folder: str | os.PathLike[str] | None,
    *,
    whole: bool = True,
    check: Callable[[], None] | None = None,
) -> ModelSource:
    """Read a model.

    Args:
        source: Path, bytes, or a message, which is left as it is.
        limits: Bounds; only `Limits.model_bytes` is used here.
        external_data_folder: Folder of external data; None for that of the file.
        whole: Make a complete message of protobuf; else one of `onnx_messages`, with large tensors left in
            `ModelSource.content`.
        check: Called now and then while a message of `onnx_messages` is read. What it raises ends the reading.

    Raises:
        NoSuchFile: There is no such file.
        InvalidProtobuf: It is a directory, or its bytes are not an ONNX model.
        InvalidArgument: It is empty or has no graph, or `source` is of the wrong type.
        Fail: It may not be read.
        LimitError: It is larger than the limits allow.
    """
    folder = None if external_data_folder is None else os.fspath(external_data_folder)
    if is_message(source):
        size = source.ByteSize()
        found = ModelSource(source, "", ContentHash(_fingerprint_of(source)), size, folder)
    elif isinstance(source, bytes | bytearray | memoryview):
        size = len(source) if not isinstance(source, memoryview) else source.nbytes
        _check_size(size, limits, "the bytes given")
        content = memoryview(flat_bytes(source))
        proto = _parsed(content, "the bytes given", whole, check)
        kept = None if whole else content
        found = ModelSource(proto, "", ContentHash(content_hash(content)), size, folder, content=kept)
    elif isinstance(source, str | os.PathLike):
        found = _read_file(os.fspath(source), limits, folder, whole, check)
    else:
        raise InvalidArgument(
            f"A model cannot be loaded from a {type(source).__name__}.",
            fix="Pass a path, the bytes of a file, or an onnx.ModelProto.",
        )
    if not found.proto.HasField("graph"):
        raise InvalidArgument(
            "No graph was found in the model.",
            where=Location(file=found.path),
            why=f"it has {found.size} bytes",
            fix="The file is empty or is not a model; download or export it again.",
        )
    return found


def _read_file(
    path: Any, limits: Limits, folder: str | None, whole: bool, check: Callable[[], None] | None
) -> ModelSource:
    if not isinstance(path, str):
        path = os.fsdecode(path)
    where = Location(file=path)
    real = None
    try:
        with open_regular(path) as file:
            identity = FileIdentity.of_open(file)
            _check_size(identity.size, limits, where)
            content = mapped(file, identity.size)
            if FileIdentity.of_open(file) != identity or content.nbytes != identity.size:
                raise _written_meanwhile(path)
        # Model hubs link a model and its data, one by one, into a folder of blobs: links may lead there.
        if os.path.islink(path):
            real = os.path.dirname(os.path.realpath(path))
    except FileNotFoundError as error:
        raise NoSuchFile(
            f"Loading the model failed: the file '{path}' does not exist.",
            where=where,
            why="" if os.path.isabs(path) else f"the working directory is '{os.getcwd()}'",
            fix="Check the path.",
        ) from error
    except OSError as error:
        # Windows reports a directory as "permission denied". `os.path.isdir` asks again, and does not fail.
        if isinstance(error, IsADirectoryError) or os.path.isdir(path):
            raise InvalidProtobuf(
                f"'{path}' is a directory, not a model.", where=where, fix="Pass the path of the .onnx file in it."
            ) from error
        shown = path if len(path) <= _SHOWN else f"{path[:_SHOWN]}…"
        raise Fail(
            f"The file '{shown}' cannot be read.",
            where=Location(file=shown),
            why=f"{type(error).__name__}: {error.strerror or error}"
            + (f": the path has {len(path):,} characters" if error.errno == errno.ENAMETOOLONG else ""),
            fix=_PATH_FIXES.get(error.errno or 0, "Check the permissions of the file."),
        ) from error
    except ValueError as error:  # a NUL in the path
        raise NoSuchFile(f"{path!r} is not a path.", why=str(error), fix="Check the path.") from error
    fingerprint = ContentHash.of_file(path, identity, content)
    proto = _parsed(content, where, whole, check)
    folder = folder or os.path.dirname(path) or os.curdir
    kept = None if whole else content
    return ModelSource(proto, path, fingerprint, content.nbytes, folder, real_folder=real, content=kept, file=identity)


def expect_unwritten(read: ModelSource) -> None:
    """Check that a model's file was not written to while it was parsed, since parsing reads it through a mapping.

    A replaced file is harmless: the mapping still shows the complete former file.
    """
    if read.file is None:
        return
    try:
        now = FileIdentity.of(os.stat(read.path))
    except OSError:
        return  # it was removed, or moved, as a whole
    if now[:2] == read.file[:2] and now != read.file:
        raise _written_meanwhile(read.path)


def _written_meanwhile(path: str) -> Fail:
    return Fail(
        f"The file '{path}' changed while it was being read.",
        where=Location(file=path),
        why="its size, modification time or status changed after it was opened",
        fix="Wait until it is written completely, then load it. Write new versions under another name and rename them.",
    )


def _check_size(size: int, limits: Limits, where: Location | str) -> None:
    if limits.model_bytes is not None and size > limits.model_bytes:
        raise LimitError(
            f"The model has {human_bytes(size)}; {human_bytes(limits.model_bytes)} are allowed.",
            where=where,
            why="protobuf holds at most 2 GiB" if size >= 1 << 31 else "",
            fix="Save the model with external data, or raise Limits.model_bytes.",
        )


def _parsed(content: Any, where: Location | str, whole: bool, check: Callable[[], None] | None) -> Any:
    """The message in some bytes. Without bytes there is no graph, which is said better than as an error here."""
    if not whole:
        try:
            return read(ModelProto, content, check)
        except Malformed as error:
            raise _not_a_model(content, where, str(error), isinstance(error, TooDeep)) from error
    from google.protobuf.message import DecodeError  # sessions do without protobuf

    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(content)
    except (DecodeError, ValueError, RuntimeError) as error:
        is_deep = "MaxDepth" in str(error) or "recursion" in str(error).lower()
        raise _not_a_model(content, where, f"protobuf: {error}", is_deep) from error
    forget_pages(content, 0, content.nbytes)
    return proto


def _not_a_model(content: Any, where: Location | str, error: str, is_deep: bool) -> InvalidProtobuf:
    return InvalidProtobuf(
        "The bytes are not an ONNX model.", where=where, why=_reasons(content, error, is_deep), fix=_advice(content)
    )


def _reasons(content: Any, error: str, is_deep: bool) -> tuple[str, ...]:
    start = bytes(memoryview(content)[:64])
    if start.startswith(_LFS_POINTER):
        return ("the file is a Git LFS pointer: it refers to the model and does not contain it",)
    if start.startswith(COMPILED_MAGIC[:12]):
        return ("it is a model that was compiled by ort-py",)
    if start[4:8] == _ORT_IDENTIFIER:
        return ("the file is in onnxruntime's own .ort format, which only onnxruntime reads",)
    if is_deep:
        return (error, "graphs are nested deeper than the 33 levels protobuf can read")
    return (error, f"{len(content)} bytes, starting with {start[:16]!r}")


def _advice(content: Any) -> str:
    start = bytes(memoryview(content)[:64])
    if start.startswith(_LFS_POINTER):
        return "Run `git lfs pull` in the repository that the file comes from."
    if start.startswith(COMPILED_MAGIC[:12]):
        return (
            f"Give the file a name that ends in '{COMPILED_SUFFIX}' and load it with InferenceSession, or pass the "
            "ONNX model that it was made from."
        )
    if start[4:8] == _ORT_IDENTIFIER:
        return "Load the .onnx file that it was made from."
    return "The file is truncated, damaged, or not a model; download or export it again."


def _fingerprint_of(proto: onnx.ModelProto) -> str:
    """Hash of a message; of its parts where it is larger than one serialised message may be."""
    from google.protobuf.message import EncodeError  # loaded, since there is a message

    try:
        return content_hash(proto.SerializeToString(deterministic=True))
    except (EncodeError, ValueError):
        content = blake2b(digest_size=20)
        for tensor in proto.graph.initializer:
            content.update(tensor.SerializeToString(deterministic=True))
        for node in proto.graph.node:
            content.update(node.SerializeToString(deterministic=True))
        return content.hexdigest()
