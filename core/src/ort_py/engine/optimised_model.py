"""The optimised model as a file, with its large constants in a second one where the options say so.

Comes after the graph was optimised and partitioned. It does not depend on providers.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath, PureWindowsPath

from ort_py.errors import Fail, Location, UsageError
from ort_py.graph.ir import Model
from ort_py.graph.writing.serialize import model_to_proto
from ort_py.onnx_parts import onnx
from ort_py.options import SessionOptions, entry_of

_FILE_KEY = "session.optimized_model_external_initializers_file_name"
_SIZE_KEY = "session.optimized_model_external_initializers_min_size_in_bytes"
_DEFAULT_SIZE = 1024
_ALIGNMENT = 4096
"""Alignment of large constants in the second file, so that each can be mapped on its own."""


def write_optimised(model: Model, options: SessionOptions) -> None:
    """Write the graph in its present form if the options request it.

    Raises:
        UsageError: The file cannot be written; a builtin RuntimeError too, as in onnxruntime for some reasons.
        Fail: The file for constants cannot be written, or its name is not plain, or the entry for the size is not a
            number.
        LimitError: The model passes protobuf's 2 GiB.
    """
    path = os.fspath(options.optimized_model_filepath)
    if not path:
        return
    proto = model_to_proto(model)
    beside = entry_of(options, _FILE_KEY)
    if beside:
        move_constants(proto, Path(path).parent, beside, _smallest(options))
    try:
        Path(path).write_bytes(proto.SerializeToString())
    except OSError as error:
        raise UsageError(
            "The optimised model cannot be written.",
            where=Location(file=path),
            why=str(error),
            fix="Give SessionOptions.optimized_model_filepath a path in a folder that exists.",
        ) from error


def _smallest(options: SessionOptions) -> int:
    text = entry_of(options, _SIZE_KEY).strip()
    if not text:
        return _DEFAULT_SIZE
    if not (text.isascii() and text.isdigit()):
        raise Fail(
            f"The config entry '{_SIZE_KEY}' is '{text}', which is not a number of bytes.",
            fix="Set it to a whole number, or leave it out.",
        )
    return int(text)


def move_constants(proto: onnx.ModelProto, folder: Path, name: str, smallest: int) -> None:
    """Move the bytes of constants of `smallest` bytes or more into a file, and say where they are."""
    if PurePosixPath(name).name != name or PureWindowsPath(name).name != name:
        raise Fail(
            f"The file for constants is named {name!r}, which is not a plain file name.",
            where=Location(file=name),
            why="it is written next to the model, and the model may only refer to files there",
            fix=f"Give the config entry '{_FILE_KEY}' a name without folders.",
        )
    moved = [tensor for tensor in proto.graph.initializer if len(tensor.raw_data) >= max(1, smallest)]
    if not moved:
        return
    try:
        with (folder / name).open("wb") as file:
            for tensor in moved:
                size = len(tensor.raw_data)
                if size >= _ALIGNMENT:
                    file.seek(-file.tell() % _ALIGNMENT, os.SEEK_CUR)
                offset = file.tell()
                file.write(tensor.raw_data)
                tensor.ClearField("raw_data")
                tensor.data_location = onnx.TensorProto.EXTERNAL
                for key, value in (("location", name), ("offset", str(offset)), ("length", str(size))):
                    tensor.external_data.add(key=key, value=value)
    except OSError as error:
        raise Fail(
            "The file for the optimised model's constants cannot be written.",
            where=Location(file=str(folder / name)),
            why=str(error),
            fix="Write to a folder that exists and has room.",
        ) from error
