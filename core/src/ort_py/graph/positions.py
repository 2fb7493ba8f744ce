"""Where nodes stand in a graph's list while the list changes, and putting the list back in order.

Used by `edit` alone. A graph with tens of thousands of nodes may see thousands of edits: positions are remembered,
looked for near where they were, and read anew only after many changes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from ort_py.errors import InvalidGraph
from ort_py.graph.ir import Graph, Node

__all__ = ["Positions", "owner_in", "producers_of", "sort_nodes"]

REREAD_AFTER = 128
"""Moved places a remembered position may be off before all are read anew: searching that far costs about as much as
a hundredth of reading 20,000 positions."""


def owner_in(graph: Graph, node: Node) -> Node | None:
    """The node of `graph` that is `node` or holds it at some depth; None where it is elsewhere."""
    current: Node | None = node
    while current is not None and current.graph is not graph:
        current = current.graph.owner
    return current


def producers_of(node: Node) -> Iterator[Node]:
    """Nodes of the node's own graph that write what it or its nested graphs read."""
    for value in node.inputs:
        if value is not None and value.producer is not None and value.graph is node.graph:
            yield value.producer
    for nested in node.subgraphs:
        for value in nested.captures():
            if value.producer is not None and value.graph is node.graph:
                yield value.producer


class Positions:
    """Positions of a graph's nodes.

    Args:
        graph: The graph. Whoever changes its list of nodes says so with `moved`.
    """

    __slots__ = ("_drift", "_graph", "_known")

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._known: dict[Node, int] = {}
        self._drift = REREAD_AFTER + 1

    def of(self, node: Node) -> int:
        """Position of a node of the graph.

        Raises:
            KeyError: The node is not in the graph.
        """
        if self._drift <= REREAD_AFTER:
            near = self._known.get(node)
            if near is not None:
                found = self._search(node, near)
                if found is not None:
                    return found
        self._read()
        return self._known[node]

    def moved(self, places: int, added: dict[Node, int] | None = None) -> None:
        """Nodes moved by up to `places`; `added` have come."""
        self._drift += places
        self._known.update(added or {})

    def _search(self, node: Node, near: int) -> int | None:
        nodes = self._graph.nodes
        count = len(nodes)
        for distance in range(self._drift + 1):
            for position in (near - distance, near + distance):
                if 0 <= position < count and nodes[position] is node:
                    return position
        return None

    def _read(self) -> None:
        self._known = {node: position for position, node in enumerate(self._graph.nodes)}
        self._drift = 0


def sort_nodes(graph: Graph) -> None:
    """Put the nodes into topological order; those that need not move keep their order.

    Raises:
        InvalidGraph: There is a cycle.
    """
    position = {node: index for index, node in enumerate(graph.nodes)}
    waiting: dict[Node, int] = {}
    readers: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        sources = {source for source in producers_of(node) if source in position}
        waiting[node] = len(sources)
        for source in sources:
            readers.setdefault(source, []).append(node)
    ready = [position[node] for node in graph.nodes if waiting[node] == 0]
    ordered: list[Node] = []
    while ready:  # `ready` starts sorted, so it is a heap
        node = graph.nodes[heapq.heappop(ready)]
        ordered.append(node)
        for reader in readers.get(node, ()):
            waiting[reader] -= 1
            if waiting[reader] == 0:
                heapq.heappush(ready, position[reader])
    if len(ordered) < len(graph.nodes):
        stuck = [node.name for node in graph.nodes if waiting[node] > 0]
        raise InvalidGraph(
            f"The nodes of graph '{graph.name}' form a cycle.",
            where=graph.nodes[position[next(node for node in graph.nodes if waiting[node] > 0)]].location,
            why=f"these nodes wait for each other: {', '.join(stuck[:10])}{' …' if len(stuck) > 10 else ''}",
            fix="Remove the edge that leads back; in a transform, do not let new nodes read what depends on them.",
        )
    graph.nodes[:] = ordered
