"""Ask each provider in rank order, make regions convex, keep what pays, give the rest to the next.

Control flow stays with the core unless a provider claims the node whole; its bodies are partitioned like any graph.
Nodes nobody takes are returned with every refusal: the caller may expand them to their function body and ask again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ort_py.contracts import Capability, Claim, ClaimKind, GraphView, IExecutionProvider
from ort_py.graph.ir import Graph, walk
from ort_py.graph.view import ModelGraphView
from ort_py.kernels.registry import KernelRegistry
from ort_py.partition.assignment import CORE, Assignment, NodeAssignment, Region, Runner
from ort_py.partition.convex import ContractedGraph
from ort_py.partition.cost_model import CostModel, Island

__all__ = ["CONTROL_FLOW", "connected", "partition"]

CONTROL_FLOW = frozenset({"If", "Loop", "Scan", "SequenceMap"})
"""Operators of ``ai.onnx`` that the core itself steps through."""

OnProviderError = Callable[[str, Exception], None]


def partition(
    graph: Graph,
    providers: Sequence[IExecutionProvider],
    kernels: KernelRegistry,
    cost_model: CostModel,
    on_provider_error: OnProviderError,
) -> Assignment:
    """Assign every node of a graph and of the graphs nested in it.

    Args:
        graph: The main graph, validated and typed.
        providers: In rank order; each later one completes what the earlier left.
        kernels: Their kernels.
        cost_model: Decides whether an island pays.
        on_provider_error: Told about a provider whose `get_capability` raised; it gets no node of that graph.
    """
    result = Assignment()
    whole: set[Graph] = set()
    for current in walk(graph):
        if current in whole:
            continue  # inside a node that a provider runs whole
        _partition_one(_Work(current, providers, kernels, cost_model, on_provider_error, result))
        for node in current.nodes:
            assigned = result.nodes.get(node)
            if assigned is None or not node.subgraphs:
                continue
            planned = assigned.planned_graphs(node)
            for nested in node.subgraphs:
                if nested not in planned:
                    whole.update(walk(nested))
    return result


@dataclass(slots=True)
class _Work:
    graph: Graph
    providers: Sequence[IExecutionProvider]
    kernels: KernelRegistry
    cost_model: CostModel
    on_provider_error: OnProviderError
    result: Assignment


def _partition_one(work: _Work) -> None:
    graph = work.graph
    view = ModelGraphView(graph)
    work.result.specs.update(zip(graph.nodes, view.nodes, strict=True))
    open_nodes = set(range(len(graph.nodes)))
    refusals: list[list[tuple[str, str]]] = [[] for _ in graph.nodes]
    contracted: ContractedGraph | None = None
    work.result.regions[graph] = []
    for provider in work.providers:
        if not open_nodes:
            break
        try:
            capability = provider.get_capability(view, work.kernels.lookup(provider.name))
            if not isinstance(capability, Capability):
                raise TypeError(f"it returned a {type(capability).__name__}, not a Capability")
        except Exception as error:  # a plug-in's code: whatever it raises must not take the session with it
            work.on_provider_error(provider.name, error)
            for index in open_nodes:
                refusals[index].append((provider.name, f"get_capability raised {type(error).__name__}: {error}"))
            continue
        reasons = {refusal.node: refusal.reason for refusal in capability.refusals}
        taken: set[int] = set()
        for claim in capability.claims:
            if claim.kind is ClaimKind.COMPILE:
                contracted = contracted or ContractedGraph(view)
                taken |= _take_regions(work, view, contracted, provider, claim, open_nodes - taken, refusals, reasons)
        taken |= _take_kernels(work, view, provider, capability, open_nodes - taken, refusals, reasons)
        open_nodes -= taken
        for index in open_nodes:
            refusals[index].append((provider.name, reasons.get(index, "not claimed")))
    for index in sorted(open_nodes):
        node = graph.nodes[index]
        if node.domain == "" and node.op_type in CONTROL_FLOW:
            work.result.nodes[node] = NodeAssignment(
                CORE, Runner.CONTROL_FLOW, reason="control flow is a step of the core", refusals=tuple(refusals[index])
            )
        else:
            work.result.unassigned[node] = tuple(refusals[index])


def _take_regions(
    work: _Work,
    view: GraphView,
    contracted: ContractedGraph,
    provider: IExecutionProvider,
    claim: Claim,
    available: set[int],
    refusals: list[list[tuple[str, str]]],
    reasons: dict[int, str],
) -> set[int]:
    taken: set[int] = set()
    for group in contracted.split(index for index in claim.nodes if index in available):
        # A claim's cost is that of all its nodes: a part of it has a part of the cost.
        cost = None if claim.cost_us is None else claim.cost_us * len(group) / len(claim.nodes)
        island = _island(view, group, provider, cost)
        refusal = work.cost_model.refusal(view, island)
        if refusal is not None:
            reasons.update(dict.fromkeys(group, refusal))
            continue
        contracted.add_region(group)
        nodes = tuple(work.graph.nodes[index] for index in group)
        regions = work.result.regions[work.graph]
        region = Region(provider.name, nodes, f"{provider.name}_{work.graph.name or 'graph'}_{len(regions)}")
        regions.append(region)
        for index, node in zip(group, nodes, strict=True):
            work.result.nodes[node] = NodeAssignment(
                provider.name, Runner.REGION, None, region, claim.reason, tuple(refusals[index])
            )
        taken.update(group)
    return taken


def _take_kernels(
    work: _Work,
    view: GraphView,
    provider: IExecutionProvider,
    capability: Capability,
    available: set[int],
    refusals: list[list[tuple[str, str]]],
    reasons: dict[int, str],
) -> set[int]:
    wanted: dict[int, Claim] = {}
    for claim in capability.claims:
        if claim.kind is ClaimKind.KERNEL:
            wanted.update({index: claim for index in claim.nodes if index in available})
    if not work.cost_model.concerns(provider):
        return {index for index in wanted if _assign(work, view, provider, index, wanted[index], refusals, reasons)}
    taken: set[int] = set()
    for group in connected(view, wanted):
        claims = [wanted[index] for index in group]
        known = [claim.cost_us / len(claim.nodes) for claim in claims if claim.cost_us is not None]
        cost = sum(known) if len(known) == len(claims) else None
        refusal = work.cost_model.refusal(view, _island(view, group, provider, cost))
        if refusal is not None:
            reasons.update(dict.fromkeys(group, refusal))
            continue
        for index in group:
            if _assign(work, view, provider, index, wanted[index], refusals, reasons):
                taken.add(index)
    return taken


def _assign(
    work: _Work,
    view: GraphView,
    provider: IExecutionProvider,
    index: int,
    claim: Claim,
    refusals: list[list[tuple[str, str]]],
    reasons: dict[int, str],
) -> bool:
    """Give one node to a provider's kernel; False, with the reason, where it claimed what it has no kernel for."""
    match = work.kernels.find(provider.name, view.nodes[index])
    if match.kernel is None:
        reasons[index] = f"claimed, but has no kernel: {'; '.join(match.refusals)}"
        return False
    work.result.nodes[work.graph.nodes[index]] = NodeAssignment(
        provider.name, Runner.KERNEL, match.kernel, None, claim.reason, tuple(refusals[index])
    )
    return True


def connected(view: GraphView, nodes: Iterable[int]) -> list[tuple[int, ...]]:
    """Groups of nodes that hang together, in node order: an island is what shares borders."""
    groups: list[tuple[int, ...]] = []
    left = set(nodes)
    while left:
        start = left.pop()
        group, pending = [start], [start]
        while pending:
            node = view.nodes[pending.pop()]
            near: set[int] = set()
            for value in node.outputs:
                if value is not None:
                    near.update(view.consumers(value.name))
            for value in node.inputs:
                producer = view.producer(value.name) if value is not None else None
                if producer is not None:
                    near.add(producer)
            for index in near & left:
                left.discard(index)
                group.append(index)
                pending.append(index)
        groups.append(tuple(sorted(group)))
    return sorted(groups)


def _island(view: GraphView, group: Sequence[int], provider: IExecutionProvider, cost_us: float | None) -> Island:
    members = set(group)
    inputs: dict[str, None] = {}
    outputs: dict[str, None] = {}
    returned = {value.name for value in view.outputs}
    for index in group:
        node = view.nodes[index]
        for value in node.inputs:
            if value is not None and not value.constant and view.producer(value.name) not in members:
                inputs[value.name] = None
        for value in node.outputs:
            if value is not None and (
                value.name in returned or any(user not in members for user in view.consumers(value.name))
            ):
                outputs[value.name] = None
    return Island(tuple(group), provider, tuple(inputs), tuple(outputs), cost_us)
