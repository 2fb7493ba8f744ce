"""Operators that cut a graph into islands: for each operator that the first provider refused, the islands that its
support would merge.

Comes after `flow`, uses the turns of `islands`. Nodes that a provider could run but that did not pay count as its own:
what cut them off from each other is the very question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

from ort_py.inspection.placement.flow import Flow
from ort_py.inspection.placement.islands import turns
from ort_py.lazy_dataclass import dataclass

COUNT = 5
_TRIED = 24
"""Operators tried a round, those with most nodes: what cuts a graph often is refused often."""


@dataclass(frozen=True, slots=True)
class RefusedNode:
    """A node as the question sees it.

    Attributes:
        runner: The provider that runs it; the first one too where that could run it.
        refused: Whether the first provider has no support for it.
    """

    runner: str
    op_type: str
    domain: str
    refused: bool


@dataclass(frozen=True, slots=True)
class Suggestion:
    """An operator whose support would merge islands. Each counts with the support of all before it in the list.

    Attributes:
        provider: The provider that refused it: the one that is asked first.
        islands_before: Islands of the model without its support, were all nodes that it can run given to the provider.
    """

    provider: str
    op_type: str
    domain: str
    nodes: int
    islands_before: int
    islands_after: int

    @property
    def merged(self) -> int:
        """Number of islands that would be saved."""
        return self.islands_before - self.islands_after


def suggestions_of(
    flow: Flow, nodes: Sequence[RefusedNode], first: str, order: Sequence[str], count: int = COUNT
) -> tuple[Suggestion, ...]:
    """The few operators whose support would merge the most islands, chosen greedily.

    Args:
        first: The provider that is asked first.
        order: All providers that run or could run something, in the order in which they are asked; see
            `islands.island_groups`.
    """
    refused = Counter((node.op_type, node.domain) for node in nodes if node.refused)
    if not refused:
        return ()
    graph = _Contracted(flow, nodes, order)
    supported: set[tuple[str, str]] = set()
    found: list[Suggestion] = []
    islands = graph.islands(first, supported)
    while len(found) < count:
        open_keys = [key for key, _ in refused.most_common() if key not in supported][:_TRIED]
        tried = [(graph.islands(first, supported | {key}), -refused[key], key) for key in open_keys]
        if not tried or min(tried)[0] >= islands:
            break
        after, negative, key = min(tried)
        found.append(Suggestion(first, *key, -negative, islands, after))
        supported.add(key)
        islands = after
    return tuple(found)


class _Contracted:
    """The graphs with everything that no answer can part contracted to single units: trying an operator is quick."""

    def __init__(self, flow: Flow, nodes: Sequence[RefusedNode], order: Sequence[str]) -> None:
        self._order = order
        kinds: list[Hashable] = [
            (node.runner, node.op_type, node.domain) if node.refused else (node.runner, "", "") for node in nodes
        ]
        position = {who: place for place, who in enumerate(order)}
        turn_order = sorted(set(kinds), key=lambda kind: (position[kind[0]], kind))  # type: ignore[index]  # a tuple
        successors: list[list[int]] = [[] for _ in nodes]
        for source, target in set(flow.edges()):
            successors[source].append(target)
        table = dict(enumerate(successors))
        self._graphs: list[tuple[range, dict[int, list[int]]]] = []
        self._nodes: list[RefusedNode] = []
        for graph in flow.graphs:
            groups = turns(graph.nodes, table, kinds, turn_order)
            start = len(self._nodes)
            unit_of = {node: start + number for number, group in enumerate(groups) for node in group}
            self._nodes.extend(nodes[group[0]] for group in groups)
            between: dict[int, set[int]] = {start + number: set() for number in range(len(groups))}
            for node, unit in unit_of.items():
                between[unit].update(unit_of[target] for target in successors[node] if target in unit_of)
            units = range(start, start + len(groups))
            self._graphs.append((units, {unit: sorted(targets - {unit}) for unit, targets in between.items()}))

    def islands(self, first: str, supported: set[tuple[str, str]]) -> int:
        """Number of islands where `first` runs the supported operators too."""
        runs = [
            first if node.refused and (node.op_type, node.domain) in supported else node.runner for node in self._nodes
        ]
        return sum(len(turns(units, successors, runs, self._order)) for units, successors in self._graphs)
