"""Regions that can be checked: the gate of each, and the nodes that no gate can check.

Comes after `partitioner`, before regions are compiled. A node whose constraints no input can satisfy is taken out of
regions, so that a kernel refuses it in its own words. So is a node that cannot be checked before it runs, unless its
provider checks the inputs of its regions itself, and a node whose results may unpredictably be empty, if its provider
does not compute empty values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any

from ort_py.constraints import Gate
from ort_py.contracts import IExecutionProvider
from ort_py.graph.ir import Node
from ort_py.graph.view import SubsetView
from ort_py.partition.assignment import Region

Barred = MutableMapping[Node, dict[str, str]]
"""Nodes that may not be in regions: for each, providers by name with the reason."""


def gate_of(region: Region, record: Mapping[str, Any] | None = None) -> Gate:
    """The gate of a region; `record` as of `Gate`."""
    return Gate(SubsetView(region.graph, region.nodes, region.records, border=region.border), record)


def gates_of(regions: Iterable[Region]) -> dict[Region, Gate]:
    return {region: gate_of(region) for region in regions}


def bar_unchecked(
    gates: Mapping[Region, Gate], providers: Iterable[IExecutionProvider], barred: Barred, *, strict: bool
) -> bool:
    """Note the nodes that have to leave their regions.

    Args:
        strict: Whether no provider's own checks are relied on.

    Returns:
        Whether there are any.
    """
    by_name = {provider.name: provider for provider in providers}
    found = False
    for region, gate in gates.items():
        provider = by_name[region.provider]
        trusted = provider.checks_inputs and not strict
        left = gate.violations if trusted else (*gate.violations, *gate.unchecked)
        reasons = [(finding.node, f"it cannot be checked before a region runs it: {finding.text}") for finding in left]
        if not provider.computes_empty_values:
            reasons += _perhaps_empty(region, gate, provider)
        for number, reason in reasons:
            known = barred.setdefault(region.nodes[number], {})
            if region.provider not in known:
                known[region.provider] = reason
                found = True
    return found


def _perhaps_empty(region: Region, gate: Gate, provider: IExecutionProvider) -> list[tuple[int, str]]:
    """Nodes that may make or receive empty values which cannot be predicted before a run: number and reason."""
    if not gate.answers_on(provider.device):
        reason = "its provider does not compute empty values, and only a run shows whether there are any"
        return [(number, reason) for number in range(len(region.nodes))]
    return [
        (finding.node, f"its provider computes no empty values, and {finding.text}: it may be 0")
        for finding in gate.unsized
    ]
