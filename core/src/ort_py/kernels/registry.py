"""All kernels of a session's providers, by (provider, domain, operator).

A provider's own kernels come first and may not conflict; kernels that plug-ins add to another's provider fill gaps,
and replace only where the session allows it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from ort_py.contracts import KernelDef, KernelLookup, KernelMatch, NodeSpec
from ort_py.errors import KernelConflictError
from ort_py.kernels.matching import match_kernel, overlap

__all__ = ["KernelRegistry", "Registration"]


@dataclass(frozen=True, slots=True)
class Registration:
    """A kernel and who brought it: a distribution or plug-in name."""

    kernel: KernelDef
    source: str

    def __str__(self) -> str:
        implementation = f" ({self.kernel.implementation})" if self.kernel.implementation else ""
        return f"{self.kernel}{implementation} from {self.source}"


class KernelRegistry:
    """Kernels by provider. Filled while a session is created, read-only afterwards."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str, str], list[Registration]] = defaultdict(list)
        self._skipped: list[str] = []
        self._matches: dict[tuple[object, ...], KernelMatch] = {}

    @property
    def skipped(self) -> tuple[str, ...]:
        """Contributed kernels that were not taken because the provider has its own, as lines for the report."""
        return tuple(self._skipped)

    def register(self, provider: str, kernels: Iterable[KernelDef], source: str) -> None:
        """Add a provider's own kernels.

        Raises:
            KernelConflictError: Two kernels claim the same versions and types; names both sides and the overlap.
        """
        for definition in kernels:
            entry = Registration(definition, source)
            rival, shared = self._rival(provider, definition)
            if rival is not None:
                raise KernelConflictError(
                    f"Two kernels of {provider} claim {definition.op_type} {shared}.",
                    why=(str(rival), str(entry)),
                    fix="Narrow the versions or types of one of them.",
                )
            self._list(provider, definition).append(entry)

    def contribute(self, provider: str, kernels: Iterable[KernelDef], source: str, *, override: bool = False) -> None:
        """Add a plug-in's kernels to a provider: only where it has none, unless `override`."""
        for definition in kernels:
            entry = Registration(definition, source)
            entries = self._list(provider, definition)
            rivals = [other for other in entries if overlap(other.kernel, definition) is not None]
            if rivals and not override:
                self._skipped.append(f"{entry}: {provider} has {', '.join(str(rival) for rival in rivals)}")
                continue
            for rival in rivals:
                entries.remove(rival)
            entries.append(entry)

    def find(self, provider: str, node: NodeSpec) -> KernelMatch:
        """A provider's kernel for a node, or all refusals."""
        # The answer depends on nothing else of the node; large models repeat few of these.
        key = (provider, node.domain, node.op_type, node.since_version, *node.type_bindings.items())
        found = self._matches.get(key)
        if found is None:
            entries = self._entries.get((provider, node.domain, node.op_type), ())
            found = self._matches[key] = match_kernel([entry.kernel for entry in entries], node)
        return found

    def lookup(self, provider: str) -> KernelLookup:
        """The contract's look-up, fixed to one provider."""
        return _ProviderLookup(self, provider)

    def _list(self, provider: str, definition: KernelDef) -> list[Registration]:
        self._matches.clear()
        return self._entries[(provider, definition.domain, definition.op_type)]

    def _rival(self, provider: str, definition: KernelDef) -> tuple[Registration | None, str]:
        for other in self._list(provider, definition):
            shared = overlap(other.kernel, definition)
            if shared is not None:
                return other, shared
        return None, ""


class _ProviderLookup(KernelLookup):
    def __init__(self, registry: KernelRegistry, provider: str) -> None:
        self._registry = registry
        self._provider = provider

    def find(self, node: NodeSpec) -> KernelMatch:
        return self._registry.find(self._provider, node)
