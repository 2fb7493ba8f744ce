"""The list of a graph's nodes while it changes: each node is found where it stands, whatever is put in or taken out."""

from __future__ import annotations

import random

import pytest

from ort_py.graph.editing.positions import NodeList
from ort_py.graph.ir import Graph, Node
from ort_py_kit.graphs import typed_model


def _listed(count: int) -> tuple[Graph, NodeList]:
    """A graph of nodes that read nothing of each other, and its list."""
    lines = " ".join(f"v{index} = Neg(x)" for index in range(count))
    graph = typed_model(f"g (float[2] x) => (float[2] v0) {{ {lines} }}").graph
    return graph, NodeList(graph, lambda _: ())


def _new(graph: Graph, count: int) -> list[Node]:
    return [Node("Neg", (graph.inputs[0],), graph, name=f"new{index}") for index in range(count)]


def _check(graph: Graph, nodes: NodeList, expected: list[Node]) -> None:
    assert graph.nodes == expected
    assert [nodes.of(node) for node in expected] == list(range(len(expected)))
    ranks = [nodes.rank(node) for node in expected]
    assert ranks == sorted(set(ranks))


def test_nodes_go_in_before_one_that_others_were_put_behind() -> None:
    """The holder keeps its rank, so what was appended behind it is still behind it, and can be taken out."""
    graph, nodes = _listed(2)
    holder = graph.nodes[1]
    (appended,) = _new(graph, 1)
    nodes.append(appended)
    before = nodes.rank(holder)
    added = _new(graph, 3)
    nodes.insert_before(added, holder)
    assert nodes.rank(holder) == before
    _check(graph, nodes, [graph.nodes[0], *added, holder, appended])
    nodes.remove([holder])
    _check(graph, nodes, [graph.nodes[0], *added, appended])


@pytest.mark.parametrize("seed", range(20))
def test_edits_in_any_order_do_what_a_plain_list_does(seed: int) -> None:
    """Ranks stay unique and ordered as the list is after appending, inserting before a node, replacing and removing."""
    draw = random.Random(seed)
    graph, nodes = _listed(5)
    expected = list(graph.nodes)
    for _ in range(200):
        place = draw.randrange(len(expected))
        at = expected[place]
        match draw.choice(["append", "before", "replace", "remove"]):
            case "append":
                (one,) = _new(graph, 1)
                nodes.append(one)
                expected.append(one)
            case "before":
                added = _new(graph, draw.randrange(4))
                nodes.insert_before(added, at)
                expected[place:place] = added
            case "replace":
                (one,) = _new(graph, 1)
                nodes.insert([one], nodes.remove([at]))
                expected[place] = one
            case "remove" if len(expected) > 2:
                nodes.remove([at])
                expected.remove(at)
        _check(graph, nodes, expected)
