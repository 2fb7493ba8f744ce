"""All kernels of a session's providers, by (provider, domain, operator).

A provider's own kernels come first and may not conflict; kernels that plug-ins add to another's provider fill gaps, and
replace only where the session allows it. A provider's catalogue is asked for an operator when it is first met. A kernel
that does not fit a node is refused with every reason.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from ort_py.contracts import KernelCatalog, KernelDef, KernelLookup, KernelMatch, NodeSpec
from ort_py.errors import KernelConflictError, operator_title
from ort_py.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Registration:
    """A kernel and who brought it: a distribution or plug-in name."""

    kernel: KernelDef
    source: str

    def __str__(self) -> str:
        implementation = f" ({self.kernel.implementation})" if self.kernel.implementation else ""
        return f"{self.kernel}{implementation} from {self.source}"


class KernelRegistry:
    """Kernels by provider. Filled while a session is created; later it grows by what catalogues are asked for."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str, str], list[Registration]] = {}
        self._catalogs: dict[str, list[tuple[KernelCatalog, str]]] = defaultdict(list)
        self._skipped: list[str] = []
        self._matches: dict[tuple[object, ...], KernelMatch] = {}

    @property
    def skipped(self) -> tuple[str, ...]:
        """Contributed kernels that were not taken because the provider has its own, as lines for the report."""
        return tuple(self._skipped)

    def register(self, provider: str, kernels: Iterable[KernelDef] | KernelCatalog, source: str) -> None:
        """Add a provider's own kernels.

        Raises:
            KernelConflictError: Two kernels claim the same versions and types; names both sides and the overlap. For
                kernels of a catalogue it is raised when their operator is first looked for.
        """
        if isinstance(kernels, KernelCatalog):
            self._catalogs[provider].append((kernels, source))
            return
        for definition in kernels:
            self._add(provider, self._list(provider, definition.domain, definition.op_type), definition, source)

    def contribute(self, provider: str, kernels: Iterable[KernelDef], source: str, *, override: bool = False) -> None:
        """Add a plug-in's kernels to a provider: only where it has none, unless `override`."""
        for definition in kernels:
            entry = Registration(definition, source)
            entries = self._list(provider, definition.domain, definition.op_type)
            rivals = [other for other in entries if overlap(other.kernel, definition) is not None]
            if rivals and not override:
                self._skipped.append(f"{entry}: {provider} has {', '.join(str(rival) for rival in rivals)}")
                continue
            for rival in rivals:
                entries.remove(rival)
            self._matches.clear()
            entries.append(entry)

    def find(self, provider: str, node: NodeSpec) -> KernelMatch:
        # The answer depends on nothing else of the node; large models repeat few of these.
        key = (provider, node.domain, node.op_type, node.since_version, *node.type_bindings.items())
        found = self._matches.get(key)
        if found is None:
            kernels = [entry.kernel for entry in self._list(provider, node.domain, node.op_type)]
            found = match_kernel(kernels, node)
            if all(one.refuses is None for one in kernels):  # else attributes decide too
                self._matches[key] = found
        return found

    def lookup(self, provider: str) -> KernelLookup:
        """The contract's look-up, fixed to one provider."""
        return _ProviderLookup(self, provider)

    def _list(self, provider: str, domain: str, op_type: str) -> list[Registration]:
        key = (provider, domain, op_type)
        entries = self._entries.get(key)
        if entries is None:
            entries = []
            for catalog, source in self._catalogs.get(provider, ()):
                for definition in catalog.kernels_of(domain, op_type):
                    self._add(provider, entries, definition, source)
            self._entries[key] = entries  # whole, so that another thread never sees a part
        return entries

    def _add(self, provider: str, entries: list[Registration], definition: KernelDef, source: str) -> None:
        entry = Registration(definition, source)
        for rival in entries:
            shared = overlap(rival.kernel, definition)
            if shared is not None:
                raise KernelConflictError(
                    f"Two kernels of {provider} claim {definition.op_type} {shared}.",
                    why=(str(rival), str(entry)),
                    fix="Narrow the versions or types of one of them.",
                )
        self._matches.clear()
        entries.append(entry)


class _ProviderLookup(KernelLookup):
    def __init__(self, registry: KernelRegistry, provider: str) -> None:
        self._registry = registry
        self._provider = provider

    def find(self, node: NodeSpec) -> KernelMatch:
        return self._registry.find(self._provider, node)


def refusal_of(definition: KernelDef, node: NodeSpec) -> str | None:
    """Explain why a kernel of the node's operator does not fit it; None if it fits."""
    reasons: list[str] = []
    if not definition.since <= node.since_version <= definition.last:
        reasons.append(f"the node needs version {node.since_version}")
    for variable, allowed in definition.types.items():
        bound = node.type_bindings.get(variable)
        if bound is not None and bound not in allowed:
            reasons.append(f"{variable} is {bound}")
    if not reasons and definition.refuses is not None:
        try:
            reason = definition.refuses(node)
        except Exception as error:  # a plug-in's code: the node is left to others, with the reason
            reason = f"its function `refuses` raised {type(error).__name__}: {error}"
        reasons += [reason] if reason else []
    return f"kernel {definition}: {', '.join(reasons)}" if reasons else None


def match_kernel(candidates: Iterable[KernelDef], node: NodeSpec) -> KernelMatch:
    """The first candidate that fits, else every refusal. Candidates never overlap, so order does not matter."""
    refusals: list[str] = []
    for definition in candidates:
        refusal = refusal_of(definition, node)
        if refusal is None:
            return KernelMatch(definition)
        refusals.append(refusal)
    if not refusals:
        refusals.append(f"no kernel for {operator_title(node.op_type, node.domain)}")
    return KernelMatch(None, tuple(refusals))


def overlap(left: KernelDef, right: KernelDef) -> str | None:
    """Describe in words the nodes that two kernels of one operator both claim; None if no node could match both."""
    first, last = max(left.since, right.since), min(left.last, right.last)
    if first > last:
        return None
    shared: list[str] = []
    for variable in sorted(left.types.keys() & right.types.keys()):
        both = left.types[variable] & right.types[variable]
        if not both:
            return None
        shared.append(f"{variable}: {', '.join(sorted(both))}")
    versions = f"version {first}" if first == last else f"versions {first} to {last}"
    return f"{versions} for {'; '.join(shared) or 'every type'}"
