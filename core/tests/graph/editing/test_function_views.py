"""The function of a fused node as a graph: versions, types, constants, and functions inside of functions."""

from __future__ import annotations

import numpy as np

from core.tests.graph.editing.test_fusing import SCALED, editor, fuse
from ort_py.contracts import GraphView, NodeTemplate
from ort_py.graph.editing.edit import Editor
from ort_py.graph.view import ModelGraphView
from ort_py_kit.graphs import typed_model

CONVOLUTION = """g (float16[1, 2, 5, 5] x) => (float16[1, 2, H, W] y) <float16[2, 2, 3, 3] w = {WEIGHTS}> {
    a = Conv(x, w) y = Relu(a)
}""".replace("WEIGHTS", ", ".join(["1"] * 36))


def view_of(edited: Editor, op_type: str) -> tuple[GraphView, int]:
    """A view of the whole graph, and the index of its only node of an operator."""
    view = ModelGraphView(edited.graph)
    (index,) = [node.index for node in view.nodes if node.op_type == op_type]
    return view, index


def test_nodes_have_versions_and_types() -> None:
    """Versions are those of the body's opset, types follow from the fused node's inputs."""
    edited = Editor(typed_model(CONVOLUTION, 13).graph)
    conv, relu = (edited.producer(name) for name in ("a", "y"))
    assert conv is not None
    assert relu is not None
    edited.fuse([conv, relu], NodeTemplate("Fused", ("x", "w"), ("y",), domain="org.example"))
    view, index = view_of(edited, "Fused")
    body = view.function(view.nodes[index])
    assert body is not None
    assert [(node.op_type, node.since_version, node.type_bindings) for node in body.nodes] == [
        ("Conv", 11, {"T": "tensor(float16)"}),
        ("Relu", 13, {"T": "tensor(float16)"}),
    ]
    between = body.nodes[0].outputs[0]
    assert between is not None
    assert between.shape == (1, 2, 3, 3)
    assert [str(value.type) for value in body.outputs] == ["tensor(float16)"]


def test_weights_of_the_node_are_constants_of_the_function() -> None:
    """A check that reads a weight reads it there too."""
    edited = Editor(typed_model(CONVOLUTION, 13).graph)
    conv = edited.producer("a")
    assert conv is not None
    edited.fuse([conv], NodeTemplate("Fused", ("x", "w"), ("a",), domain="org.example"))
    view, index = view_of(edited, "Fused")
    body = view.function(view.nodes[index])
    assert body is not None
    weight = body.nodes[0].inputs[1]
    assert weight is not None
    assert weight.constant
    np.testing.assert_array_equal(body.constant(weight.name), view.constant("w"))
    assert [value.name for value in body.inputs] == ["i0"]


def test_equal_bodies_have_types_of_their_own() -> None:
    """One body serves nodes of several shapes; each node's graph has the shapes of that node."""
    text = """g (float[2, 3] x, float[7] z) => (float[2, 3] y, float[7] v) {
        a = Relu(x) y = Neg(a) b = Relu(z) v = Neg(b)
    }"""
    edited = editor(text)
    fuse(edited, "a", "y")
    fuse(edited, "b", "v")
    view = ModelGraphView(edited.graph)
    first, second = view.nodes
    assert first.body is second.body
    shapes = [body.outputs[0].shape for body in map(view.function, (first, second)) if body is not None]
    assert shapes == [(2, 3), (7,)]


def test_functions_of_functions_are_seen_from_their_graph() -> None:
    """A fused node inside of a function carries a body again, typed in turn."""
    edited = editor(SCALED)
    inner = fuse(edited, "a", "b")
    assert inner.outputs[0] is not None
    fuse(edited, "b", "c", "d", op_type="Twice")
    view, index = view_of(edited, "Twice")
    body = view.function(view.nodes[index])
    assert body is not None
    nested = next(node for node in body.nodes if node.body is not None)
    within = body.function(nested)
    assert within is not None
    assert [node.since_version for node in within.nodes] == [14, 14]
    assert nested.outputs[0] is not None
    assert nested.outputs[0].shape == (2, 3)


def test_other_nodes_have_none() -> None:
    """A node that nothing was fused into is what it is."""
    view = ModelGraphView(editor(SCALED).graph)
    assert view.function(view.nodes[0]) is None
