"""Nodes in an order in which each comes after what it reads, its nested graphs' reads included.

ONNX wants files sorted; onnxruntime accepts unsorted ones, and so do we. Comes right after `build`. Sorting is
Kahn's algorithm: no recursion, and the order of the file is kept wherever it is right.
"""

from __future__ import annotations

from collections import deque

from ort_py.errors import InconsistentGraph
from ort_py.graph.checking.problems import Problem
from ort_py.graph.ir import Graph, Model, Node, Value, walk


def sort_model(model: Model) -> None:
    """Sort every graph of a model in place; adds a problem to `Model.problems` for each graph with a cycle."""
    graphs = list(walk(model.graph))
    captured = _captures(graphs)
    for graph in graphs:
        if not _is_sorted(graph, captured):
            _sort(graph, captured)


def _captures(graphs: list[Graph]) -> dict[Node, dict[Value, None]]:
    """Values of its own graph that a node reads through its nested graphs."""
    found: dict[Node, dict[Value, None]] = {}
    for graph in graphs:
        if graph.owner is None:
            continue
        reads = [value for node in graph.nodes for value in node.inputs if value is not None]
        for value in dict.fromkeys(reads + graph.outputs):
            if value.graph is graph:
                continue
            owner: Node | None = graph.owner
            while owner is not None and owner.graph is not value.graph:
                owner = owner.graph.owner
            if owner is not None:
                found.setdefault(owner, {})[value] = None
    return found


def _is_sorted(graph: Graph, captured: dict[Node, dict[Value, None]]) -> bool:
    done: set[Node] = set()
    for node in graph.nodes:
        for value in node.inputs:
            if value is not None and value.graph is graph and value.producer is not None and value.producer not in done:
                return False
        for value in captured.get(node, ()):
            if value.producer is not None and value.producer not in done:
                return False
        done.add(node)
    return True


def _producers(node: Node, captured: dict[Node, dict[Value, None]]) -> set[Node]:
    graph = node.graph
    found = {value.producer for value in node.inputs if value is not None and value.graph is graph}
    found |= {value.producer for value in captured.get(node, ())}
    return {producer for producer in found if producer is not None}


def _sort(graph: Graph, captured: dict[Node, dict[Value, None]]) -> None:
    readers: dict[Node, list[Node]] = {}
    missing: dict[Node, int] = {}
    for node in graph.nodes:
        producers = _producers(node, captured)
        missing[node] = len(producers)
        for producer in producers:
            readers.setdefault(producer, []).append(node)
    ready = deque(node for node in graph.nodes if not missing[node])
    ordered: list[Node] = []
    while ready:
        node = ready.popleft()
        ordered.append(node)
        for reader in readers.get(node, ()):
            missing[reader] -= 1
            if not missing[reader]:
                ready.append(reader)
    if len(ordered) < len(graph.nodes):
        left = [node for node in graph.nodes if missing[node]]
        graph.model.problems.append(Problem(_describe_cycle(_cycle(left, captured)), InconsistentGraph))
        ordered += left
    graph.nodes = ordered


def _cycle(left: list[Node], captured: dict[Node, dict[Value, None]]) -> list[Node]:
    """One cycle among nodes each of which waits for another of them."""
    waiting = set(left)
    trail: dict[Node, None] = {}
    node = left[0]
    while node not in trail:
        trail[node] = None
        node = next(producer for producer in _producers(node, captured) if producer in waiting)
    steps = list(trail)
    return steps[steps.index(node) :][::-1]


def _describe_cycle(cycle: list[Node]) -> str:
    shown = [f"'{node.name}' ({node.op_type})" for node in cycle[:6]]
    if len(cycle) > 6:
        shown.append(f"{len(cycle) - 6} more")
    return f"Nodes depend on each other in a cycle: {' -> '.join([*shown, repr(cycle[0].name)])}."
