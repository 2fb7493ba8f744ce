"""Regions that can be checked: the gate of each, and the nodes that no gate can answer for.

Comes after `partitioner`, before regions are compiled. A node whose constraints no input can satisfy is taken out of
regions, so that a kernel refuses it with its own words. So is a node that cannot be checked before it runs, unless its
provider checks what reaches its regions itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping

from ort_py.constraints import Gate
from ort_py.contracts import IExecutionProvider
from ort_py.graph.ir import Node
from ort_py.graph.view import SubsetView
from ort_py.partition.assignment import Region

__all__ = ["Barred", "bar_unchecked", "gates_of"]

Barred = MutableMapping[Node, dict[str, str]]
"""Nodes that may not be in regions: for each, providers by name with the reason."""


def gates_of(regions: Iterable[Region]) -> dict[Region, Gate]:
    """The gate of each region."""
    return {region: Gate(SubsetView(region.nodes[0].graph, region.nodes)) for region in regions}


def bar_unchecked(
    gates: Mapping[Region, Gate], providers: Iterable[IExecutionProvider], barred: Barred, *, strict: bool
) -> bool:
    """Note the nodes that have to leave their regions.

    Args:
        gates: The gate of each region.
        providers: The session's providers.
        barred: Where they are noted.
        strict: Whether no provider's own checks are relied on.

    Returns:
        Whether there are any.
    """
    trusted = set() if strict else {provider.name for provider in providers if provider.checks_inputs}
    found = False
    for region, gate in gates.items():
        left = gate.violations if region.provider in trusted else (*gate.violations, *gate.unchecked)
        for finding in left:
            reasons = barred.setdefault(region.nodes[finding.node], {})
            if region.provider not in reasons:
                reasons[region.provider] = f"it cannot be checked before a region runs it: {finding.text}"
                found = True
    return found
