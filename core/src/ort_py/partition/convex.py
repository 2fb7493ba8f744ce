"""Making regions convex: a compiled region must not depend on anything that depends on it.

Works on one graph with the regions built so far contracted to single points, because two regions that are convex
alone can still wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ort_py.contracts import GraphView

__all__ = ["ContractedGraph"]


class ContractedGraph:
    """The dependencies of a view's nodes, with regions contracted as they are added."""

    def __init__(self, view: GraphView) -> None:
        count = len(view.nodes)
        self._unit = list(range(count))
        """Unit of each node: its own index, or a number from `count` on for a region."""
        self._members: dict[int, list[int]] = {}
        self._next = count
        self._successors: list[list[int]] = [[] for _ in range(count)]
        for node in view.nodes:
            seen: set[int] = set()
            for value in node.outputs:
                if value is not None:
                    seen.update(view.consumers(value.name))
            seen.discard(node.index)
            self._successors[node.index] = sorted(seen)

    def add_region(self, nodes: Iterable[int]) -> None:
        """Contract nodes that `split` returned together."""
        members = sorted(nodes)
        for node in members:
            self._unit[node] = self._next
        self._members[self._next] = members
        self._next += 1

    def split(self, nodes: Iterable[int]) -> list[tuple[int, ...]]:
        """Cut a set of nodes into convex groups, fewest by a greedy walk; linear in the graph.

        A node's level counts how often the longest path to it left the set and came back. Nodes of one level are
        convex together: a path that leaves and returns ends on a higher level.
        """
        wanted = set(nodes)
        level: dict[int, int] = {}
        incoming: dict[int, int] = {}
        for unit in self._order():
            inside = unit in wanted
            here = incoming.get(unit, 0)
            if inside:
                level[unit] = here
            for successor in self._unit_successors(unit):
                # Leaving the set towards another unit raises the level of whatever of the set comes behind it.
                after = here + 1 if inside and successor not in wanted else here
                if after > incoming.get(successor, 0):
                    incoming[successor] = after
        groups: dict[int, list[int]] = {}
        for node, value in level.items():
            groups.setdefault(value, []).append(node)
        return [tuple(sorted(groups[value])) for value in sorted(groups)]

    def _nodes_of(self, unit: int) -> Sequence[int]:
        return self._members.get(unit, (unit,))

    def _unit_successors(self, unit: int) -> set[int]:
        found = {self._unit[next_node] for node in self._nodes_of(unit) for next_node in self._successors[node]}
        found.discard(unit)
        return found

    def _order(self) -> list[int]:
        """Units in topological order (Kahn)."""
        units = sorted(set(self._unit))
        waiting = dict.fromkeys(units, 0)
        successors = {unit: self._unit_successors(unit) for unit in units}
        for targets in successors.values():
            for target in targets:
                waiting[target] += 1
        ready = [unit for unit in reversed(units) if waiting[unit] == 0]
        order: list[int] = []
        while ready:
            unit = ready.pop()
            order.append(unit)
            for target in sorted(successors[unit], reverse=True):
                waiting[target] -= 1
                if waiting[target] == 0:
                    ready.append(target)
        return order
