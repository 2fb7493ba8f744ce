"""Opening engines: from the arguments of a session, and once more from the recipe of an engine that exists."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ort_py.bytecode import close_archive
from ort_py.cache.writing import process_queue
from ort_py.engine.engine import Engine, MakeRunner
from ort_py.engine.recipe import FileReference, ProviderArgument, Recipe, expect_same_model, recipe_of
from ort_py.errors import InvalidArgument
from ort_py.graph.reading.given_model import GivenModel
from ort_py.options import SessionOptions
from ort_py.platform.heap import give_back_once

if TYPE_CHECKING:
    from ort_py.cache.store import CacheStore


def open_engine(
    source: Any,
    options: SessionOptions,
    providers: ProviderArgument | None = None,
    provider_options: Sequence[Mapping[str, Any]] | None = None,
    *,
    fallback_enabled: bool = True,
    session_id: str = "",
    make_runner: MakeRunner | None = None,
    store: CacheStore | None = None,
) -> Engine:
    """Build an engine.

    Args:
        source: Path of a model, its bytes, or a message.
        options: The engine's own options, which must not change later.
        providers: Names, or (name, options) pairs, in order of preference; None for every usable provider by rank.
        provider_options: One mapping per provider, if `providers` has names only.
        fallback_enabled: Whether another provider may answer failures.
        session_id: Identifier for hooks and records; a new one where empty.
        make_runner: Makes the runner of each program; plain runners where None.
        store: The folder of the cache; None for the one that the options name.

    Raises:
        OrtPyError: The providers cannot be had, or the model is wrong.
    """
    given = opened = GivenModel.of(source)
    if given.is_compiled:
        from ort_py.engine.compiled_model import open_compiled

        opened, options, providers, provider_options = open_compiled(given, options, providers, provider_options)
    recipe = recipe_of(given, options, providers, provider_options, fallback_enabled=fallback_enabled)
    engine = Engine(opened, recipe, session_id or os.urandom(6).hex(), make_runner, store)
    for write in close_archive():
        process_queue().add(write)
    give_back_once()
    return engine


def open_again(
    engine: Engine,
    what: str,
    options: SessionOptions,
    providers: Any,
    provider_options: Any,
    *,
    session_id: str = "",
    make_runner: MakeRunner | None = None,
) -> Engine:
    """Build another engine of the same model.

    Args:
        what: Sentence that says what cannot be done where the model was not kept.

    Raises:
        InvalidArgument: The model was not kept, or is another one now.
        OrtPyError: As for `open_engine`. A wrong request for providers raises: fallback is off.
    """
    former: Recipe = engine.recipe
    source, reference = former.source, None
    if isinstance(source, FileReference):
        reference = source.with_content(engine.description.fingerprint, engine.external_files)
        source = source.path
    if source is None:
        raise InvalidArgument(what, why=former.reason, fix="Create the session from a path.")
    opened = open_engine(
        source,
        options,
        providers,
        provider_options,
        fallback_enabled=False,
        session_id=session_id,
        make_runner=make_runner,
    )
    try:
        if reference is not None:
            expect_same_model(reference, opened.description.fingerprint, opened.external_files)
        elif opened.description.fingerprint != engine.description.fingerprint:
            raise InvalidArgument("The model was changed after the session was created.", fix="Pass its bytes.")
    except BaseException:
        opened.close()
        raise
    return opened
