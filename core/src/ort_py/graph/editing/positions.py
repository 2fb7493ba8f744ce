"""A graph's list of nodes while it changes: where nodes stand, taking some out, putting others in, in order.

Used by `edit` alone. Each node has a rank, a tuple of integers; ranks are ordered as the list is, and between any two
there is room for another, so no edit renumbers others. Where an edit breaks the topological order, only the nodes
between the two ends of the offending edge are looked at and moved (Pearce and Kelly, "A dynamic topological sort
algorithm for directed acyclic graphs", 2006).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TypeAlias

from ort_py.errors import InvalidGraph
from ort_py.graph.ir import Graph, Node

Rank: TypeAlias = tuple[int, ...]

_FRONT: Rank = (-1,)
"""Before every node the graph had at the beginning."""


def owner_in(graph: Graph, node: Node | None) -> Node | None:
    """The node of `graph` that is `node` or holds it at some depth, or None if it is elsewhere."""
    while node is not None and node.graph is not graph:
        node = node.graph.owner
    return node


def _sources(node: Node) -> Iterator[Node]:
    """Nodes of the node's own graph that write what it or its nested graphs read."""
    for value in node.reads():
        if value.producer is not None and value.graph is node.graph:
            yield value.producer


class NodeList:
    """The nodes of a graph, to be changed through this object only.

    Args:
        graph: The graph, its nodes in topological order.
        readers: Nodes of the graph that read what a node of it writes.
    """

    __slots__ = ("_graph", "_rank", "_readers", "_serial")

    def __init__(self, graph: Graph, readers: Callable[[Node], Iterable[Node]]) -> None:
        self._graph = graph
        self._readers = readers
        self._rank: dict[Node, Rank] = {node: (index,) for index, node in enumerate(graph.nodes)}
        self._serial = 0

    def __contains__(self, node: Node) -> bool:
        return node in self._rank

    def rank(self, node: Node) -> Rank:
        """The key that orders nodes in the list. A node keeps it, unless an edit elsewhere moves the node."""
        return self._rank[node]

    def of(self, node: Node) -> int:
        """Position of a node of the graph."""
        return self._place(self._rank[node])

    def _place(self, rank: Rank) -> int:
        return bisect_left(self._graph.nodes, rank, key=self._rank.__getitem__)

    def remove(self, nodes: Sequence[Node]) -> Rank | None:
        """Take nodes out. Returns the highest rank that became free, or None."""
        for node in nodes:
            del self._graph.nodes[self.of(node)]
        return max((self._rank.pop(node) for node in nodes), default=None)

    def keep(self, nodes: Sequence[Node], dead: Iterable[Node]) -> None:
        """Take out the nodes that are in `dead`; `nodes` are the others, in order."""
        self._graph.nodes[:] = nodes
        for node in dead:
            del self._rank[node]

    def append(self, node: Node) -> None:
        """Put a node at the end."""
        self._put(node, self._after(self._last))

    def insert_before(self, nodes: Iterable[Node], holder: Node) -> None:
        """Put nodes, in order, directly before one of the list, which keeps its rank."""
        place = self.of(holder)
        previous = self._rank[self._graph.nodes[place - 1]] if place else _FRONT
        added = list(nodes)
        # Serial numbers only grow, so the negative of a new one sorts before all that was ever put behind `previous`.
        self._serial += 1
        for index, node in enumerate(added):
            self._rank[node] = (*previous, -self._serial, index)
        self._graph.nodes[place:place] = added

    def insert(self, nodes: Sequence[Node], free: Rank | None) -> None:
        """Put new nodes in at a free rank, or as near as order allows; moves others where no place will do.

        Raises:
            InvalidGraph: There is a cycle.
        """
        if not nodes:
            return
        added = set(nodes)
        edges = [(source, node) for node in nodes for source in _sources(node)]
        latest = max((self._rank[source] for source, _ in edges if source not in added), default=_FRONT)
        readers = [(node, reader) for node in nodes for reader in self._readers(node) if reader not in added]
        base = latest if readers else self._last
        if free is not None and latest < free and all(free < self._rank[reader] for _, reader in readers):
            base = free
        if base is free and len(nodes) == 1:
            self._put(nodes[0], free)
        else:
            for node in nodes:
                self._put(node, self._after(base))
        for before, after in (*edges, *readers):
            self.order(before, after)

    @property
    def _last(self) -> Rank:
        return self._rank[self._graph.nodes[-1]] if self._graph.nodes else _FRONT

    def _after(self, rank: Rank) -> Rank:
        """A rank behind `rank` and all that were made behind it, before the next that is not."""
        self._serial += 1
        return (*rank, self._serial)

    def _put(self, node: Node, rank: Rank) -> None:
        self._graph.nodes.insert(self._place(rank), node)
        self._rank[node] = rank

    def order(self, before: Node, after: Node) -> None:
        """See to it that one node stands before another that reads it.

        Raises:
            InvalidGraph: The first one depends on the second.
        """
        low, high = self._rank[after], self._rank[before]
        if high < low:
            return
        late = self._reach(after, lambda node: self._rank[node] <= high, self._readers)
        if before in late:
            raise _cycle(self._graph, late)
        early = self._reach(before, lambda node: self._rank[node] >= low, _sources)
        by_rank = self._rank.__getitem__
        moved = [*sorted(early, key=by_rank), *sorted(late, key=by_rank)]
        ranks = sorted(map(by_rank, moved))
        places = [self._place(rank) for rank in ranks]
        for node, rank, place in zip(moved, ranks, places, strict=True):
            self._rank[node] = rank
            self._graph.nodes[place] = node

    @staticmethod
    def _reach(
        start: Node, inside: Callable[[Node], bool], following: Callable[[Node], Iterable[Node]]
    ) -> dict[Node, None]:
        found = {start: None}
        pending = [start]
        while pending:
            for node in following(pending.pop()):
                if node not in found and inside(node):
                    found[node] = None
                    pending.append(node)
        return found


def _cycle(graph: Graph, stuck: Collection[Node]) -> InvalidGraph:
    nodes = list(stuck)
    names = ", ".join(node.name for node in nodes[:10])
    return InvalidGraph(
        f"The nodes of graph '{graph.name}' form a cycle.",
        where=nodes[0].location,
        why=f"these depend on each other, or on one that does: {names}{' …' if len(nodes) > 10 else ''}",
        fix="New nodes must not read values that depend on them.",
    )
