"""Sorting, seen from outside in `test_loader`; here what only large graphs show."""

from __future__ import annotations

import random

import pytest
from onnx import TensorProto, helper

from ort_py.graph.reading.loader import load_model

pytestmark = pytest.mark.quick


def test_a_shuffled_chain_is_sorted() -> None:
    """Five thousand nodes in random order come out in the only right one."""
    nodes = [helper.make_node("Neg", [f"v{i}"], [f"v{i + 1}"]) for i in range(5000)]
    random.Random(4).shuffle(nodes)
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("v0", TensorProto.FLOAT, [])], [])
    model = load_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    assert [node.name for node in model.graph.nodes] == [f"v{i + 1}" for i in range(5000)]


def test_long_cycles_are_shortened() -> None:
    """A cycle of a thousand nodes is described by a few."""
    nodes = [helper.make_node("Neg", [f"v{i}"], [f"v{(i + 1) % 1000}"]) for i in range(1000)]
    graph = helper.make_graph(nodes, "g", [], [])
    model = load_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    (problem,) = model.problems
    assert "994 more" in problem
    assert len(problem) < 400
