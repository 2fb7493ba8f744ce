"""Compiling a model: prepared for this kind of machine, and written to one file that sessions load as a model.

The model is prepared and restored in a folder of its own, by the engine and its cache, and run if there are inputs for
that: what sessions then find in the folder becomes the file. `engine.compiled_model` loads it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ort_py.api.session_arguments import session_options
from ort_py.api.workplace import folder_beside
from ort_py.cache.compiled_file import write_compiled
from ort_py.cache.store import CacheStore
from ort_py.cache.writing import process_queue
from ort_py.engine.compiled_fit import made_by, prepared_with
from ort_py.engine.compiled_model import ORIGINAL
from ort_py.engine.engine import Engine
from ort_py.engine.opening import open_engine
from ort_py.engine.prepared_model import KIND
from ort_py.engine.recipe import ProviderArgument
from ort_py.engine.runs import run
from ort_py.engine.session_cache import MODEL_CACHE_KEY
from ort_py.errors import CompiledModelError, Fail, InvalidArgument, Location, OrtPyError
from ort_py.graph.reading.given_model import COMPILED_SUFFIX, GivenModel
from ort_py.lazy_dataclass import dataclass
from ort_py.limits import human_bytes
from ort_py.options import SessionOptions, additions_of

Feeds = Callable[[Engine], Sequence[Mapping[str, Any]]]
"""Makes the inputs of the runs, once the model is there."""

_PACKED = "packed"
_UNPACKED = "the first run of each process packs the weights"
_KINDS = (KIND, _PACKED, "artifact")


@dataclass(frozen=True, slots=True)
class CompileReport:
    """The result of compiling a model.

    Attributes:
        path: The file.
        bytes: Its size.
        providers: Nodes of each provider.
        parts: Bytes of what is in the file: ``model``, ``packed`` (weights as the providers' code reads them),
            ``artifact`` (what providers compiled) and ``original``.
        seconds: How long it took.
        notes: What is worth knowing besides, in lines.
    """

    path: str
    bytes: int
    providers: Mapping[str, int]
    parts: Mapping[str, int]
    seconds: float
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        nodes = ", ".join(f"{name}: {count} nodes" for name, count in self.providers.items())
        parts = ", ".join(f"{kind} {human_bytes(size)}" for kind, size in self.parts.items())
        lines = [f"{self.path}: {human_bytes(self.bytes)} ({parts}), {nodes}, in {self.seconds:.1f} s", *self.notes]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The report as JSON holds it."""
        return {
            "path": self.path,
            "bytes": self.bytes,
            "providers": dict(self.providers),
            "parts": dict(self.parts),
            "seconds": self.seconds,
            "notes": list(self.notes),
        }


def compile_model(
    model: str | os.PathLike[str] | bytes | Any,
    output: str | os.PathLike[str],
    sess_options: SessionOptions | None = None,
    providers: ProviderArgument | None = None,
    provider_options: Sequence[Mapping[str, Any]] | None = None,
    *,
    inputs: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    embed_original: bool = False,
    progress: Callable[[str], object] | None = None,
) -> CompileReport:
    """Prepare a model for this kind of machine, and write it to a file that `InferenceSession` loads.

    Args:
        model: Path of a model, its bytes, or an ``onnx.ModelProto``.
        output: The file to write, whose name ends in ``.ortpy``. A file there is replaced.
        sess_options, providers, provider_options: As for `InferenceSession`; they are what the model is compiled for.
        inputs: Inputs to run the model with, one mapping or a list of them with the shapes that will come. The weights
            are then written in the layout that these runs read them in; otherwise the first run of each process packs
            them. None runs nothing.
        embed_original: Also write the original model. A session then prepares it again where the compiled one does not
            fit, instead of refusing it.
        progress: Called with what is being done.

    Returns:
        What was written.

    Raises:
        InvalidArgument: The name of the file ends otherwise, or the model is compiled already.
        CompiledModelError: The model cannot be compiled; says why.
        OrtPyError: As for a new session, or a run failed.
        OSError: The file cannot be written.
    """
    given = [inputs] if isinstance(inputs, Mapping) else list(inputs or ())
    return compile_with(
        model,
        output,
        sess_options,
        providers,
        provider_options,
        feeds=lambda _: given,
        embed_original=embed_original,
        progress=progress,
    )


def compile_with(
    model: Any,
    output: str | os.PathLike[str],
    sess_options: SessionOptions | None,
    providers: ProviderArgument | None,
    provider_options: Sequence[Mapping[str, Any]] | None,
    *,
    feeds: Feeds,
    made_up: bool = False,
    embed_original: bool = False,
    progress: Callable[[str], object] | None = None,
) -> CompileReport:
    """`compile_model` with inputs that are made when the model is there.

    Args:
        feeds: Makes them.
        made_up: Whether they mean nothing to the model: then a run that fails is only a note.
    """
    start = time.monotonic()
    target, source = Path(output), GivenModel.of(model)
    _expect_names(source, target)
    options = _options(source, sess_options)
    tell = progress or (lambda text: None)
    with folder_beside(target) as folder:
        store = CacheStore(folder / "compiled", sys.maxsize, self_contained=True)

        def opened() -> Engine:
            return open_engine(source, options, providers, provider_options, fallback_enabled=False, store=store)

        tell("preparing the model")
        engine = opened()
        try:
            process_queue().wait()
            about = _about(engine, options, source)
            counts = dict(engine.program().assignment.counts())
            if not _files(store, KIND):
                raise _not_compiled(source, engine)
        finally:
            engine.close()
        notes = _run(opened, feeds, made_up=made_up, tell=tell)
        if embed_original:
            store.put(ORIGINAL, ORIGINAL, b"{}", [_original(source, options)])
        tell("writing the file")
        files = [(path.stem, kind, path) for kind in (*_KINDS, ORIGINAL) for path in _files(store, kind)]
        written = write_compiled(target, about, files)
        sizes: dict[str, int] = {}
        for _, kind, path in files:
            sizes[kind] = sizes.get(kind, 0) + path.stat().st_size
    return CompileReport(os.fspath(target), written, counts, sizes, time.monotonic() - start, tuple(notes))


def _expect_names(source: GivenModel, target: Path) -> None:
    if target.suffix.lower() != COMPILED_SUFFIX:
        raise InvalidArgument(
            "The name of a compiled model has to end in '.ortpy'.",
            where=Location(file=os.fspath(target)),
            why="sessions recognise compiled models by it",
            fix=f"Write it to '{target.with_suffix(COMPILED_SUFFIX)}'.",
        )
    if source.is_compiled:
        raise InvalidArgument(
            "The model is compiled already.",
            where=Location(file=source.path),
            fix="Compile the ONNX model that it was made from.",
        )


def _options(source: GivenModel, given: SessionOptions | None) -> SessionOptions:
    options = session_options(source, given, {})
    added = additions_of(options)
    if added.initializers or added.external_initializers or added.files:
        raise CompiledModelError(
            "The model cannot be compiled with replaced initializers.",
            why="a compiled model holds optimised constants, and those of the program are its own",
            fix="Write the values into the ONNX model first.",
        )
    options.optimized_model_filepath, options.enable_profiling, options.verify = "", False, None
    options.cache_dir = ""
    options.add_session_config_entry(MODEL_CACHE_KEY, "1")
    return options


def _about(engine: Engine, options: SessionOptions, source: GivenModel) -> dict[str, Any]:
    providers = engine.providers
    return {
        "title": Path(source.path).name or engine.description.title,
        "fingerprint": str(engine.description.fingerprint),
        "made_by": made_by(providers.pairs_in_use),
        "options": prepared_with(options),
        "providers": [[name, dict(providers.options.get(name, {}))] for name in providers.names],
    }


def _not_compiled(source: GivenModel, engine: Engine) -> CompiledModelError:
    why = engine.cache.problem
    if engine.providers.failed:
        why = "a provider failed while the model was prepared, and others took over"
    return CompiledModelError(
        "The model cannot be compiled.",
        where=Location(file=source.path),
        why=why or "code of a plug-in that takes part has no file that could be compared later",
        fix="Load the ONNX model instead.",
    )


def _run(opened: Callable[[], Engine], feeds: Feeds, *, made_up: bool, tell: Callable[[str], object]) -> list[str]:
    """Restore the model as a later process does, and run it, so that its packed weights are written."""
    tell("restoring the model")
    engine = opened()
    try:
        if any(stage.stage == "load" for stage in engine.report.stages):
            raise Fail(
                "The prepared model cannot be restored.",
                why="a session of the same model and options prepared it anew",
                fix="Please report this together with the model.",
            )
        given = feeds(engine)
        for number, feed in enumerate(given, 1):
            tell(f"running the model, {number} of {len(given)}")
            try:
                run(engine, None, feed)
            except OrtPyError as error:
                if not made_up:
                    raise
                return [f"{_UNPACKED}: a run with generated inputs failed: {error.what}"]
        return [] if given else [f"{_UNPACKED}: no inputs were given"]
    finally:
        engine.close()
        process_queue().wait()


def _files(store: CacheStore, kind: str) -> list[Path]:
    return sorted(store.folder.glob(f"*.{kind}"))


def _original(source: GivenModel, options: SessionOptions) -> Any:
    """The bytes of the original model, with its external data in it.

    Raises:
        CompiledModelError: It is larger than protobuf allows.
    """
    import onnx

    from ort_py.engine.replaced_values import external_folder
    from ort_py.graph.reading.sources import read_source

    folder = external_folder(options, source)
    read = read_source(source.content, options.limits, folder)
    external = [tensor for tensor in read.proto.graph.initializer if tensor.data_location == onnx.TensorProto.EXTERNAL]
    if not external:
        return source.content if isinstance(source.content, bytes) else read.proto.SerializeToString()
    proto = onnx.ModelProto()
    proto.CopyFrom(read.proto)
    try:
        onnx.load_external_data_for_model(proto, os.fspath(folder or read.folder or Path()))
        return proto.SerializeToString()
    except (ValueError, OSError, onnx.checker.ValidationError) as error:
        raise CompiledModelError(
            "The original model cannot be embedded.",
            where=Location(file=source.path),
            why=f"{type(error).__name__}: {error}",
            fix="Compile it without `embed_original`, and ship the ONNX model beside it.",
        ) from error
