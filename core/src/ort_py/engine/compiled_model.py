"""Compiled models at the door of an engine: whether one fits this machine, these versions and these options.

Comes before `engine`, and after `cache.compiled_file`, which reads the file. What a compiled model was prepared with is
given to the session; what the session asks for and the file was not made for is a reason to refuse it. A file that
contains the original model is then prepared again.
"""

from __future__ import annotations

import copy
import mmap
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ort_py.cache.compiled_file import CompiledFile, NotCompiledError
from ort_py.cache.format import description_of
from ort_py.cache.kept_forms import KeptForms
from ort_py.cache.model_record import BROKEN
from ort_py.contracts import IExecutionProvider
from ort_py.discovery import ProviderRecord
from ort_py.engine.compiled_fit import differences, provider_differences, take_options
from ort_py.engine.contributions import Contributions
from ort_py.engine.prepared_model import KIND, PreparedFile, prepared_file
from ort_py.engine.session_cache import MODEL_CACHE_KEY, Restored
from ort_py.errors import CompiledModelError, Fail, Location, NoSuchFile, OrtPyError
from ort_py.files import FileIdentity, open_regular
from ort_py.graph.reading.given_model import GivenModel
from ort_py.graph.weights.weights import MappedFile
from ort_py.logs import lazy_logger
from ort_py.options import SessionOptions, additions_of, entry_of

_logger = lazy_logger("ort_py.session")

COMPILED_KEY = "session.compiled_model"
"""Config entry: ``"strict"`` refuses a compiled model that does not fit, also if it contains the original model."""

FORMAT_KEY = "session.load_model_format"
FORMAT = "ORTPY"
"""Config entry and value that let bytes be a compiled model. The name of a file says it already."""

ORIGINAL = "original"
"""Kind of the file with the original model."""


def open_compiled(
    given: GivenModel, options: SessionOptions, providers: Any, provider_options: Any
) -> tuple[GivenModel, SessionOptions, Any, Any]:
    """Open a compiled model.

    Args:
        given: The model as the caller gave it.
        options, providers, provider_options: Arguments of the engine.

    Returns:
        What the engine is to be made of: the compiled model, or the original model in it if that has to be prepared
        anew, with the options and the providers that the file was compiled for.

    Raises:
        CompiledModelError: It is damaged, or does not fit and does not contain the original model.
        NoSuchFile: There is no such file.
        Fail: It cannot be read.
    """
    if not given.path and entry_of(options, FORMAT_KEY).upper() != FORMAT:
        raise CompiledModelError(
            "The bytes given are a compiled model, and not an ONNX model.",
            why="bytes may be a stranger's, and the content of a compiled model is not checked as an ONNX model's is",
            fix=f"If you trust them, set the session's config entry '{FORMAT_KEY}' to '{FORMAT}'.",
        )
    compiled = _opened(given)
    try:
        options = copy.copy(options)
        reasons = [*differences(compiled.about, options), *take_options(compiled.about["options"], options)]
        if not providers and not additions_of(options).has_providers:
            providers = [(str(one), dict(settings)) for one, settings in compiled.about["providers"]]
            provider_options = None
    except BROKEN as error:
        raise _broken(given.path, error) from error
    fitting = replace(given, compiled=compiled)
    if not reasons:
        return fitting, options, providers, provider_options
    expect_original(fitting, options, reasons)
    if not entry_of(options, MODEL_CACHE_KEY):  # it came from a file, and preparing it each time would be slow
        options.add_session_config_entry(MODEL_CACHE_KEY, "1")
    return original_of(fitting), options, providers, provider_options


def compiled_facts(path: str) -> dict[str, Any]:
    """The description of a compiled model's file, with the reasons why it does not fit a session of this process.

    Raises:
        CompiledModelError: It is damaged.
        NoSuchFile: There is no such file.
        Fail: It cannot be read.
    """
    compiled = _opened(GivenModel.of(path))
    about = compiled.about
    try:
        sizes: dict[str, int] = {}
        for _, kind, _, size in about["parts"]:
            sizes[kind] = sizes.get(kind, 0) + size
        reasons = differences(about, SessionOptions())
        named = {name: about[name] for name in ("title", "fingerprint", "providers", "options", "made_by")}
    except BROKEN as error:
        raise _broken(path, error) from error
    return {"path": path, "bytes": compiled.nbytes, **named, "parts": sizes, "does_not_fit": reasons}


def _opened(given: GivenModel) -> CompiledFile:
    try:
        return CompiledFile(_content(given), given.path or "the bytes given")
    except NotCompiledError as error:
        raise _broken(given.path, error) from error


def _content(given: GivenModel) -> Any:
    if not given.path:
        return memoryview(given.content).cast("B")
    where = Location(file=given.path)
    try:
        with open_regular(given.path) as file:
            size = FileIdentity.of_open(file).size
            return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else b""
    except FileNotFoundError as error:
        raise NoSuchFile(
            f"Loading the model failed: the file '{given.path}' does not exist.", where=where, fix="Check the path."
        ) from error
    except (OSError, ValueError) as error:
        raise Fail(
            f"The file '{given.path}' cannot be read.",
            where=where,
            why=f"{type(error).__name__}: {error}",
            fix="Pass the path of a file that can be read.",
        ) from error


def original_of(given: GivenModel) -> GivenModel:
    """The original model in a compiled model that contains one.

    Raises:
        CompiledModelError: It is damaged.
    """
    compiled: CompiledFile = given.compiled
    content = compiled.read(compiled.key_of(ORIGINAL), ORIGINAL)
    if content is None:
        raise CompiledModelError(
            "The original model in a compiled model cannot be loaded.",
            where=Location(file=given.path),
            why="it was changed after it was written",
            fix="Copy the file again, or load the ONNX model.",
        )
    return GivenModel(content[description_of(content)[1] :], "", is_message=False)


def restore_compiled(
    given: GivenModel,
    pairs: Sequence[tuple[ProviderRecord, IExecutionProvider]],
    contributions: Contributions,
    options: SessionOptions,
    provider_options: Mapping[str, Mapping[str, str]],
) -> Restored | None:
    """The prepared model in a compiled model; None if the original model has to be prepared again.

    Args:
        given: The compiled model, opened.
        pairs: The session's providers.
        contributions: Their kernels.
        provider_options: Options of each, filled in.

    Raises:
        CompiledModelError: It does not fit these providers, or is damaged, and does not contain the original model.
    """
    compiled: CompiledFile = given.compiled
    key = compiled.key_of(KIND)
    try:
        reasons = provider_differences(compiled.about, pairs, provider_options)
        file = prepared_file(compiled, key) if not reasons else None
        if file is None:
            reasons = reasons or ["the prepared model in it was changed after it was written"]
            expect_original(given, options, reasons)
            return None
        found = PreparedFile(file)
        read = found.read(contributions, [provider for _, provider in pairs], _no_external_data, None)
        read.model.source = given.path
    except (*BROKEN, OrtPyError) as error:
        if isinstance(error, CompiledModelError):
            raise
        kind = "" if type(error) is ValueError else f"{type(error).__name__}: "  # ours say all in their text
        expect_original(given, options, [f"{kind}{error}"], error)
        return None
    forms = KeptForms(compiled, key, str(found.head["title"]), repr(found.identity))
    return Restored(read.model, read.assignment, read.keys, found.head["notes"], forms)


def _no_external_data(location: str) -> MappedFile:
    raise ValueError("it refers to a file beside it")


def expect_original(
    given: GivenModel, options: SessionOptions, reasons: Sequence[str], cause: Exception | None = None
) -> None:
    """Log why a compiled model is not used, if the original model in it is prepared again instead.

    Raises:
        CompiledModelError: The file does not contain the original model, or the options forbid to use it.
    """
    has_original = bool(given.compiled.key_of(ORIGINAL))
    if not has_original or entry_of(options, COMPILED_KEY) == "strict":
        raise _refusal(given.path, reasons, has_original=has_original) from cause
    _logger.warning(
        "the compiled model %s does not fit, and the original model in it is prepared anew: %s",
        given.path or "given as bytes",
        "; ".join(reasons),
    )


def _refusal(path: str, reasons: Sequence[str], *, has_original: bool) -> CompiledModelError:
    how = (
        f"Leave out the config entry '{COMPILED_KEY}', and the original model in the file is prepared anew."
        if has_original
        else "Compile the model for this case with `ort-py compile`, load the ONNX model, or compile it with "
        "`--embed-original`, so that it is prepared anew wherever it does not fit."
    )
    return CompiledModelError(
        "The compiled model was not made for this session.", where=Location(file=path), why=reasons, fix=how
    )


def _broken(path: str, error: Exception) -> CompiledModelError:
    misfit = f"its description does not fit together: {type(error).__name__}: {error}"
    return CompiledModelError(
        "The compiled model cannot be loaded.",
        where=Location(file=os.fspath(path)),
        why=str(error) if isinstance(error, NotCompiledError) else misfit,
        fix="Compile the model again with `ort-py compile`, or copy the file again.",
    )
