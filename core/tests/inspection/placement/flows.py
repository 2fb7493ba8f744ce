"""Flows in a few letters, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Sequence

from ort_py.inspection.placement.flow import NOBODY, Flow, FlowGraph, FlowValue

__all__ = ["flow_from", "value"]


def value(
    name: str, producer: int, readers: Sequence[int], nbytes: int | None = 4, returned: bool = False
) -> FlowValue:
    """A value of four bytes, or of `nbytes`."""
    symbols = ("N",) if nbytes is None else ()
    return FlowValue(name, "tensor(float)", nbytes, 4, symbols, producer, tuple(readers), returned)


def flow_from(count: int, edges: Sequence[tuple[int, int]], owners: Sequence[tuple[int, Sequence[int]]] = ()) -> Flow:
    """A flow of `count` nodes with an edge a pair.

    Args:
        count: Nodes.
        edges: (producer, reader).
        owners: Nested graphs: the owning node and the nodes inside.
    """
    graph_of = [0] * count
    for number, (_, inside) in enumerate(owners, 1):
        for node in inside:
            graph_of[node] = number
    graphs = [FlowGraph("g", NOBODY, tuple(node for node in range(count) if graph_of[node] == 0))]
    graphs += [FlowGraph(f"body{owner}", owner, tuple(inside)) for owner, inside in owners]
    readers: dict[int, list[int]] = {}
    for producer, reader in edges:
        readers.setdefault(producer, []).append(reader)
    values = tuple(value(f"v{producer}", producer, found) for producer, found in readers.items())
    return Flow(tuple(graphs), tuple(graph_of), values)
