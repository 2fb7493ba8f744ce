"""Placement of a graph: ask each provider, choose the cheapest placement, make regions convex, and record the provider
and reason for each node.

Control flow stays with the core unless a provider claims the node whole; its bodies are partitioned like any graph.
Nodes that no provider takes are returned with all refusals: the caller may expand them to their function body and ask
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ort_py.contracts import Claim, ClaimKind, GraphView, IExecutionProvider
from ort_py.graph.ir import Graph, Node, walk
from ort_py.graph.view import ModelGraphView
from ort_py.kernels.registry import KernelRegistry
from ort_py.lazy_dataclass import dataclass
from ort_py.partition.assignment import CORE, Assignment, NodeAssignment, Region, RunnerKind
from ort_py.partition.candidates import Choice, choose, compares
from ort_py.partition.convex import ContractedGraph
from ort_py.partition.cost_model import CostModel
from ort_py.partition.survey import Answer, OnProviderError, survey

CONTROL_FLOW = frozenset({"If", "Loop", "Scan", "SequenceMap"})
"""Operators of ``ai.onnx`` that the core itself steps through."""


def partition(
    graph: Graph,
    providers: Sequence[IExecutionProvider],
    kernels: KernelRegistry,
    cost_model: CostModel,
    on_provider_error: OnProviderError,
    barred: Mapping[Node, Mapping[str, str]] | None = None,
) -> Assignment:
    """Assign every node of a graph and of the graphs nested in it.

    Args:
        graph: The main graph, validated and typed.
        providers: In rank order; each later one completes what the earlier left.
        on_provider_error: Called for a provider whose `get_capability` raised; that provider gets no node of the graph.
        barred: Nodes that a provider may not have in its regions, with the reason by provider.
    """
    result = Assignment()
    whole: set[Graph] = set()
    check_time = graph.model.budget.check_time

    def on_error(provider: str, error: Exception) -> None:
        check_time()  # where that is what went wrong, the provider is not to blame
        on_provider_error(provider, error)

    for current in walk(graph):
        check_time()
        if current in whole:
            continue  # inside a node that a provider runs whole
        view = ModelGraphView(current)
        result.specs.update(zip(current.nodes, view.nodes, strict=True))
        answers = survey(
            view,
            providers,
            kernels,
            on_error,
            all_of_them=compares(providers, cost_model),
            barred={} if not barred else {i: barred[node] for i, node in enumerate(current.nodes) if node in barred},
        )
        choice = choose(current, view, answers, cost_model)
        _Placing(current, view, answers, choice, kernels, result).place()
        result.notes += _notes(current, choice)
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
class _Placing:
    """Carries one graph's placement out."""

    graph: Graph
    view: GraphView
    answers: Sequence[Answer]
    choice: Choice
    kernels: KernelRegistry
    result: Assignment

    def place(self) -> None:
        """Assign the graph's nodes, provider by provider in the placement's order."""
        regions = self.result.regions[self.graph] = []
        mine: list[list[int]] = [[] for _ in self.answers]
        for index, place in enumerate(self.choice.owner):
            if place >= 0:
                mine[place].append(index)
        contracted: ContractedGraph | None = None
        for position, place in enumerate(self.choice.order):
            answer = self.answers[place]
            groups = _groups(answer, mine[place]) if answer.regions else []
            if groups:
                contracted = contracted or ContractedGraph(self.view)
                parts = contracted.split_all([members for _, members in groups])
                for (claim, _), pieces in zip(groups, parts, strict=True):
                    for piece in pieces:
                        if len(piece) == len(claim.nodes) or not self._left_over(place, piece, position, mine):
                            self._region(place, claim, piece, regions)
                        else:
                            contracted.release(piece)
            for index in mine[place]:
                if answer.claims[index].kind is ClaimKind.KERNEL and not self._kernel(place, index):
                    self._pass_on(index, position, mine)
        self._rest()

    def _left_over(self, place: int, piece: Sequence[int], position: int, mine: list[list[int]]) -> bool:
        """Pass on the rest of a claim if it is not worth a region. False if it is worth one, or if no other provider
        follows.
        """
        provider = self.answers[place].provider
        try:
            reason = provider.group_refusal([self.view.nodes[index] for index in piece], self.view)
        except Exception as error:  # a plug-in's code: its nodes are left to others, with the reason
            reason = f"group_refusal raised {type(error).__name__}: {error}"
        later = [self.answers[other].claims for other in self.choice.order[position + 1 :]]
        if reason is None or not all(any(index in claims for claims in later) for index in piece):
            return False
        for index in piece:
            self.choice.reasons[place, index] = reason
            self._pass_on(index, position, mine)
        return True

    def _region(self, place: int, claim: Claim, members: tuple[int, ...], regions: list[Region]) -> None:
        provider = self.answers[place].provider.name
        nodes = tuple([self.graph.nodes[index] for index in members])
        region = Region(provider, nodes, f"{provider}_{self.graph.name or 'graph'}_{len(regions)}")
        regions.append(region)
        for index, node in zip(members, nodes, strict=True):
            self.result.nodes[node] = NodeAssignment(
                provider, RunnerKind.REGION, None, region, claim.reason, self._refusals(index, place)
            )

    def _kernel(self, place: int, index: int) -> bool:
        """Give one node to a provider's kernel; False, with the reason, where it has no kernel for its claim."""
        answer = self.answers[place]
        self.graph.model.budget.tick()
        match = self.kernels.find(answer.provider.name, self.view.nodes[index])
        if match.kernel is None:
            self.choice.reasons[place, index] = (
                f"the provider claimed the node, but has no kernel: {'; '.join(match.refusals)}"
            )
            return False
        self.result.nodes[self.graph.nodes[index]] = NodeAssignment(
            answer.provider.name,
            RunnerKind.KERNEL,
            match.kernel,
            None,
            answer.claims[index].reason,
            self._refusals(index, place),
        )
        return True

    def _pass_on(self, index: int, position: int, mine: list[list[int]]) -> None:
        for place in self.choice.order[position + 1 :]:
            claim = self.answers[place].claims.get(index)
            if claim is not None:
                mine[place].append(index)
                return

    def _rest(self) -> None:
        """Handle the nodes that no provider runs: control flow is the core's, the rest is unassigned."""
        for index, node in enumerate(self.graph.nodes):
            if node in self.result.nodes:
                continue
            refusals = self._refusals(index, len(self.answers))
            if node.domain == "" and node.op_type in CONTROL_FLOW:
                self.result.nodes[node] = NodeAssignment(
                    CORE, RunnerKind.CONTROL_FLOW, reason="the core runs control flow itself", refusals=refusals
                )
            else:
                self.result.unassigned[node] = refusals

    def _refusals(self, index: int, place: int) -> tuple[tuple[str, str], ...]:
        """The reasons why providers earlier in the order do not run a node."""
        reasons = self.choice.reasons
        asked = enumerate(self.answers[:place])
        return tuple([(one.provider.name, reasons.get((number, index)) or one.refusal(index)) for number, one in asked])


def _groups(answer: Answer, nodes: Iterable[int]) -> list[tuple[Claim, list[int]]]:
    """The nodes of each claim of regions that are the provider's, in the order of its claims."""
    members: dict[int, list[int]] = {}
    for index in nodes:
        claim = answer.claims[index]
        if claim.kind is ClaimKind.COMPILE:
            members.setdefault(id(claim), []).append(index)
    return [(claim, members[id(claim)]) for claim in answer.regions if id(claim) in members]


def _notes(graph: Graph, choice: Choice) -> list[str]:
    where = f"graph '{graph.name}': " if graph.owner is not None else ""
    notes = []
    if len(choice.costs) > 1:
        figures = ", ".join(f"{name} about {cost:.0f} µs" for name, cost in choice.costs.items())
        notes.append(f"{where}placement {next(iter(choice.costs))} of {figures}")
    notes += [
        f"{where}{operator} cuts: {nodes} node(s) that no provider of the device runs separate {islands} islands"
        for operator, nodes, islands in choice.cuts[:3]
    ]
    return notes
