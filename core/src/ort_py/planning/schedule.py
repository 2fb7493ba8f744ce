"""The order of the units of one graph: nodes, and regions as single points.

Without regions the graph's own order stands. With them, a region runs where its last input is ready.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import TypeAlias

from ort_py.errors import EngineError
from ort_py.graph.ir import Graph, Node
from ort_py.partition.assignment import Region

Unit: TypeAlias = Node | Region


def schedule(graph: Graph, regions: Sequence[Region]) -> list[Unit]:
    """Units in an order that respects every dependency, as near to the graph's order as that allows.

    Raises:
        EngineError: The regions wait for each other; the partitioner must not let that happen.
    """
    if not regions:
        return list(graph.nodes)
    unit_of: dict[Node, Unit] = {node: node for node in graph.nodes}
    for region in regions:
        for node in region.nodes:
            unit_of[node] = region
    place: dict[Unit, int] = {}
    for position, node in enumerate(graph.nodes):
        place.setdefault(unit_of[node], position)
    waits: dict[Unit, set[Unit]] = {unit: set() for unit in place}
    readers: dict[Unit, set[Unit]] = {unit: set() for unit in place}
    for node in graph.nodes:
        for value in node.outputs:
            for user, _ in value.uses if value is not None else ():
                reader = unit_of.get(_node_in(graph, user))
                if reader is not None and reader is not unit_of[node]:
                    waits[reader].add(unit_of[node])
                    readers[unit_of[node]].add(reader)
        # A nested graph may return an outer value without any node reading it.
        for nested in node.subgraphs:
            for captured in nested.captures():
                producer = captured.producer
                if producer is not None and producer.graph is graph:
                    source = unit_of[producer]
                    if source is not unit_of[node]:
                        waits[unit_of[node]].add(source)
                        readers[source].add(unit_of[node])
    numbered = list(place)
    number = {unit: index for index, unit in enumerate(numbered)}
    ready = [(place[unit], number[unit]) for unit in numbered if not waits[unit]]
    heapq.heapify(ready)
    order: list[Unit] = []
    while ready:
        unit = numbered[heapq.heappop(ready)[1]]
        order.append(unit)
        for reader in readers[unit]:
            waits[reader].discard(unit)
            if not waits[reader]:
                heapq.heappush(ready, (place[reader], number[reader]))
    if len(order) != len(numbered):
        stuck = [unit.name for unit in numbered if waits[unit]]
        raise EngineError(
            f"The regions of graph '{graph.name}' depend on each other.",
            why=stuck[:10],
            fix="This is a defect of ort-py: please report it together with the model.",
        )
    return order


def _node_in(graph: Graph, node: Node) -> Node:
    """The node of `graph` that is or contains `node`; the outermost one where neither holds."""
    current = node
    while current.graph is not graph and current.graph.owner is not None:
        current = current.graph.owner
    return current
