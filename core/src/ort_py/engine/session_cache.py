"""Prepared models in the cache: the result of a session's preparation, under a key of everything it depends on.

Between `engine`, which asks before it loads a model and tells after it has planned one, and the rooms of `cache`
and `graph`. Kernels and compiled regions are never stored here: code is bound again, regions come from their providers'
artifacts, which share the folder. A model is found by a sketch of its content and compared by the digest of all of it;
that of a file which was seen before is known by the file's identity, so that a hit reads none of it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ort_py.cache.artifacts import artifact_key
from ort_py.cache.circumstances import machine, package_of, package_stamp, versions
from ort_py.cache.constants import NotStorableError
from ort_py.cache.format import description_of
from ort_py.cache.kept_forms import KeptForms
from ort_py.cache.location import FOLDER_VARIABLE, SIZE_VARIABLE, cache_bytes, cache_folder
from ort_py.cache.model_record import BROKEN
from ort_py.cache.model_source import ExternalReader, SourceFile, external_digest, external_name
from ort_py.cache.store import CacheStore
from ort_py.contracts import IExecutionProvider
from ort_py.discovery import ProviderRecord
from ort_py.discovery.environment import compat_mode
from ort_py.engine.contributions import Contributions
from ort_py.engine.prepared_model import KIND, PreparedFile, entry_of_model, head_of_model, prepared_file
from ort_py.engine.tuned_placement import PLACEMENT_KEY
from ort_py.errors import OrtPyError
from ort_py.files import FileIdentity
from ort_py.graph.ir import Model
from ort_py.graph.weights.weight_store import WeightStore
from ort_py.graph.weights.weights import MappedFile, file_prefix
from ort_py.hooks.manager import HookManager
from ort_py.lazy_dataclass import dataclass
from ort_py.logs import lazy_logger
from ort_py.options import SessionOptions, additions_of, entries_of, specs_of, values_of
from ort_py.options.config_entries import effect_of
from ort_py.options.spec import Effect
from ort_py.partition.assignment import Assignment, Region

_logger = lazy_logger("ort_py.cache")

MODEL_CACHE_KEY = "session.model_cache"
"""Config entry: ``"0"`` keeps no prepared model, ``"1"`` keeps one however quickly it was prepared, and also one that
was given as bytes, which is written to disk for no other reason."""

LEAST_SECONDS = 0.015
"""Models that are prepared faster are not written to the cache.

The time includes what preparing imports, about 20 ms in a process that prepares its first model, because a process that
restores the model does not import it. The bound therefore only excludes small models of a process that prepares many.
"""

_FILES = "files"

_OF_A_PROGRAM = (Effect.PROGRAM, Effect.MACHINE)
"""Effects of the options that are a part of a key."""


def open_store(options: SessionOptions) -> CacheStore | None:
    """The folder that the options and the environment name; None where they want no cache.

    Raises:
        OptionError: The environment's size of the cache is none.
    """
    folder = cache_folder(os.fspath(options.cache_dir))
    return None if folder is None else CacheStore(folder, cache_bytes())


@dataclass(frozen=True, slots=True)
class Restored:
    """The content that the cache had.

    Attributes:
        notes: Lines about its preparation.
    """

    model: Model
    assignment: Assignment
    keys: Mapping[Region, str]
    notes: Sequence[str]
    forms: KeptForms


def circumstances(
    options: SessionOptions, pairs: Sequence[tuple[ProviderRecord, IExecutionProvider]], hooks: HookManager
) -> list[str] | None:
    """Everything that decides how any model is prepared, but the order of providers, as parts of a key.

    Returns:
        None where a package whose code decides has no file that could change.
    """
    stamps = _stamps(pairs, hooks)
    if stamps is None:
        return None
    effects = {spec.name: spec.effect for spec in specs_of(SessionOptions)}
    settings = {name: value for name, value in values_of(options).items() if effects[name] in _OF_A_PROGRAM}
    entries = entries_of(options)
    entries.pop(PLACEMENT_KEY, None)  # the names it gives are in the key of the placement that was chosen
    added = additions_of(options)
    return [
        machine(),
        *stamps,
        repr(sorted((name, repr(value)) for name, value in settings.items())),
        repr(sorted((key, value) for key, value in entries.items() if effect_of(key) in _OF_A_PROGRAM)),
        repr(sorted(added.dimensions.items())),
        repr(sorted(added.denotations.items())),
        repr(compat_mode()),
        repr(_environment()),
    ]


class SessionCache:
    """The prepared model of one session, under its key.

    Args:
        key: Key of this session's model with its options, providers and machine.
        source: The model's file and those beside it.
        always: Keep it however quickly it was prepared.
    """

    def __init__(
        self, store: CacheStore, key: str, source: SourceFile, options: SessionOptions, *, always: bool
    ) -> None:
        self._store = store
        self._key = key
        self._source = source
        self._limits = options.limits
        self.least_seconds = 0.0 if always else LEAST_SECONDS
        self.problem = ""

    def restore(self, contributions: Contributions, providers: Sequence[IExecutionProvider]) -> Restored | None:
        """The entry, None where there is none or it does not fit; a damaged one is removed."""
        key = self._key
        try:
            external = ExternalReader(self._source, self._limits, self._locations())
            key = self._key_with(external.sketches)
            file = prepared_file(self._store, key)
            if file is None:
                return None
            found = PreparedFile(file)
            if not self._source.has_content(found.head["fingerprint"]):
                return None
            digests = external.expect(found.files)
            # The keys of what leaves this machine must not be those of constants which this process has in memory.
            weights = WeightStore() if self._store.self_contained else None
            read = found.read(contributions, providers, external.open, self._source.identity, weights)
            read.model.source = self._source.path
            read.model.external_files = external.opened
        except OrtPyError as error:  # a file of external data is gone, is another one, or lies outside
            _logger.info("the cached model %s is not used: %s", self._key, error)
            return None
        except BROKEN as error:
            _logger.info("the cached model %s does not fit: %s: %s", key, type(error).__name__, error)
            self._store.discard(key, KIND)
            return None
        names = {file_prefix(identity): f"file {digest}:" for identity, digest in digests.items()}
        shipped = self._store.self_contained
        forms = KeptForms(self._store, key, found.head["title"], repr(found.identity), names, any_size=shipped)
        return Restored(read.model, read.assignment, read.keys, found.head["notes"], forms)

    def _locations(self) -> list[str]:
        """The names of the model's files of external data, which are known once an entry was written."""
        content = self._store.read(self._key, _FILES)
        if content is None:
            return []
        try:
            return [str(location) for location in json.loads(description_of(content)[0])["files"]]
        except (ValueError, KeyError, TypeError):
            self._store.discard(self._key, _FILES)
            return []

    def _key_with(self, sketches: Sequence[str]) -> str:
        """The key of the entry: models that differ only in their external data have an entry each."""
        return artifact_key([self._key, *sketches]) if sketches else self._key

    def writer(
        self, model: Model, assignment: Assignment, keys: Mapping[Region, str], notes: Sequence[str]
    ) -> Callable[[], None] | None:
        """Return a function that writes an entry in the background, or None if the model's files have changed.

        Args:
            model: The planned model. It must not change until the function was called.
        """
        if not self._source.unchanged:
            return None
        return partial(self._write, model, assignment, dict(keys), head_of_model(model, assignment, notes))

    def _write(self, model: Model, assignment: Assignment, keys: Mapping[Region, str], head: Mapping[str, Any]) -> None:
        start = time.perf_counter()
        files: dict[str, tuple[str, FileIdentity]] = {}

        def note(path: str, identity: FileIdentity) -> str:
            name = external_name(path, identity, self._source.folder)
            if name not in files:
                files[name] = external_digest(self._source.found(path), identity, self._source.contents), identity
            return name

        own = self._store.self_contained
        try:
            for path, identity in () if own else model.external_files:  # also of constants that were folded
                note(path, identity)
            external = None if own else _location(note)
            entry = entry_of_model(model, assignment, keys, head, external, files)
            if not self._source.unchanged:
                raise NotStorableError("its file was written since then")
            self._source.note(str(model.fingerprint))
            key = self._key
            if files:
                key = self._key_with(ExternalReader(self._source, self._limits, list(files)).sketches)
                about = {"title": f"external data of {head['title']}", "files": list(files)}
                self._store.put(self._key, _FILES, json.dumps(about).encode())
        except (NotStorableError, OrtPyError) as error:  # a constant's file may have changed meanwhile
            self.problem = str(error)
            _logger.info("the model is not cached: %s", error)
            return
        if self._store.put(key, KIND, entry.description, entry.blocks, entry.size):
            seconds = time.perf_counter() - start
            _logger.debug("the prepared model was cached as %s in %.0f ms", key, seconds * 1e3)


def _location(note: Callable[[str, FileIdentity], str]) -> Callable[[MappedFile], str]:
    return lambda file: note(file.path, file.identity)


def provider_line(record: ProviderRecord, provider: IExecutionProvider, options: Mapping[str, str]) -> str:
    """Everything that identifies a provider with its options, as a part of a key."""
    kind = type(provider)
    devices = [str(device) for device in (provider.device, *record.devices)]
    where = f"{kind.__module__}:{kind.__qualname__}"
    return repr((provider.name, record.address, record.version, where, devices, sorted(options.items())))


def _stamps(pairs: Sequence[tuple[ProviderRecord, IExecutionProvider]], hooks: HookManager) -> list[str] | None:
    """Versions and files of all packages whose code decides; None where one of them has no file."""
    modules = {"ort_py", *hooks.modules()}
    for _, provider in pairs:
        modules.update(kind.__module__ for kind in type(provider).__mro__ if kind.__module__ != "builtins")
        modules.add(type(provider.kernel_registry()).__module__)
    packages = sorted({package_of(module) for module in modules} - {"abc", "builtins", "typing"})
    stamps = [package_stamp(package) for package in packages]
    if None in stamps:
        return None
    distributions = {record.distribution for record, _ in pairs if record.distribution}
    found = versions({"ort-py-core", "numpy", "onnx", "ml-dtypes", *distributions})
    return [*found, *(f"{package}:{stamp}" for package, stamp in zip(packages, stamps, strict=True))]


def _environment() -> list[tuple[str, str]]:
    """Settings of ort-py and its plug-ins by environment variables, which anything may depend on."""
    own = (FOLDER_VARIABLE, SIZE_VARIABLE)
    return sorted((name, value) for name, value in os.environ.items() if name.startswith("ORT_PY_") and name not in own)
