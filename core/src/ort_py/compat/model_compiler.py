"""ModelCompiler: a model as a session would run it, written to a file, bytes or a stream.

What is written is the graph after optimising and partitioning, which `optimized_model_filepath` writes too. Providers
that compile regions keep what they made in the artifact cache (`SessionOptions.cache_dir`), not in the model, so the
file loads everywhere. An engine makes the graph and never runs.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import onnx

from ort_py.api.compiling import compile_model
from ort_py.api.session_arguments import session_options
from ort_py.engine.opening import open_engine
from ort_py.engine.optimised_model import move_constants
from ort_py.enums import GraphOptimizationLevel
from ort_py.errors import ArgumentTypeError, Fail, InvalidArgument, Location, OptionError, UsageError
from ort_py.graph.ir import Model
from ort_py.graph.reading.given_model import COMPILED_SUFFIX, GivenModel
from ort_py.graph.weights.weights import MappedWeight
from ort_py.graph.writing.serialize import model_to_proto
from ort_py.options import SessionOptions
from ort_py.value_enums import OrtCompileApiFlags
from ort_py.values.ort_value import OrtValue

_CHUNK = 1 << 20
_INT64 = 2**63


class OrtExternalInitializerInfo:
    """Place of an initializer's bytes outside the model.

    Args:
        filepath: File, relative to the model.
        byte_size: Number of bytes.

    Attributes:
        filepath, file_offset, byte_size: As given.
    """

    __slots__ = ("byte_size", "file_offset", "filepath")

    def __init__(self, filepath: str, file_offset: int, byte_size: int, /) -> None:
        if not isinstance(filepath, str | os.PathLike):
            raise ArgumentTypeError(f"A file must be given by a path, not {filepath!r}.", fix="Pass a str.")
        for number in (file_offset, byte_size):
            if not isinstance(number, int) or not -_INT64 <= number < _INT64:
                raise ArgumentTypeError(f"{number!r} is not a 64-bit number of bytes.", fix="Pass an int.")
        self.filepath, self.file_offset, self.byte_size = os.fspath(filepath), file_offset, byte_size

    def __repr__(self) -> str:
        return f"OrtExternalInitializerInfo({self.filepath!r}, {self.file_offset}, {self.byte_size})"


InitializerLocation: TypeAlias = Callable[
    [str, OrtValue, OrtExternalInitializerInfo | None], OrtExternalInitializerInfo | None
]


class ModelCompiler:
    """Compiles one model.

    Args:
        sess_options: Options with the providers to compile for; copied.
        input_model_path_or_bytes: Path of a model, or its bytes.
        embed_compiled_data_into_model: Accepted for compatibility: compiled data is kept in the artifact cache.
        external_initializers_file_path: File beside the compiled model for its large constants; None keeps them in it.
        external_initializers_size_threshold: The size in bytes from which a constant counts as large.
        flags: `OrtCompileApiFlags`, combined with ``|``.
        get_initializer_location_func: Called with name, value and present place of every constant; returns where its
            bytes are written by the function itself, or None to keep them in the model.

    Raises:
        ValueError: The model is empty, or both ways to place constants are given.
        TypeError: An argument has a wrong type.
    """

    def __init__(
        self,
        sess_options: SessionOptions,
        input_model_path_or_bytes: str | os.PathLike[str] | bytes,
        embed_compiled_data_into_model: bool = False,
        external_initializers_file_path: str | os.PathLike[str] | None = None,
        external_initializers_size_threshold: int = 1024,
        flags: int = OrtCompileApiFlags.NONE,
        graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_DISABLE_ALL,
        get_initializer_location_func: InitializerLocation | None = None,
    ) -> None:
        _expect_source(input_model_path_or_bytes)
        if not isinstance(sess_options, SessionOptions):
            raise ArgumentTypeError(
                f"sess_options must be a SessionOptions, not {type(sess_options).__name__}.", fix="Pass one."
            )
        if external_initializers_file_path and not isinstance(external_initializers_file_path, str | os.PathLike):
            raise ArgumentTypeError(
                f"external_initializers_file_path must be a path, not {external_initializers_file_path!r}.",
                fix="Pass the name of a file beside the compiled model.",
            )
        if external_initializers_file_path and get_initializer_location_func is not None:
            raise OptionError(
                "external_initializers_file_path and get_initializer_location_func are both given.",
                why="both determine where constants are stored",
                fix="Pass one of them.",
            )
        if not isinstance(flags, int):
            raise ArgumentTypeError(f"flags must be a number, not {flags!r}.", fix="Combine OrtCompileApiFlags with |.")
        self._source = input_model_path_or_bytes
        self._options = copy.copy(sess_options)
        self._options.graph_optimization_level = graph_optimization_level
        self._options.optimized_model_filepath = ""
        self._external = os.fspath(external_initializers_file_path or "")
        self._threshold = external_initializers_size_threshold
        self._flags = flags
        self._locate = get_initializer_location_func

    def compile_to_file(self, output_model_path: str | os.PathLike[str] | None = None) -> None:
        """Compile into a file.

        Args:
            output_model_path: The file. If its name ends in ``.ortpy``, it becomes what `ort_py.compile_model` writes
                without inputs, which only ort-py loads; otherwise an ONNX model.

        Raises:
            TypeError: No path is given.
            Fail: The file exists, or nothing was compiled, and the flags make that an error.
            InvalidArgument: The model is not there, or the file cannot be written.
            OrtPyError: As for a new session.
        """
        if not output_model_path or not isinstance(output_model_path, str | os.PathLike):
            raise ArgumentTypeError(
                f"The path of the compiled model is {output_model_path!r}, which is not a path.",
                fix="Pass the file's path.",
            )
        target = Path(output_model_path)
        if self._flags & OrtCompileApiFlags.ERROR_IF_OUTPUT_FILE_EXISTS and target.exists():
            raise Fail(
                "The file for the compiled model already exists.",
                where=Location(file=str(target)),
                why="the flag ERROR_IF_OUTPUT_FILE_EXISTS was set",
                fix="Remove the file, or leave the flag out.",
            )
        try:
            if target.suffix.lower() == COMPILED_SUFFIX:
                compile_model(self._source, target, self._options)
                return
            target.write_bytes(self._compiled(target.parent))
        except OSError as error:
            raise InvalidArgument(
                "The compiled model cannot be written.",
                where=Location(file=str(target)),
                why=str(error),
                fix="Give a path in a folder that exists and has room.",
            ) from error

    def compile_to_bytes(self) -> bytes:
        """Compile into bytes; constants that go into a file are written relative to the working directory.

        Raises:
            OrtPyError: As `compile_to_file`.
        """
        return self._compiled(Path())

    def compile_to_stream(self, write_function: Callable[[bytes], Any]) -> None:
        """Compile, and hand the bytes over in pieces.

        Args:
            write_function: Called with each piece, in order.

        Raises:
            Fail: It raised; ``__cause__`` is what.
            OrtPyError: As `compile_to_file`.
        """
        data = self._compiled(Path())
        try:
            for start in range(0, len(data), _CHUNK):
                write_function(data[start : start + _CHUNK])
        except Exception as error:  # the caller's code; onnxruntime tells it as a failure of the compilation
            raise Fail(
                "The function that writes the compiled model failed.",
                why=f"{type(error).__name__}: {error}",
                fix="Pass a function of one bytes argument that does not raise.",
            ) from error

    def set_ep_context_data_write_func(self, write_func: Callable[[str, Any], None]) -> None:
        """Accepted for compatibility: nothing is written beside the model, so the function is never called.

        Raises:
            UsageError: It is None; a builtin RuntimeError too.
        """
        if not callable(write_func):
            raise UsageError(f"{write_func!r} is not a function.", fix="Pass a function of a name and its data.")

    def clear_ep_context_data_write_func(self) -> None:
        """Undo `set_ep_context_data_write_func`."""

    def _compiled(self, folder: Path) -> bytes:
        """The compiled model; constants that go into a file of their own are written into the folder."""
        # `Path.exists` would raise where a path is too long.
        if isinstance(self._source, str | os.PathLike) and not os.path.exists(self._source):
            raise InvalidArgument(
                "The model to compile does not exist.",
                where=Location(file=os.fspath(self._source)),
                why="there is no such file",
                fix="Check the path.",
            )
        model = GivenModel.of(self._source)
        engine = open_engine(model, session_options(model, self._options, {}))
        try:
            assert engine.assembled is not None
            assert engine.model is not None
            if self._flags & OrtCompileApiFlags.ERROR_IF_NO_NODES_COMPILED and not engine.assembled.compiled:
                raise Fail(
                    "No node was compiled.",
                    why="none of the providers compiles regions of this model",
                    fix="Add a provider that compiles, or leave the flag ERROR_IF_NO_NODES_COMPILED out.",
                )
            proto = model_to_proto(engine.model)
            if self._external:
                move_constants(proto, *self._beside(folder), self._threshold)
            elif self._locate is not None:
                folder = Path(self._source).parent if isinstance(self._source, str | os.PathLike) else Path()
                _place_constants(proto, engine.model, folder, self._locate)
            data: bytes = proto.SerializeToString()
            return data
        finally:
            engine.close()

    def _beside(self, folder: Path) -> tuple[Path, str]:
        """Folder and name of the file for constants: an absolute path counts where it leads into the folder."""
        named = Path(self._external)
        if named.is_absolute() and named.parent.resolve() == folder.resolve():
            return folder, named.name
        return folder, self._external


def _expect_source(source: Any) -> None:
    if not isinstance(source, str | os.PathLike | bytes):
        raise ArgumentTypeError(
            f"A model cannot be compiled from a {type(source).__name__}.", fix="Pass a path, or the bytes of a file."
        )
    if not isinstance(source, os.PathLike) and not source:
        raise OptionError("The model to compile is empty.", fix="Pass the path of a model, or its bytes.")


def _place_constants(proto: onnx.ModelProto, model: Model, folder: Path, locate: InitializerLocation) -> None:
    """Ask the caller for the place of every constant, and refer to those that are stored outside.

    Args:
        proto: The compiled model; changed.
        model: The model it was written from.
        folder: Folder of the original model; present places are given relative to it.
        locate: The caller's function.
    """
    for tensor in proto.graph.initializer:
        weight = model.graph.initializers[tensor.name].weight
        assert weight is not None
        present = (
            OrtExternalInitializerInfo(os.path.relpath(weight.file.path, folder), weight.offset, weight.length)
            if isinstance(weight, MappedWeight) and weight.file.path
            else None
        )
        try:
            chosen = locate(tensor.name, OrtValue.of(weight.array()), present)
            if chosen is not None and not isinstance(chosen, OrtExternalInitializerInfo):
                raise TypeError(f"{chosen!r} is neither None nor an OrtExternalInitializerInfo")
        except Exception as error:  # the caller's code; onnxruntime tells it as a failure of the compilation
            raise Fail(
                "The function that places constants failed.",
                where=Location(value=tensor.name),
                why=f"{type(error).__name__}: {error}",
                fix="Return None or an OrtExternalInitializerInfo for every constant.",
            ) from error
        if chosen is not None:
            tensor.ClearField("raw_data")
            tensor.data_location = onnx.TensorProto.EXTERNAL
            for key, value in (
                ("location", chosen.filepath),
                ("offset", str(chosen.file_offset)),
                ("length", str(chosen.byte_size)),
            ):
                tensor.external_data.add(key=key, value=value)
