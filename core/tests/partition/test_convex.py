"""Convex regions: whatever nodes are wanted, regions and the rest can always be put in an order."""

from __future__ import annotations

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from ort_py.graph.reading.loader import load_model
from ort_py.graph.view import ModelGraphView
from ort_py.partition.convex import ContractedGraph

Edges = list[tuple[int, ...]]


def graph_of(inputs_of: Edges) -> ModelGraphView:
    """A graph of Sum nodes; entry i names the nodes whose results node i reads."""
    nodes = [
        helper.make_node("Sum", [f"v{source}" for source in sources] or ["x"], [f"v{index}"], f"n{index}")
        for index, sources in enumerate(inputs_of)
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    results = [helper.make_tensor_value_info(f"v{index}", TensorProto.FLOAT, [1]) for index in range(len(nodes))]
    graph = helper.make_graph(nodes, "g", [x], results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    assert isinstance(model, onnx.ModelProto)
    return ModelGraphView(load_model(model).graph)


def has_order(inputs_of: Edges, regions: list[tuple[int, ...]]) -> bool:
    """Whether the graph with these regions as single points has no cycle."""
    unit = {node: -1 - number for number, region in enumerate(regions) for node in region}
    waits: dict[int, set[int]] = {unit.get(node, node): set() for node in range(len(inputs_of))}
    for node, sources in enumerate(inputs_of):
        waits[unit.get(node, node)] |= {unit.get(source, source) for source in sources}
    for name, needed in waits.items():
        needed.discard(name)
    done: set[int] = set()
    while len(done) < len(waits):
        ready = [name for name in waits if name not in done and waits[name] <= done]
        if not ready:
            return False
        done.update(ready)
    return True


def test_a_chain_is_one_region() -> None:
    """Nodes in a row need no cut."""
    assert ContractedGraph(graph_of([(), (0,), (1,)])).split([0, 1, 2]) == [(0, 1, 2)]


def test_a_way_out_and_back_cuts() -> None:
    """0 → 1 → 2 with 1 outside: 2 depends on 1, which depends on 0, so 0 and 2 cannot be one region."""
    assert ContractedGraph(graph_of([(), (0,), (0, 1)])).split([0, 2]) == [(0,), (2,)]


def test_unconnected_nodes_stay_together() -> None:
    """A claim is one region even where its parts do not touch."""
    assert ContractedGraph(graph_of([(), (), ()])).split([0, 2]) == [(0, 2)]


def test_two_convex_regions_that_wait_for_each_other_are_cut() -> None:
    """0→3 and 1→2: {0,2} and {1,3} are convex alone, but each would need a result of the other first."""
    edges: Edges = [(), (), (1,), (0,)]
    contracted = ContractedGraph(graph_of(edges))
    (first,) = contracted.split([0, 2])
    assert first == (0, 2)
    contracted.add_region(first)
    second = contracted.split([1, 3])
    assert second == [(1,), (3,)]
    assert has_order(edges, [first, *second])
    assert not has_order(edges, [(0, 2), (1, 3)])


@st.composite
def claims(draw: st.DrawFn) -> tuple[Edges, list[set[int]]]:
    """A random graph and the nodes that claims, one after another, ask for."""
    count = draw(st.integers(1, 14))
    edges: Edges = []
    for node in range(count):
        sources = draw(st.sets(st.integers(0, node - 1), max_size=3)) if node else set()
        edges.append(tuple(sorted(sources)))
    wanted = draw(st.lists(st.sets(st.integers(0, count - 1), min_size=1), min_size=1, max_size=4))
    return edges, wanted


@settings(deadline=None)  # a busy machine is not a failure
@given(claims())
def test_regions_and_the_rest_can_always_be_ordered(case: tuple[Edges, list[set[int]]]) -> None:
    """Each wanted node is in exactly one region of its claim, and there is an order after every claim."""
    edges, wanted = case
    contracted = ContractedGraph(graph_of(edges))
    left = set(range(len(edges)))
    regions: list[tuple[int, ...]] = []
    for claim in wanted:
        groups = contracted.split(claim & left)
        assert sorted(node for group in groups for node in group) == sorted(claim & left)
        for group in groups:
            contracted.add_region(group)
        left -= claim
        regions += groups
        assert has_order(edges, regions)


def test_groups_that_fit_are_contracted_together() -> None:
    """Two chains with a node between them are two regions, found in one walk."""
    contracted = ContractedGraph(graph_of([(), (0,), (1,), (2,), (3,)]))
    assert contracted.split_all([[0, 1], [3, 4]]) == [[(0, 1)], [(3, 4)]]


def test_groups_that_wait_for_each_other_are_cut() -> None:
    """0 → 1 and 2 → 3 with {0, 3} and {1, 2}: each alone is convex, together they are not."""
    edges: Edges = [(), (0,), (), (2,)]
    parts = ContractedGraph(graph_of(edges)).split_all([[0, 3], [1, 2]])
    assert has_order(edges, [part for group in parts for part in group])


@st.composite
def colourings(draw: st.DrawFn) -> tuple[Edges, list[list[int]]]:
    """A random graph, and disjoint groups of its nodes."""
    count = draw(st.integers(1, 14))
    edges = [
        tuple(sorted(draw(st.sets(st.integers(0, index - 1), max_size=3)))) if index else () for index in range(count)
    ]
    colours = [draw(st.integers(0, 3)) for _ in range(count)]
    groups = [[node for node, colour in enumerate(colours) if colour == wanted] for wanted in (1, 2, 3)]
    return edges, [group for group in groups if group]


@settings(deadline=None)  # a busy machine is not a failure
@given(colourings(), st.booleans())
def test_all_groups_at_once_can_be_ordered(case: tuple[Edges, list[list[int]]], coarse: bool) -> None:
    """Whichever way they are cut, nothing is lost and an order exists."""
    edges, groups = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ort_py.partition.convex._EXACT_STEPS", 0 if coarse else 400_000)
        parts = ContractedGraph(graph_of(edges)).split_all(groups)
    assert [sorted(node for part in group for node in part) for group in parts] == groups
    assert has_order(edges, [part for group in parts for part in group])
