"""The order of nodes and regions."""

from __future__ import annotations

import pytest

from core.tests.driving import typed_model
from ort_py.errors import EngineError
from ort_py.graph.ir import Graph
from ort_py.partition.assignment import Region
from ort_py.planning.schedule import schedule

CROSSED = """
g (float[2] x) => (float[2] d, float[2] c) { a = Neg(x) b = Abs(x) c = Relu(b) d = Exp(a) }
"""


def region(graph: Graph, *names: str) -> Region:
    """A region of the nodes with these first outputs."""
    nodes = tuple(node for node in graph.nodes if node.outputs[0] is not None and node.outputs[0].name in names)
    return Region("P", nodes, "+".join(names))


def order(graph: Graph, *regions: Region) -> list[str]:
    """Names of the units in order."""
    return [unit.name if isinstance(unit, Region) else str(unit.op_type) for unit in schedule(graph, regions)]


def test_without_regions_the_graphs_order_stands() -> None:
    """The order of the file is a good one already."""
    assert order(typed_model(CROSSED).graph) == ["Neg", "Abs", "Relu", "Exp"]


def test_a_region_runs_when_its_last_input_is_ready() -> None:
    """A region over the first and last node of a diamond's half waits for neither more nor less."""
    graph = typed_model(CROSSED).graph
    assert order(graph, region(graph, "a", "d")) == ["a+d", "Abs", "Relu"]
    assert order(graph, region(graph, "b", "c"), region(graph, "a", "d")) == ["a+d", "b+c"]


def test_a_region_waits_for_what_its_nested_graphs_read() -> None:
    """A capture is a dependency, also where a nested graph only returns it."""
    text = """
    g (float[2] x, bool c) => (float[2] y) {
      a = Neg(x)
      b = Abs(x)
      y = If (c) <then_branch = t () => (float[2] a) {}, else_branch = e () => (float[2] r) { r = Exp(b) }>
    }
    """
    graph = typed_model(text).graph
    assert order(graph, region(graph, "y")) == ["Neg", "Abs", "y"]


def test_a_reader_inside_a_nested_graph_waits_for_the_region() -> None:
    """A node whose nested graph reads a region's result comes after the region."""
    text = """
    g (float[2] x, bool c) => (float[2] y, float[2] z) {
      a = Neg(x)
      y = If (c) <then_branch = t () => (float[2] r) { r = Exp(a) }, else_branch = e () => (float[2] a) {}>
      b = Abs(x)
      z = Add(a, b)
    }
    """
    graph = typed_model(text).graph
    assert order(graph, region(graph, "a", "b")) == ["a+b", "If", "Add"]


def test_regions_that_wait_for_each_other_are_named() -> None:
    """The partitioner prevents this; if it did not, the error says which regions."""
    graph = typed_model(
        "g (float[2] x) => (float[2] d, float[2] c) { a = Neg(x) b = Abs(x) c = Relu(b) d = Exp(a) }"
    ).graph
    with pytest.raises(EngineError) as caught:
        schedule(graph, [region(graph, "a", "c"), region(graph, "b", "d")])
    assert "The regions of graph 'g' depend on each other." in str(caught.value)
    assert "a+c" in str(caught.value)
    assert "b+d" in str(caught.value)
