"""Whole graphs typed by rules: what ONNX's inference gives for them, the names that it makes up included."""

from __future__ import annotations

import pytest

from ort_py.graph.ir import Value, walk
from ort_py.graph.reading.loader import load_model
from ort_py.graph.typing.inference import run_inference
from ort_py.graph.typing.rules.graphs import ruled_graph
from ort_py_kit.graphs import model_from_text

GRAPHS = {
    "chain": "g (float[N, 4] x, float[4, 2] w) => (float[N, 2] y) { m = MatMul(x, w) y = Relu(m) }",
    "unknown sizes": """g (float[N, 4] x, int64[2] s) => (float[A, B] y) {
        r = Reshape(x, s) n = Neg(r) y = Add(r, n)
    }""",
    "names that look made up": """g (float[unk__0, 4] x, int64[2] s) => (float[A, B] y) {
        r = Reshape(x, s) y = Neg(r)
    }""",
    "branches": """g (float[N, 4] x, bool c) => (float[A, B] y) {
        y = If(c) <
            then_branch = t () => (float[A, B] p) { p = Neg(x) },
            else_branch = e () => (float[A, B] q) { q = Transpose(x) }
        >
    }""",
    "ranks that differ": """g (float[N, 4] x, bool c) => (float[A] y) {
        z = If(c) <
            then_branch = t () => (p) { p = Neg(x) },
            else_branch = e () => (q) <int64[1] one = {1}> { q = Unsqueeze(x, one) }
        >
        y = Relu(z)
    }""",
    "a node without inference": """g (float[2, 4] x, int64[1, 1] i) => (float[A] y) {
        z = GatherND(x, i) y = Relu(z)
    }""",
}


@pytest.mark.parametrize("text", GRAPHS.values(), ids=list(GRAPHS))
def test_graphs_are_typed_as_onnx_types_them(text: str) -> None:
    graph = load_model(model_from_text(text)).graph
    given = {value: value.type for value in graph.inputs if value.type is not None}
    found, expected = ruled_graph(graph, given), run_inference(graph, given, strict=True)
    values: list[Value] = [*graph.inputs]
    for one in walk(graph):
        values += [value for node in one.nodes for value in node.outputs if value is not None]
    assert found is not None
    assert [found.get(value) for value in values] == [expected.types.get(value) for value in values]
    assert not expected.errors


def test_types_that_are_given_are_joined_with_what_follows() -> None:
    graph = load_model(model_from_text("g (float[N, M] x) => (float[3, K] y) { y = Relu(x) }")).graph
    given = {value: value.type for value in (*graph.inputs, *graph.outputs) if value.type is not None}
    found, expected = ruled_graph(graph, given), run_inference(graph, given, strict=True).types
    assert found is not None
    assert found[graph.outputs[0]] == expected[graph.outputs[0]]


@pytest.mark.parametrize(
    "text",
    [
        "g (float[N, 4] x) => (float[N, 4] y) { m = Celu(x) y = Relu(m) }",
        "g (float[N, 4] x, float[3] w) => (float[N, 4] y) { y = Add(x, w) }",
    ],
    ids=["an operator without a rule", "a contradiction"],
)
def test_other_graphs_are_left_to_onnx(text: str) -> None:
    graph = load_model(model_from_text(text)).graph
    given = {value: value.type for value in graph.inputs if value.type is not None}
    assert ruled_graph(graph, given) is None
