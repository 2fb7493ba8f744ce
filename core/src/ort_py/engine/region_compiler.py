"""Compiling the regions of a session, or restoring them from the artifact cache.

Comes between `partition` and `planning`; `assembly` calls it for each region. Observers hear of every region.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ort_py.cache.artifacts import artifact_key
from ort_py.contracts import ArtifactValidity
from ort_py.graph.view import SubsetView
from ort_py.hooks import CompileEvent, DeclinedEvent
from ort_py.logs import lazy_logger
from ort_py.options import calculates_fast

if TYPE_CHECKING:
    from ort_py.cache.artifacts import ArtifactCache
    from ort_py.contracts import CompiledRegion, IExecutionProvider, PackedForms, RegionView
    from ort_py.hooks.manager import HookManager
    from ort_py.options import SessionOptions
    from ort_py.partition.assignment import Region
    from ort_py.planning.stand_in import Declined

_logger = lazy_logger("ort_py.session")


class RegionCompiler:
    """Compiles for one session.

    Args:
        options: The session's options: precision, fast arithmetic and cache folder.
        provider_options: Options of each provider, as they are filled in; part of an artifact's key.
        cache: The store of artifacts, None for no store.
        least_seconds: Regions that were compiled faster are not kept.

    Attributes:
        keys: Key of each region's artifact, as far as known. A restored session knows them already: to find
            them out is to write each region as a model.
    """

    def __init__(
        self,
        options: SessionOptions,
        provider_options: Mapping[str, Mapping[str, str]],
        hooks: HookManager,
        session_id: str,
        cache: ArtifactCache | None = None,
        least_seconds: float = 0.0,
    ) -> None:
        self.keys: dict[Region, str] = {}
        # The settings that tell the provider how to calculate.
        self._arithmetic: str = options.precision + (" fast" if calculates_fast(options) else "")
        self._provider_options = provider_options
        self._hooks = hooks
        self._session_id = session_id
        self._cache = cache
        self._least_seconds = least_seconds

    def compile(
        self, provider: IExecutionProvider, region: Region, forms: PackedForms, host: frozenset[str] = frozenset()
    ) -> CompiledRegion:
        """A region, restored where a valid artifact is kept, else compiled and kept.

        Args:
            forms: Holds the forms that are made of constants on the provider's device.
            host: Names of its inputs whose values are on the host when it runs.
        """
        start = time.perf_counter()
        view = SubsetView(region.graph, region.nodes, region.records, forms=forms, host=host, border=region.border)
        key = self._key(provider, region, view) if self._cache is not None else ""
        compiled = self._restored(provider, key)
        from_cache = compiled is not None
        if compiled is None:
            began = time.perf_counter()
            compiled = provider.compile(view)
            if time.perf_counter() - began >= self._least_seconds:
                self._keep(compiled, key)
        self._hooks.observe(
            "ort_py_region_compiled",
            CompileEvent(self._session_id, provider.name, len(region.nodes), time.perf_counter() - start, from_cache),
        )
        return compiled

    def tell_declined(self, declined: Declined) -> None:
        """Tell observers of a run that a region left to other kernels."""
        one = declined
        event = DeclinedEvent(
            self._session_id, one.provider, one.region, one.node, one.reason, one.replacement, one.asked
        )
        self._hooks.observe("ort_py_run_declined", event)

    def _key(self, provider: IExecutionProvider, region: Region, view: RegionView) -> str:
        found = self.keys.get(region)
        if found is None:
            options = sorted(self._provider_options.get(provider.name, {}).items())
            parts: list[str | bytes] = [provider.name, repr(options), self._arithmetic, view.to_model("reference")]
            # Large constants are identified by what the store knows about them, without reading, copying or hashing
            # them.
            weights = [(value.name, view.weight(value.name)) for value in view.initializers]
            parts.append(repr(sorted(view.host_inputs)))
            parts += [f"{name} {weight.key}" for name, weight in weights if weight is not None]
            found = self.keys[region] = artifact_key(parts)
        return found

    def _restored(self, provider: IExecutionProvider, key: str) -> CompiledRegion | None:
        artifact = self._cache.get(key) if self._cache is not None else None
        if artifact is None:
            return None
        try:
            if provider.validate(artifact) is ArtifactValidity.VALID:
                return provider.restore(artifact)
        except Exception:  # a plug-in's code; what cannot be restored is compiled again, never a failed session
            _logger.warning(
                "%s could not restore a cached artifact, so the region is compiled again", provider.name, exc_info=True
            )
        return None

    def _keep(self, compiled: CompiledRegion, key: str) -> None:
        artifact = compiled.serialize() if self._cache is not None else None
        if self._cache is not None and artifact is not None:
            self._cache.put(key, artifact)
