"""The catalogue of providers, which are found, loaded and probed when this is first needed.

Comes after `entry_points`, `loading` and `probing`, before `selection`. One catalogue serves the process; it is
thread-safe, survives a fork, and never raises because of a plug-in: the record of the provider has the error.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from ort_py.contracts import ProviderFactory
from ort_py.discovery.entry_points import installed_record, or_blocked, scan_providers
from ort_py.discovery.loading import broken, describe_factory, load_provider
from ort_py.discovery.probing import probe
from ort_py.discovery.records import ProviderRecord, RecordState, ranked
from ort_py.errors import InvalidArgument, PluginError
from ort_py.hooks.entry_points import InstalledEntryPoint, Scan
from ort_py.hooks.guard import Raised, describe, guarded
from ort_py.hooks.manager import HookManager, default_hook_manager
from ort_py.hooks.switches import normalise_distribution
from ort_py.platform.forks import ProcessLock

# Where several entry points have one name: the one that owns it, else a conflict, and only if all are blocked that.
_PREFERENCE = (RecordState.INSTALLED, RecordState.CONFLICT, RecordState.YIELDED, RecordState.BLOCKED)
_BY_ADDRESS_ONLY = (RecordState.CONFLICT, RecordState.YIELDED)


class ProviderCatalog:
    """All providers that this process could use.

    Args:
        hooks: The manager that plug-ins are registered with; the process's where None.
        find: Finds the installed entry points; called once, when it is first needed.
    """

    def __init__(self, hooks: HookManager | None = None, find: Callable[[], Scan] = scan_providers) -> None:
        self._hooks = hooks or default_hook_manager()
        self._find = find
        self._found: Scan | None = None
        self._loaded: dict[InstalledEntryPoint, ProviderRecord] = {}
        self._loading: set[tuple[int, InstalledEntryPoint]] = set()
        self._registered: dict[str, ProviderRecord] = {}
        self._lock = ProcessLock()

    @property
    def hooks(self) -> HookManager:
        """The manager that knows the providers' plug-ins."""
        return self._hooks

    @property
    def problems(self) -> tuple[str, ...]:
        """Distributions whose metadata could not be read."""
        return self._scan().problems

    def installed(self) -> list[ProviderRecord]:
        """Records from metadata alone, by name, then distribution. Imports nothing and starts no thread."""
        with self._lock.held():
            entries = self._scan().entries
            records = [installed_record(entry, entries) for entry in entries]
            records.extend(or_blocked(record) for record in self._registered.values())
        return sorted(records, key=lambda record: (record.name, record.distribution))

    def records(self) -> list[ProviderRecord]:
        """Records of all providers in automatic order, loaded and probed except those blocked, yielded or in conflict.

        Raises:
            OptionError: ``ORT_PY_PROBE_TIMEOUT`` is malformed.
        """
        with self._lock.held():
            found = [self._record_of(entry) for entry in self._scan().entries]
            found.extend(self._record_of_registered(name) for name in list(self._registered))
        return ranked(found)

    def record(self, name: str) -> ProviderRecord | None:
        """The record of one provider, loaded and probed, or None if nothing installed has the name.

        Args:
            name: A provider's name, or ``distribution:Name``, which also reaches a provider whose name is in conflict.

        Raises:
            OptionError: ``ORT_PY_PROBE_TIMEOUT`` is malformed.
        """
        with self._lock.held():
            if name in self._registered:
                return self._record_of_registered(name)
            entries = self._scan().entries
            distribution, _, bare = name.rpartition(":")
            candidates = [
                entry
                for entry in entries
                if entry.name == bare
                and (
                    not distribution
                    or normalise_distribution(entry.distribution) == normalise_distribution(distribution)
                )
            ]
            if distribution and len(candidates) == 1:
                return self._record_of(candidates[0], addressed=True)
            candidates.sort(key=lambda entry: _PREFERENCE.index(installed_record(entry, entries).state))
            return self._record_of(candidates[0]) if candidates else None

    def register_provider(self, factory: ProviderFactory) -> ProviderRecord:
        """Add a provider that does not come from a distribution, for tests and notebooks.

        It lives until `unregister_provider` or `reset`.

        Returns:
            Its record, not probed yet.

        Raises:
            InvalidArgument: `factory` is not a `ProviderFactory`, or its name is taken.
            PluginError: The factory raised, or declares something of a wrong type.
        """
        if not isinstance(factory, ProviderFactory):
            raise InvalidArgument(
                f"{factory!r} is not a ProviderFactory.", fix="Pass an instance of a subclass of ProviderFactory."
            )
        described = guarded(partial(_describe, factory))
        if isinstance(described, Raised):
            raise PluginError(
                f"The factory {factory!r} cannot be registered.",
                why=describe(described.error),
                fix="Correct the member that raised; ProviderFactory's docstrings say what each must be.",
            ) from described.error
        with self._lock.held():
            taken = next((record for record in self.installed() if record.name == described.name), None)
            if taken is not None:
                raise InvalidArgument(
                    f"A provider called '{described.name}' already exists.",
                    why=taken.origin,
                    fix="Choose another name.",
                )
            self._registered[described.name] = described
        return described

    def unregister_provider(self, name: str) -> None:
        """Forget a provider that was registered. An unknown name is ignored. Sessions that have the provider keep
        it.
        """
        with self._lock.held():
            self._registered.pop(name, None)

    def reset(self) -> None:
        """Forget the registered, loaded, probed and installed providers. The next call searches again; imported modules
        stay imported.
        """
        with self._lock.held():
            for entry in self._loaded:
                self._hooks.unregister(self._plugin_name(entry))
            self._found = None
            self._loaded = {}
            self._registered = {}

    def _scan(self) -> Scan:
        with self._lock.held():
            if self._found is None:
                self._found = self._find()
            return self._found

    def _record_of(self, entry: InstalledEntryPoint, *, addressed: bool = False) -> ProviderRecord:
        before = installed_record(entry, self._scan().entries)
        if before.state is RecordState.BLOCKED or (before.state in _BY_ADDRESS_ONLY and not addressed):
            return before
        if entry not in self._loaded:
            being_loaded = (os.getpid(), entry)  # a fork may happen in the middle; the child must not wait forever
            if being_loaded in self._loading:
                return replace(before, reason="its plug-in asks for the provider while the plug-in is being loaded")
            self._loading.add(being_loaded)
            try:
                loaded = load_provider(entry, self._hooks, self._plugin_name(entry))
                self._loaded[entry] = probe(loaded) if loaded.factory is not None else loaded
            finally:
                self._loading.discard(being_loaded)
        record = self._loaded[entry]
        failure = self._hooks.failure(self._plugin_name(entry))
        if failure is not None and record.state is not RecordState.BROKEN:
            record = self._loaded[entry] = broken(record, str(failure), failure.error)
        if before.reason and record.usable and not record.reason:
            return replace(record, reason=before.reason)  # a remark about a rival that does not get the name
        return record

    def _record_of_registered(self, name: str) -> ProviderRecord:
        record = or_blocked(self._registered[name])
        if record.state is RecordState.INSTALLED and record.factory is not None:
            record = self._registered[name] = probe(record)
        return record

    def _plugin_name(self, entry: InstalledEntryPoint) -> str:
        rivals = [other for other in self._scan().entries if other.name == entry.name]
        return entry.name if len(rivals) == 1 else f"{entry.distribution}:{entry.name}"


_default = ProviderCatalog()


def default_catalog() -> ProviderCatalog:
    """The process's catalogue."""
    return _default


def _describe(factory: ProviderFactory) -> ProviderRecord:
    kind = type(factory)
    return describe_factory(ProviderRecord(factory.name, "", "", f"{kind.__module__}:{kind.__qualname__}"), factory)
