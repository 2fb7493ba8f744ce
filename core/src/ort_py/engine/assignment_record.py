"""Conversion of an assignment to plain data and back: with a cached graph, it is all that planning needs.

Comes after `cache.model_record`. Kernels are named, never stored: reading finds them again in this process's registry,
and refuses an assignment whose kernels are not the same any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ort_py.cache.constants import NotStorableError
from ort_py.cache.model_record import ModelReader, ModelWriter
from ort_py.contracts import IExecutionProvider, KernelDef, NodeSpec
from ort_py.graph.ir import Graph, Node, walk
from ort_py.graph.view import ModelGraphView
from ort_py.kernels.registry import KernelRegistry
from ort_py.partition.assignment import Assignment, NodeAssignment, Region, RunnerKind
from ort_py.partition.checked_regions import gate_of

_RUNNERS = list(RunnerKind)


def assignment_record(assignment: Assignment, written: ModelWriter, keys: Mapping[Region, str]) -> dict[str, Any]:
    """An assignment as JSON holds it.

    Args:
        assignment: The assignment of a model that `written` has written.
        written: Provides the numbers of nodes and graphs.

    Raises:
        NotStorableError: A provider runs a node that is not in the model.
    """
    kernels: dict[tuple[Any, ...], int] = {}
    rows: dict[tuple[Any, ...], int] = {}
    regions: dict[Region, int] = {}
    region_rows = []
    for graph, mine in assignment.regions.items():
        for region in mine:
            regions[region] = len(regions)
            numbers = [written.nodes[node] for node in region.nodes]
            gate = assignment.gates[region].record()
            region_rows.append(
                [written.graphs[graph], region.provider, region.name, numbers, keys.get(region, ""), gate]
            )
    order, column = [], []
    for node, assigned in assignment:
        if node not in written.nodes:
            raise NotStorableError(f"the node '{node.name}' is not in the model")
        kernel = -1
        if assigned.kernel is not None:
            kernel = kernels.setdefault(_identity(assigned.kernel), len(kernels))
        inside = -1 if assigned.region is None else regions[assigned.region]
        runner = _RUNNERS.index(assigned.runner)
        row = (assigned.provider, runner, kernel, inside, assigned.reason, assigned.refusals)
        order.append(written.nodes[node])
        column.append(rows.setdefault(row, len(rows)))
    return {
        "kernels": list(kernels),
        "rows": list(rows),
        "regions": region_rows,
        "order": [] if order == list(range(len(order))) else order,
        "assigned": column,
        "graphs": [written.graphs[graph] for graph in assignment.regions],
    }


def _identity(kernel: KernelDef) -> tuple[Any, ...]:
    types = ";".join(f"{name}:{','.join(sorted(allowed))}" for name, allowed in sorted(kernel.types.items()))
    return kernel.op_type, kernel.domain, kernel.since, kernel.last, kernel.implementation, types


def read_assignment(
    record: Mapping[str, Any], read: ModelReader, kernels: KernelRegistry, providers: Sequence[IExecutionProvider]
) -> tuple[Assignment, dict[Region, str]]:
    """The assignment of a restored model, and the keys of its regions' artifacts.

    Raises:
        ValueError: A kernel or a provider has changed.
        cache.model_record.BROKEN: The record does not fit together.
    """
    result = Assignment()
    keys: dict[Region, str] = {}
    regions: list[Region] = []
    result.regions = {read.graphs[number]: [] for number in record["graphs"]}
    for graph, provider, name, numbers, key, gate in record["regions"]:
        region = Region(provider, tuple(read.nodes[number] for number in numbers), name)
        regions.append(region)
        result.gates[region] = gate_of(region, gate)
        result.regions[read.graphs[graph]].append(region)
        if key:
            keys[region] = key
    rows = [(*row[:5], tuple((asked, why) for asked, why in row[5])) for row in record["rows"]]
    known = {provider.name for provider in providers}
    missing = {row[0] for row in rows if _RUNNERS[row[1]] is not RunnerKind.CONTROL_FLOW} - known
    if missing:
        raise ValueError(f"it needs {', '.join(sorted(missing))}, which this session does not have")
    result.specs = _specs(read.graphs[0], result.regions)
    identities = [tuple(kernel) for kernel in record["kernels"]]
    made: list[NodeAssignment | None] = [None] * len(rows)
    order = record["order"] or range(len(record["assigned"]))
    for number, index in zip(order, record["assigned"], strict=True):
        node = read.nodes[number]
        found = made[index]
        if found is None:
            provider, runner, kernel, region, reason, refusals = rows[index]
            found = made[index] = NodeAssignment(
                provider,
                _RUNNERS[runner],
                None if kernel < 0 else _kernel(kernels, provider, result.specs[node], identities[kernel]),
                None if region < 0 else regions[region],
                reason,
                refusals,
            )
        result.nodes[node] = found
    return result, keys


def _kernel(kernels: KernelRegistry, provider: str, node: NodeSpec, identity: tuple[Any, ...]) -> KernelDef:
    found = kernels.find(provider, node).kernel
    if found is None or _identity(found) != identity:
        raise ValueError(f"{provider} now runs {node.op_type} with another kernel")
    return found


def _specs(main: Graph, partitioned: Mapping[Graph, object]) -> dict[Node, NodeSpec]:
    """Records of the nodes as the providers saw them: of every graph that was partitioned."""
    specs: dict[Node, NodeSpec] = {}
    for graph in walk(main):
        if graph in partitioned:
            specs.update(zip(graph.nodes, ModelGraphView(graph).nodes, strict=True))
    return specs
