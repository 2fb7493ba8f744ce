"""Making regions convex: a compiled region must not depend on anything that depends on it.

Works on one graph with the regions built so far contracted to single points, because two regions that are convex
alone can still wait for each other. All groups of a provider are looked at together, in one walk: nearly always they
fit as they are. Only groups that wait for each other are cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ort_py.contracts import GraphView

_EXACT_STEPS = 400_000
"""Steps that may be spent on cutting groups one by one, each a walk over the graph; beyond it they are cut together,
into more parts than they need."""


class ContractedGraph:
    """The dependencies of a view's nodes, with regions contracted as they are added."""

    def __init__(self, view: GraphView) -> None:
        count = len(view.nodes)
        self._unit = list(range(count))
        """Unit of each node: its own index, or a number from `count` on for a region."""
        self._members: dict[int, list[int]] = {}
        self._next = count
        self._successors: list[Sequence[int]] = []
        for node in view.nodes:
            seen: set[int] = set()
            for value in node.outputs:
                if value is not None:
                    seen.update(view.consumers(value.name))
            seen.discard(node.index)
            self._successors.append(sorted(seen))

    def add_region(self, nodes: Iterable[int]) -> None:
        """Contract nodes that `split` returned together."""
        members = sorted(nodes)
        for node in members:
            self._unit[node] = self._next
        self._members[self._next] = members
        self._next += 1

    def release(self, nodes: Iterable[int]) -> None:
        """Undo the contraction of nodes that no region has any more."""
        for node in nodes:
            self._unit[node] = node

    def split_all(self, groups: Sequence[Iterable[int]]) -> list[list[tuple[int, ...]]]:
        """Cut sets of nodes that share none into parts that can all be contracted, and contract them.

        Args:
            groups: The sets; nodes of regions are not among them.

        Returns:
            The parts of each, in order.
        """
        sets = [tuple(sorted(group)) for group in groups]
        parts: list[list[tuple[int, ...]]] = [[group] for group in sets]
        first = self._next
        for group in sets:
            self.add_region(group)
        waiting = self._waiting()
        tied = [place for place in range(len(sets)) if first + place in waiting]
        for place in tied:
            self.release(self._members.pop(first + place))
        if len(tied) * len(self._unit) <= _EXACT_STEPS:
            for place in tied:
                parts[place] = self.split(sets[place])
                for part in parts[place]:
                    self.add_region(part)
        else:
            levels = self._levels({node: place for place in tied for node in sets[place]})
            for place in tied:
                by_level: dict[int, list[int]] = {}
                for node in sets[place]:
                    by_level.setdefault(levels[node], []).append(node)
                parts[place] = [tuple(by_level[level]) for level in sorted(by_level)]
                for part in parts[place]:
                    self.add_region(part)
        return parts

    def _waiting(self) -> set[int]:
        """Units that wait for themselves, and those between them."""
        left = set(self._unit) - set(self._order())
        behind = {unit: self._unit_successors(unit) & left for unit in left}
        before: dict[int, list[int]] = {unit: [] for unit in left}
        for unit, successors in behind.items():
            for successor in successors:
                before[successor].append(unit)
        # What only comes after them waits for nothing of its own: it is taken off from the end.
        ends = [unit for unit, successors in behind.items() if not successors]
        while ends:
            unit = ends.pop()
            left.discard(unit)
            for earlier in before[unit]:
                behind[earlier].discard(unit)
                if not behind[earlier]:
                    ends.append(earlier)
        return left

    def _levels(self, group_of: Mapping[int, int]) -> dict[int, int]:
        """Count how often the longest path to each node leaves a group. Nodes of one group and level can be contracted,
        with all other such sets, because a path that leaves one only reaches higher levels.
        """
        level: dict[int, int] = {}
        for unit in self._order():
            here = level.setdefault(unit, 0)
            for successor in self._unit_successors(unit):
                leaves = unit in group_of and group_of.get(successor) != group_of[unit]
                level[successor] = max(level.get(successor, 0), here + leaves)
        return level

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

    def _unit_successors(self, unit: int) -> set[int]:
        nodes = self._members.get(unit, (unit,))
        found = {self._unit[next_node] for node in nodes for next_node in self._successors[node]}
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
