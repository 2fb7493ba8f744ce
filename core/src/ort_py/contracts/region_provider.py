"""The short way to a provider that compiles regions: say which node it can run, and compile what it gets.

Groups what can run into convex regions and asks whether each pays. It does not depend on engines: the partitioner still
decides. Comes between `provider`, which it implements, and the providers that compile.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ort_py.contracts.capability import Capability, Claim, ClaimKind, Refusal
from ort_py.contracts.provider import IExecutionProvider

if TYPE_CHECKING:
    from ort_py.contracts.graph_view import GraphView, NodeSpec
    from ort_py.contracts.kernel import KernelLookup


class RegionProvider(IExecutionProvider):
    """A provider whose nodes all run in compiled regions.

    A subclass has `name`, `refusal` and `compile`; `group_refusal` where small regions do not pay.
    """

    @property
    def joins_readers(self) -> bool:
        """Optional. True if nodes that read the same computed value are best run by one call, connected or not."""
        return False

    @abstractmethod
    def refusal(self, node: NodeSpec, graph: GraphView) -> str | None:
        """Required. Why a node cannot be run natively, None where it can. Called for each node of each graph, on the
        thread that plans; the reason is shown to users as it is."""

    def group_refusal(self, nodes: Sequence[NodeSpec], graph: GraphView) -> str | None:
        """Optional. Why a group of nodes that could run is not worth a region, None where it is. Called for each
        group, and for what others leave of one; all are worth one where not overridden."""
        return None

    def get_capability(self, graph: GraphView, kernels: KernelLookup) -> Capability:
        """One claim for each convex group of nodes that are not refused."""
        refusals: list[Refusal] = []
        able: list[int] = []
        for node in graph.nodes:
            reason = self.refusal(node, graph)
            if reason is None:
                able.append(node.index)
            else:
                refusals.append(Refusal(node.index, reason))
        claims: list[Claim] = []
        for group in convex_groups(graph, able, joins_readers=self.joins_readers):
            reason = self.group_refusal([graph.nodes[index] for index in group], graph)
            if reason is None:
                claims.append(Claim(group, ClaimKind.COMPILE, f"one of a region of {len(group)}"))
            else:
                refusals += [Refusal(index, reason) for index in group]
        return Capability(tuple(claims), tuple(refusals))


def convex_groups(graph: GraphView, able: Iterable[int], *, joins_readers: bool = False) -> list[tuple[int, ...]]:
    """Connected groups that no path leaves and enters again, each as large as a walk in order makes it.

    A node's level counts how often the paths to it left the set and came back: what is of one level is convex together.
    A node that reads constants alone may be as late as its readers let it be: with them, in one group. So may all
    nodes, where that gives fewer groups. Linear in the graph.

    Args:
        graph: The graph.
        able: Indices of the nodes to group.
        joins_readers: Whether nodes that read the same computed value are connected too.

    Returns:
        Sorted indices a group, groups in the order of their first nodes.
    """
    wanted = set(able)
    behind: list[list[int]] = []
    level = [0] * len(graph.nodes)
    near: dict[int, list[int]] = {index: [] for index in sorted(wanted)}
    first: dict[str, int] = {}
    for node in graph.nodes:
        index, inside = node.index, node.index in wanted
        behind.append([reader for one in node.outputs if one is not None for reader in graph.consumers(one.name)])
        for reader in behind[-1]:
            level[reader] = max(level[reader], level[index] + (inside and reader not in wanted))
            if inside and reader in wanted:
                near[index].append(reader)
                near[reader].append(index)
        for value in node.inputs if inside and joins_readers else ():
            if value is not None and not value.constant:
                other = first.setdefault(value.name, index)
                near[index].append(other)
                near[other].append(index)
    late = level.copy()
    for node in reversed(graph.nodes[:]):
        index, inside = node.index, node.index in wanted
        free = inside and all(one is None or one.constant for one in node.inputs)
        for levels in (level, late) if free else (late,):
            bounds = (levels[reader] - (inside and reader not in wanted) for reader in behind[index])
            levels[index] = min(bounds, default=levels[index])
    return min((_connected(near, levels) for levels in (level, late)), key=len)


def _connected(near: Mapping[int, Sequence[int]], level: Sequence[int]) -> list[tuple[int, ...]]:
    """Groups of nodes of one level, each connected by way of its own nodes; `near` has the neighbours of each node."""
    groups: list[tuple[int, ...]] = []
    left = set(near)
    for start in near:
        if start not in left:
            continue
        group, pending = [], [start]
        left.remove(start)
        while pending:
            index = pending.pop()
            group.append(index)
            for other in near[index]:
                if other in left and level[other] == level[index]:
                    left.remove(other)
                    pending.append(other)
        groups.append(tuple(sorted(group)))
    return groups
