"""The invariants of a graph, checked: names, producers, uses, order, outputs.

Used by tests and, where debugging is on, after each transform. It finds what went wrong where it went wrong; a graph
that passes can be planned. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from ort_py.errors import EngineError
from ort_py.graph.ir import Graph, Node, Value, walk


def verify(graph: Graph) -> None:
    """Check a graph and all graphs nested in it.

    Raises:
        EngineError: An invariant of `ort_py.graph.ir` does not hold; lists every violation.
    """
    problems = graph_problems(graph)
    if problems:
        raise EngineError(
            f"The graph '{graph.name}' is inconsistent.",
            why=problems[:20],
            fix="This is a defect of the last change to the graph, not of the model: please report it.",
        )


def graph_problems(graph: Graph) -> list[str]:
    """Describe every violated invariant; empty if all hold."""
    problems: list[str] = []
    names: dict[str, Value] = {}
    expected: dict[Value, set[tuple[Node, int]]] = {}
    seen: set[Value] = set()
    for inner in walk(graph):
        problems.extend(_check_nodes(inner))
        for value in _values(inner):
            if value in seen:
                problems.append(f"value '{value.name}' is defined twice")
            seen.add(value)
            if value.graph is not inner:
                problems.append(f"value '{value.name}' is in graph '{inner.name}' but refers to another graph")
            if names.setdefault(value.name, value) is not value:
                problems.append(f"two values are called '{value.name}'")
        for node in inner.nodes:
            for position, read in enumerate(node.inputs):
                if read is not None:
                    expected.setdefault(read, set()).add((node, position))
        problems.extend(_check_outputs(inner))
    for value in seen | set(expected):
        uses = set(value.uses)
        wanted = expected.get(value, set())
        if value in seen and uses != wanted:
            problems.append(f"value '{value.name}' lists {len(uses)} uses but has {len(wanted)}")
        elif not uses >= wanted:
            problems.append(f"outer value '{value.name}' lacks some of its uses")
    problems.extend(_check_order(graph))
    return problems


def _values(graph: Graph) -> Iterator[Value]:
    yield from graph.inputs
    for name, value in graph.initializers.items():
        if value.name == name:
            yield value
    for node in graph.nodes:
        for output in node.outputs:
            if output is not None:
                yield output


def _check_nodes(graph: Graph) -> Iterator[str]:
    names: set[str] = set()
    for node in graph.nodes:
        if node.graph is not graph:
            yield f"node '{node.name}' is in graph '{graph.name}' but refers to another graph"
        if node.name in names:
            yield f"two nodes of graph '{graph.name}' are called '{node.name}'"
        names.add(node.name)
        for value in node.outputs:
            if value is not None and value.producer is not node:
                yield f"value '{value.name}' does not know its producer '{node.name}'"
        for nested in node.subgraphs:
            if nested.owner is not node:
                yield f"graph '{nested.name}' does not know its owner '{node.name}'"
    for value in graph.inputs:
        if value.producer is not None or value.weight is not None:
            yield f"input '{value.name}' has a producer or a weight"
    for name, value in graph.initializers.items():
        if value.name != name:
            yield f"initializer '{value.name}' is listed as '{name}'"
        if value.weight is None or value.producer is not None:
            yield f"initializer '{value.name}' has no weight, or has a producer"


def _check_outputs(graph: Graph) -> Iterator[str]:
    returned = {value for value in graph.outputs if value.graph is graph}
    for value in _values(graph):
        if value.is_graph_output != (value in returned):
            yield f"value '{value.name}' is wrongly marked as an output or as no output"
    defined = set(_values(graph))
    for value in returned - defined:
        yield f"output '{value.name}' of graph '{graph.name}' has no producer"


def _check_order(graph: Graph) -> Iterator[str]:
    """Each value that is read is defined before, in the graph itself or in one around it."""
    outside = graph.owner is not None
    inside = set(walk(graph))
    known: set[Value] = set()
    # A graph is entered, a node's outputs come to be once the graphs in it are left, a running graph gives its nodes.
    stack: list[Graph | Node | tuple[Graph, Iterator[Node]]] = [graph]
    while stack:
        item = stack.pop()
        if isinstance(item, Graph):
            known.update(item.inputs)
            known.update(item.initializers.values())
            stack.append((item, iter(item.nodes)))
            continue
        if isinstance(item, Node):
            known.update(value for value in item.outputs if value is not None)
            continue
        current, nodes = item
        node = next(nodes, None)
        read = [value for value in (current.outputs if node is None else node.inputs) if value is not None]
        for value in read:
            if value not in known and not (outside and value.graph not in inside):
                reader = f"graph '{current.name}' returns" if node is None else f"node '{node.name}' reads"
                yield f"{reader} '{value.name}', which is not defined there"
        if node is None:
            known.difference_update(_values(current))
        else:
            stack += [item, node, *reversed(node.subgraphs)]
