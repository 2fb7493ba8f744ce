"""A session's use of the cache: it is read before a model is loaded, and written in the background afterwards.

Between `engine` and `session_cache`. Prepared models and the artifacts of compiled regions share one folder. A session
without a cache imports nothing of it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ort_py.cache.artifacts import ArtifactCache, artifact_key
from ort_py.cache.location import cache_folder
from ort_py.cache.writing import PendingWrite, process_queue
from ort_py.contracts import IExecutionProvider, SessionContext
from ort_py.discovery import ProviderRecord
from ort_py.engine.contributions import Contributions
from ort_py.engine.load_report import LoadReport
from ort_py.engine.region_compiler import RegionCompiler
from ort_py.engine.replaced_values import external_folder
from ort_py.engine.tuned_placement import TunedPlacement, read_tuned, write_tuned
from ort_py.graph.ir import Model
from ort_py.graph.reading.given_model import GivenModel
from ort_py.hooks.manager import HookManager
from ort_py.options import SessionOptions, additions_of, calculates_fast, entry_of
from ort_py.partition.assignment import Assignment
from ort_py.partition.rates import Calibration

if TYPE_CHECKING:
    from ort_py.cache.kept_forms import KeptForms
    from ort_py.cache.model_source import SourceFile
    from ort_py.cache.store import CacheStore, FileStore
    from ort_py.engine.session_cache import Restored, SessionCache

_NOT_PREPARATION = frozenset({"providers", "restore"})
"""Stages whose time a cached model does not save."""


def named_folder(options: SessionOptions) -> str | None:
    """The folder that the program names for caches, as providers receive it, or None."""
    named = os.fspath(options.cache_dir)
    return cache_folder(named) if named else None


def may_keep(options: SessionOptions) -> bool:
    """Return whether compiled data may be kept on disk, as providers with files of their own are informed."""
    return cache_folder(os.fspath(options.cache_dir)) is not None


def session_context(options: SessionOptions, threads: int) -> SessionContext:
    """Facts about a session for its providers."""
    return SessionContext(
        threads=threads,
        precision=options.precision,
        cache_folder=named_folder(options),
        deterministic=options.use_deterministic_compute,
        caches=may_keep(options),
        fast_math=calculates_fast(options),
    )


class CacheUse:
    """The cache of one session.

    Args:
        store: The folder; None for the one that the options name.

    Raises:
        OptionError: The environment's size of the cache is none.
    """

    def __init__(
        self,
        source: GivenModel,
        options: SessionOptions,
        provider_options: Mapping[str, Mapping[str, str]],
        hooks: HookManager,
        session_id: str,
        store: CacheStore | None = None,
    ) -> None:
        # Only what a compiled model says: the bytes of another model go when the session has been made of them.
        self._compiled = None if source.compiled is None else source
        self._options = options
        self._provider_options = provider_options
        self._hooks = hooks
        # A compiled model is the whole cache of its session.
        self._store = None if source.compiled is not None else store
        least = 0.0
        if self._compiled is None and store is None and may_keep(options):
            from ort_py.engine.session_cache import LEAST_SECONDS, open_store

            self._store = open_store(options)
            # A folder that the user names holds everything; the default one only holds what took long to make.
            least = LEAST_SECONDS if named_folder(options) is None else 0.0
        self._cache: SessionCache | None = None
        self._writing: PendingWrite | None = None
        self._forms: KeptForms | None = None
        self._around: tuple[list[str] | None] | None = None
        files: FileStore | None = source.compiled or self._store
        artifacts = None if files is None else ArtifactCache(files)
        self.compiler = RegionCompiler(options, provider_options, hooks, session_id, artifacts, least)

    def restore(
        self,
        source: GivenModel,
        providers: Iterable[tuple[ProviderRecord, IExecutionProvider]],
        contributions: Contributions,
        wishes: Sequence[Any],
        report: LoadReport,
    ) -> Restored | None:
        """The prepared model, None where it is not in the cache.

        Args:
            providers: Records and providers in use, in rank order.
            wishes: All else that decides how a model is prepared; with a repr that says all of it.
        """
        pairs, options = list(providers), self._options
        if self._compiled is None:
            added = additions_of(options)
            given = added.initializers or added.external_initializers or added.files
            found = None if given or options.optimized_model_filepath else self._key(source, pairs, wishes)
            if found is None or self._store is None or not self._store.usable:
                return None
            from ort_py.engine.session_cache import MODEL_CACHE_KEY, SessionCache

            always = entry_of(options, MODEL_CACHE_KEY) == "1"
            self._cache = SessionCache(self._store, found[1], found[0], options, always=always)
        with report.stage("restore") as notes:
            if self._cache is not None:
                restored = self._cache.restore(contributions, [provider for _, provider in pairs])
                notes.extend(["not in the cache"] if restored is None else restored.notes)
            else:
                from ort_py.engine.compiled_model import restore_compiled

                restored = restore_compiled(source, pairs, contributions, options, self._provider_options)
                notes.extend(["the compiled model does not fit"] if restored is None else restored.notes)
        if restored is not None:
            self._forms = restored.forms
            self.compiler.keys.update(restored.keys)
        return restored

    def expect_original(self, error: Exception) -> None:
        """Raise if what was restored cannot be used, and the session has nothing else to be made of.

        Raises:
            CompiledModelError: The model is a compiled one that does not contain the original.
        """
        if self._compiled is not None:
            from ort_py.engine.compiled_model import expect_original

            expect_original(self._compiled, self._options, [f"{type(error).__name__}: {error}"], error)

    def original(self, source: GivenModel) -> GivenModel:
        """The model that has to be prepared if nothing could be restored from a source.

        Raises:
            CompiledModelError: It is damaged.
        """
        if self._compiled is None:
            return source
        from ort_py.engine.compiled_model import original_of

        return original_of(self._compiled)

    def calibration(self, providers: Iterable[tuple[ProviderRecord, IExecutionProvider]], threads: int) -> Calibration:
        """Measurements of the providers on this machine."""
        if self._store is None:
            return Calibration()
        from ort_py.engine.calibration_store import read_calibration

        return read_calibration(self._store, providers, threads)

    def placement_key(
        self, source: GivenModel, providers: Iterable[tuple[ProviderRecord, IExecutionProvider]], wishes: Sequence[Any]
    ) -> str:
        """The key of a model's measured placement; ``""`` if it has none. The arguments are those of `restore`."""
        found = self._key(source, list(providers), ["placement", *wishes])
        return "" if found is None else found[1]

    def _key(
        self, source: GivenModel, pairs: Sequence[tuple[ProviderRecord, IExecutionProvider]], wishes: Sequence[Any]
    ) -> tuple[SourceFile, str] | None:
        """The model's file, and the key of what is kept about the model; None where nothing is kept."""
        if self._store is None:
            return None
        from ort_py.cache.file_contents import FileContents
        from ort_py.cache.model_source import SourceFile
        from ort_py.engine.session_cache import MODEL_CACHE_KEY, circumstances, provider_line

        wanted = entry_of(self._options, MODEL_CACHE_KEY)
        if wanted == "0":
            return None
        folder = external_folder(self._options, source)
        known = SourceFile.of(source, folder, FileContents(self._store), content=wanted == "1")
        if known is None:
            return None
        if self._around is None:  # two keys are made for each session, and those in one are part of the other
            self._around = (circumstances(self._options, pairs, self._hooks),)
        (around,) = self._around
        if around is None:
            return None
        given = self._provider_options
        lines = [provider_line(record, provider, given.get(provider.name, {})) for record, provider in pairs]
        return known, artifact_key([known.sketch, *around, *lines, repr(wishes)])

    def tuned(self, key: str, names: Collection[str]) -> TunedPlacement | None:
        """The measurement under a key from `placement_key`, if its providers have these names, or None."""
        return read_tuned(self._store, key, names) if key and self._store is not None else None

    def remember(self, key: str, title: str, tuned: TunedPlacement) -> bool:
        """Keep what was measured under a key from `placement_key`; returns whether it is kept."""
        return bool(key) and self._store is not None and write_tuned(self._store, key, title, tuned)

    def keep(self, model: Model, assignment: Assignment, report: LoadReport) -> None:
        """Let a prepared model be written, where that is wanted and was worth the time. Returns at once."""
        stages = [stage for stage in report.stages if stage.stage not in _NOT_PREPARATION]
        if self._cache is None or sum(stage.seconds for stage in stages) < self._cache.least_seconds:
            return
        notes = [f"{stage.stage}: {note}" for stage in stages for note in stage.notes]
        work = self._cache.writer(model, assignment, self.compiler.keys, notes)
        if work is not None:
            self._writing = process_queue().add(work)

    @property
    def problem(self) -> str:
        """Why the prepared model could not be written; ``""`` if nothing is known of that."""
        return "" if self._cache is None else self._cache.problem

    def keep_forms(self) -> None:
        """Let the packed forms be written that a restored session has made, before they go with it. Returns at once."""
        write = None if self._forms is None else self._forms.writer()
        if write is not None:
            process_queue().add(write)

    def settle(self) -> None:
        """Wait until no background work reads the model, which is about to change."""
        if self._writing is not None:
            self._writing.settle()
