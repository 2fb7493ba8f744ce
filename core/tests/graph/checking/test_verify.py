"""Every invariant that can be broken is found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ort_py.errors import EngineError
from ort_py.graph.checking.verify import graph_problems, verify
from ort_py.graph.ir import Graph, Value, connect
from ort_py_kit.graphs import typed_model

TEXT = """g (float[2] x, bool c) => (float[2] y) <float w = {1}> {
    a = Mul(x, w)
    y = If(c) <then_branch = t () => (float[2] p) { k = Neg(a) p = Relu(k) },
               else_branch = e () => (float[2] q) { q = Abs(x) }>
}"""


def test_a_loaded_model_is_consistent() -> None:
    """Nothing to find, in nested graphs either."""
    assert graph_problems(typed_model(TEXT).graph) == []


def _swap(graph: Graph) -> None:
    graph.nodes.reverse()


def _lose_use(graph: Graph) -> None:
    graph.inputs[0].uses.clear()


def _rename(graph: Graph) -> None:
    graph.nodes[0].outputs[0].name = "x"  # type: ignore[union-attr]  # the output is there


def _rename_initializer(graph: Graph) -> None:
    graph.initializers["w"].name = "v"


def _node_name(graph: Graph) -> None:
    graph.nodes[0].name = graph.nodes[1].name


def _producer(graph: Graph) -> None:
    graph.nodes[0].outputs[0].producer = None  # type: ignore[union-attr]


def _wrong_graph(graph: Graph) -> None:
    graph.nodes[0].graph = graph.nodes[1].subgraphs[0]


def _value_graph(graph: Graph) -> None:
    graph.inputs[0].graph = graph.nodes[1].subgraphs[0]


def _owner(graph: Graph) -> None:
    graph.nodes[1].subgraphs[0].owner = graph.nodes[0]


def _flag(graph: Graph) -> None:
    graph.outputs[0].is_graph_output = False


def _dangling(graph: Graph) -> None:
    value = Value("z", graph)
    value.is_graph_output = True
    graph.outputs.append(value)


def _input_with_weight(graph: Graph) -> None:
    graph.inputs[0].weight = graph.initializers["w"].weight


def _no_weight(graph: Graph) -> None:
    graph.initializers["w"].weight = None


def _inner_read_outside(graph: Graph) -> None:
    inner = graph.nodes[1].subgraphs[0].nodes[0].outputs[0]
    connect(graph.nodes[0], [inner, graph.initializers["w"]])


def _inner_order(graph: Graph) -> None:
    graph.nodes[1].subgraphs[0].nodes.reverse()


def _twice(graph: Graph) -> None:
    graph.inputs.append(graph.inputs[0])


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (_swap, "node 'p' reads|node 'k' reads 'a', which is not defined there"),
        (_lose_use, "value 'x' lists 0 uses but has 2"),
        (_rename, "two values are called 'x'"),
        (_rename_initializer, "initializer 'v' is listed as 'w'"),
        (_node_name, "two nodes of graph 'g' are called 'y'"),
        (_producer, "value 'a' does not know its producer 'a'"),
        (_wrong_graph, "node 'a' is in graph 'g' but refers to another graph"),
        (_value_graph, "value 'x' is in graph 'g' but refers to another graph"),
        (_owner, "graph 't' does not know its owner 'y'"),
        (_flag, "value 'y' is wrongly marked as an output or as no output"),
        (_dangling, "output 'z' of graph 'g' has no producer"),
        (_input_with_weight, "input 'x' has a producer or a weight"),
        (_no_weight, "initializer 'w' has no weight"),
        (_inner_read_outside, "node 'a' reads 'k', which is not defined there"),
        (_inner_order, "node 'p' reads 'k', which is not defined there"),
        (_twice, "value 'x' is defined twice"),
    ],
)
def test_violations_are_found(spoil: Callable[[Graph], None], text: str) -> None:
    graph = typed_model(TEXT).graph
    spoil(graph)
    with pytest.raises(EngineError, match="is inconsistent") as caught:
        verify(graph)
    assert any(part in str(caught.value) for part in text.split("|"))
