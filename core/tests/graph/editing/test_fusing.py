"""Fused nodes carry the function they replace: made, shared, put back, written and read again."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from ort_py.contracts import FunctionBody, NodeSpec, NodeTemplate
from ort_py.errors import InvalidGraph
from ort_py.graph.checking.verify import verify
from ort_py.graph.editing.edit import Editor
from ort_py.graph.ir import Node
from ort_py.graph.writing.serialize import model_to_proto
from ort_py_kit.graphs import model_from_text, reference_run, typed_model

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
SCALED = """g (float[2, 3] x) => (float[2, 3] y, float[2, 3] z) <float two = {2}, float three = {3}> {
    a = Relu(x) b = Mul(a, two)
    c = Relu(b) d = Mul(c, two)
    y = Neg(d)
    e = Relu(x) z = Mul(e, three)
}"""


def editor(text: str) -> Editor:
    """An editor of the model's main graph."""
    return Editor(typed_model(text).graph)


def fuse(edited: Editor, *names: str, op_type: str = "ScaledRelu", **settings: object) -> NodeSpec:
    """Fuse the nodes that write some values; the first node's input is read, the last value is written."""
    nodes = [edited.producer(name) for name in names]
    first = nodes[0]
    assert first is not None
    assert first.inputs[0] is not None
    template = NodeTemplate(op_type, (first.inputs[0].name,), (names[-1],), domain="org.example")
    return edited.fuse([node for node in nodes if node is not None], template)


def test_a_fused_node_stands_for_its_nodes() -> None:
    """It is typed as they were, knows them by name, and shows what it computes."""
    edited = editor(SCALED)
    edited.state.origin = "ScaledReluFusion"
    made = fuse(edited, "a", "b")
    assert (made.op_type, made.since_version) == ("ScaledRelu", 1)
    assert made.outputs[0] is not None
    assert made.outputs[0].shape == (2, 3)
    assert made.body is not None
    assert [node.op_type for node in made.body.nodes] == ["Relu", "Mul"]
    assert made.body.inputs == ("i0",)
    assert list(made.body.constants) == ["c0"]
    node = edited.named[made.name]
    assert isinstance(node, Node)
    assert len(node.sources) == 2
    assert node.origin == "ScaledReluFusion"
    verify(edited.graph)


def test_new_values_are_typed_through_the_function() -> None:
    """The function of a fused node types its new values, also inside nested nodes."""
    edited = editor("g (float[2, N] x) => (float[M, 2] y) { a = Relu(x) b = Transpose(a) y = Neg(b) }")
    inner = edited.fuse(["a", "b"], NodeTemplate("Turned", ("x",), ("b",), domain="org.example"))
    outer = edited.fuse([inner, "y"], NodeTemplate("Outer", ("x",), ("y",), domain="org.example"))
    template = NodeTemplate("Outer", ("x",), ("z",), domain="org.example", body=outer.body)
    (made, _) = edited.replace_nodes([], [template, NodeTemplate("Abs", ("z",), ("zz",))])
    assert made.outputs[0] is not None
    assert str(made.outputs[0].type) == "tensor(float)"
    assert made.outputs[0].shape == ("N", 2)


def test_equal_functions_are_one() -> None:
    """Nodes that replace the same computation share its definition; another constant makes another."""
    edited = editor(SCALED)
    first, second, third = fuse(edited, "a", "b"), fuse(edited, "c", "d"), fuse(edited, "e", "z")
    assert first.body is second.body
    assert first.body is not third.body


def test_the_function_comes_back() -> None:
    """Expanded, the graph computes what it did, with names of its own and types."""
    edited = editor(SCALED)
    for names in ("ab", "cd", "ez"):
        made = fuse(edited, *names)
        node = edited.named[made.name]
        assert node is not None
        assert len(edited.expand(node)) == 2
    edited.remove_unused()
    verify(edited.graph)
    assert [node.op_type for node in edited.graph.nodes].count("Mul") == 3
    assert all(value is not None and value.type is not None for node in edited.graph.nodes for value in node.outputs)
    for left, right in zip(
        reference_run(edited.graph.model, {"x": X}), reference_run(model_from_text(SCALED), {"x": X}), strict=True
    ):
        np.testing.assert_array_equal(left, right)


def test_nodes_without_a_function_stay() -> None:
    """Expanding an ordinary node does nothing."""
    edited = editor(SCALED)
    assert edited.expand(edited.graph.nodes[0]) == []


def test_the_written_model_needs_no_fused_operator() -> None:
    """A fused node is written as a call of a model-local function, equal ones of the same; any runtime computes it."""
    edited = editor(SCALED)
    for names in ("ab", "cd", "ez"):
        fuse(edited, *names)
    edited.remove_unused()
    proto = model_to_proto(edited.graph.model)
    onnx.checker.check_model(proto)
    assert len(proto.functions) == 2
    assert {node.domain for node in proto.graph.node} == {"", "ort_py.fused"}
    expected = reference_run(model_from_text(SCALED), {"x": X})
    for left, right in zip(reference_run(proto, {"x": X}), expected, strict=True):
        np.testing.assert_array_equal(left, right)
    again = typed_model(proto)
    assert sorted(node.op_type for node in again.graph.nodes) == ["Mul", "Mul", "Mul", "Neg", "Relu", "Relu", "Relu"]


def test_functions_nest() -> None:
    """A fusion of a fused node: its function has one inside, which is written out and comes back node by node."""
    edited = editor(SCALED)
    inner = fuse(edited, "a", "b")
    fuse(edited, "b", "c", op_type="Outer")
    edited.remove_unused()
    proto = model_to_proto(edited.graph.model)
    expected = reference_run(model_from_text(SCALED), {"x": X})
    np.testing.assert_array_equal(reference_run(proto, {"x": X})[0], expected[0])
    outer = next(node for node in edited.graph.nodes if node.op_type == "Outer")
    once = edited.expand(outer)
    assert [node.op_type for node in once] == ["ScaledRelu", "Relu"]
    assert once[0].body is inner.body
    edited.expand(once[0])
    verify(edited.graph)
    np.testing.assert_array_equal(reference_run(edited.graph.model, {"x": X})[0], expected[0])


def test_the_written_model_names_its_sources() -> None:
    """Metadata of a new node says which transform made it, of which nodes."""
    edited = editor("g (float[2, 3] x) => (float[2, 3] y) { [first] a = Relu(x) [second] y = Neg(a) }")
    edited.state.origin = "Rule"
    edited.replace_nodes(["second"], [NodeTemplate("Abs", ("a",), ("y",))])
    proto = model_to_proto(edited.graph.model)
    entries = {entry.key: entry.value for entry in proto.graph.node[1].metadata_props}
    assert entries == {"ort_py.origin": "Rule", "ort_py.sources": '["second"]'}
    assert not proto.graph.node[0].metadata_props


LARGE = """g (float[2, 3] x, float[2, 3] other, bool c) => (float[2, 3] y) <float[400] w = {WEIGHTS}> {
    k = Relu(x) p = Add(k, other) m = ReduceMax<keepdims = 0>(w) y = Mul(p, m)
    s = If(c) <then_branch = t () => (float[2, 3] u) { u = Neg(x) },
               else_branch = e () => (float[2, 3] v) { v = Abs(x) }>
}""".replace("WEIGHTS", ", ".join("0" * 400))


@pytest.mark.parametrize(
    ("names", "inputs", "output", "text"),
    [
        ("kp", ("x",), "p", "read 'other', but the new node does not"),
        ("pmy", ("k", "other"), "y", "reads the constant 'w' of 1,600 bytes"),
        ("kp", ("x", "other"), "m", "none of the nodes it replaces writes its output 'm'"),
        ("s", ("x",), "s", "holds a nested graph"),
    ],
)
def test_what_cannot_be_a_function_is_refused(names: str, inputs: tuple[str, ...], output: str, text: str) -> None:
    """The new node must read and write what the old ones did; large constants are not held twice."""
    edited = editor(LARGE)
    nodes = [node for node in map(edited.producer, names) if node is not None]
    with pytest.raises(InvalidGraph, match="cannot become its function") as caught:
        edited.fuse(nodes, NodeTemplate("New", inputs, (output,), domain="org.example"))
    assert text in str(caught.value)


def _newer() -> Editor:
    """A node of opset 20 in a model of opset 17, with its function in the model's operators."""
    edited = Editor(typed_model("g (float[2, 3] x) => (float[2, 3] y) { a = Relu(x) y = Neg(a) }", 17).graph)
    body = FunctionBody(
        ("x",), ("y",), (NodeTemplate("Tanh", ("x",), ("t",)), NodeTemplate("Erf", ("t",), ("y",))), {}, {"": 17}
    )
    made = NodeTemplate("Gelu", ("a",), ("y",), {"approximate": "tanh"}, body=body, opset=20)
    edited.replace_nodes([node for node in edited.nodes if node.op_type == "Neg"], [made])
    return edited


def test_a_node_may_be_of_a_newer_opset() -> None:
    """It is typed by its own opset; the model keeps its own, and so do other nodes."""
    edited = _newer()
    relu, gelu = edited.graph.nodes
    assert (gelu.op_type, gelu.since_version, gelu.opset_version) == ("Gelu", 20, 20)
    assert (relu.opset_version, edited.graph.model.opset_imports[""]) == (17, 17)
    verify(edited.graph)


def test_its_function_is_of_the_opset_of_the_model() -> None:
    """Expanded, nothing is left of the newer one."""
    edited = _newer()
    edited.expand(edited.graph.nodes[1])
    assert [(node.op_type, node.opset_version) for node in edited.graph.nodes] == [
        ("Relu", 17),
        ("Tanh", 17),
        ("Erf", 17),
    ]


def test_a_node_of_a_newer_opset_is_written_as_its_function() -> None:
    """Runtimes that put functions in place of calls do not mix opsets."""
    proto = model_to_proto(_newer().graph.model)
    onnx.checker.check_model(proto)
    assert [entry.version for entry in proto.opset_import if not entry.domain] == [17]
    (function,) = proto.functions
    assert ([node.op_type for node in function.node], function.opset_import[0].version) == (["Tanh", "Erf"], 17)
    assert not onnx.defs.has(function.name)
