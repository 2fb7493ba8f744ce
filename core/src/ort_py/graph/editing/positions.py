"""A graph's list of nodes while it changes: where nodes stand, taking some out, putting others in, in order.

Used by `edit` alone. A graph with tens of thousands of nodes may see thousands of edits: positions are remembered,
looked for near where they were, and read anew only after many changes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence

from ort_py.errors import InvalidGraph
from ort_py.graph.ir import Graph, Node, Value

__all__ = ["NodeList", "owner_in"]

_REREAD_AFTER = 128
"""Places a remembered position may be off before all are read anew: searching that far costs about as much as a
hundredth of reading 20,000 positions."""


def owner_in(graph: Graph, node: Node | None) -> Node | None:
    """The node of `graph` that is `node` or holds it at some depth; None where it is elsewhere."""
    while node is not None and node.graph is not graph:
        node = node.graph.owner
    return node


def _sources(node: Node) -> Iterator[Node]:
    """Nodes of the node's own graph that write what it or its nested graphs read."""
    captured = [value for nested in node.subgraphs for value in nested.captures()] if node.attributes else []
    for value in (*node.inputs, *captured):
        if value is not None and value.producer is not None and value.graph is node.graph:
            yield value.producer


class NodeList:
    """The nodes of a graph, to be changed through this object only.

    Args:
        graph: The graph.
    """

    __slots__ = ("_drift", "_graph", "_known")

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._known: dict[Node, int] = {}
        self._drift = _REREAD_AFTER + 1

    def of(self, node: Node) -> int:
        """Position of a node of the graph.

        Raises:
            KeyError: The node is not in the list.
        """
        if self._drift <= _REREAD_AFTER and node in self._known:
            found = self._search(node, self._known[node])
            if found is not None:
                return found
        self._known = {known: position for position, known in enumerate(self._graph.nodes)}
        self._drift = 0
        return self._known[node]

    def _search(self, node: Node, near: int) -> int | None:
        nodes = self._graph.nodes
        for distance in range(self._drift + 1):
            for position in (near - distance, near + distance):
                if 0 <= position < len(nodes) and nodes[position] is node:
                    return position
        return None

    def remove(self, nodes: Sequence[Node]) -> int:
        """Take nodes out, which are in the order of the list; returns where the last of them stood."""
        positions = [self.of(node) for node in nodes]
        for position in reversed(positions):
            del self._graph.nodes[position]
        self._drift += len(positions)
        return positions[-1] - len(positions) + 1 if positions else len(self._graph.nodes)

    def keep(self, nodes: Sequence[Node]) -> None:
        """Take out all nodes but these, which are in the order of the list."""
        self._graph.nodes[:] = nodes
        self._drift = _REREAD_AFTER + 1

    def insert_at(self, nodes: Sequence[Node], place: int) -> None:
        """Put nodes in at a place where they are in order."""
        self._graph.nodes[place:place] = nodes
        self._drift += len(nodes)
        self._known.update((node, place + offset) for offset, node in enumerate(nodes))

    def insert(self, nodes: Sequence[Node], place: int, returned: Mapping[Value, Mapping[Node, None]]) -> None:
        """Put nodes in at `place`, or as near as order allows; sorts the list where no place will do.

        Args:
            nodes: New nodes, connected.
            place: Where they should stand.
            returned: Values that nested graphs return, with the nodes that hold those graphs.

        Raises:
            InvalidGraph: There is a cycle.
        """
        if not nodes:
            return
        members = {node: offset for offset, node in enumerate(nodes)}
        sources = [(source, offset) for offset, node in enumerate(nodes) for source in _sources(node)]
        earliest = max((self.of(source) + 1 for source, _ in sources if source not in members), default=0)
        latest = len(self._graph.nodes)
        for node in nodes:
            for value in node.outputs:
                if value is not None:
                    latest = min([latest, *self._readers(value, members, returned)])
        self.insert_at(nodes, max(earliest, min(place, latest)))
        if earliest > latest or any(members.get(source, -1) >= offset for source, offset in sources):
            self.sort()

    def _readers(
        self, value: Value, members: Mapping[Node, int], returned: Mapping[Value, Mapping[Node, None]]
    ) -> Iterator[int]:
        holders = {owner_in(self._graph, reader) for reader, _ in value.uses}
        for node in (*holders, *returned.get(value, ())):
            if node is not None and node not in members:
                yield self.of(node)

    def sort(self) -> None:
        """Put the nodes into topological order; those that need not move keep their order.

        Raises:
            InvalidGraph: There is a cycle.
        """
        nodes = self._graph.nodes
        position = {node: index for index, node in enumerate(nodes)}
        waiting: dict[Node, int] = {}
        readers: dict[Node, list[Node]] = {}
        for node in nodes:
            sources = {source for source in _sources(node) if source in position}
            waiting[node] = len(sources)
            for source in sources:
                readers.setdefault(source, []).append(node)
        ready = [position[node] for node in nodes if waiting[node] == 0]
        ordered: list[Node] = []
        while ready:  # starts sorted, so it is a heap
            node = nodes[heapq.heappop(ready)]
            ordered.append(node)
            for reader in readers.get(node, ()):
                waiting[reader] -= 1
                if waiting[reader] == 0:
                    heapq.heappush(ready, position[reader])
        if len(ordered) < len(nodes):
            raise _cycle(self._graph, [node for node in nodes if waiting[node] > 0])
        self.keep(ordered)


def _cycle(graph: Graph, stuck: list[Node]) -> InvalidGraph:
    names = ", ".join(node.name for node in stuck[:10])
    return InvalidGraph(
        f"The nodes of graph '{graph.name}' form a cycle.",
        where=stuck[0].location,
        why=f"these wait for each other or for one that does: {names}{' …' if len(stuck) > 10 else ''}",
        fix="Do not let new nodes read what depends on them.",
    )
