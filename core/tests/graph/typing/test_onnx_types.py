"""Types by ONNX's inference: nodes that equal each other share one answer, and no others do."""

from __future__ import annotations

from typing import Any

import onnx
import pytest

from ort_py.dtypes import TensorType
from ort_py.graph.ir import Model, Node
from ort_py.graph.typing.onnx_types import infer_onnx_node
from ort_py_kit.graphs import typed_model


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The operators that ONNX is asked about, in order."""
    found: list[str] = []
    schemas: Any = onnx.defs.OpSchema  # the stub lacks the method
    infer = schemas._infer_node_outputs

    def counted(schema: onnx.defs.OpSchema, *args: object) -> object:
        found.append(schema.name)
        return infer(schema, *args)

    monkeypatch.setattr(schemas, "_infer_node_outputs", counted)
    return found


def _model(text: str) -> Model:
    model = typed_model(text)
    model.node_types.clear()
    return model


def _shape(node: Node) -> object:
    (found,) = infer_onnx_node(node)
    assert isinstance(found, TensorType)
    return found.shape


def test_equal_nodes_are_inferred_once(asked: list[str]) -> None:
    """They have other names and read other values, of the same types."""
    model = _model("g (float[N, 2] x) => (float[N, 2] z) { y = Relu(x) z = Relu(y) }")
    asked.clear()
    assert [_shape(node) for node in model.graph.nodes] == [("N", 2), ("N", 2)]
    assert asked == ["Relu"]


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("g (float[2, 3] x, float[2, 4] w) => (y, z) { y = Relu(x) z = Relu(w) }", [(2, 3), (2, 4)]),
        (
            "g (float[2, 3] x) => (y, z) { y = Transpose<perm = [0, 1]>(x) z = Transpose<perm = [1, 0]>(x) }",
            [(2, 3), (3, 2)],
        ),
        (
            "g (float[2, 3] x) => (y, z) <int64[1] a = {6}, int64[2] b = {3, 2}> "
            "{ y = Reshape(x, a) z = Reshape(x, b) }",
            [(6,), (3, 2)],
        ),
        (
            "g (float[2, 3] x) => (y, z) <int64[2] a = {6, 1}, int64[2] b = {3, 2}> "
            "{ y = Reshape(x, a) z = Reshape(x, b) }",
            [(6, 1), (3, 2)],
        ),
    ],
    ids=["types", "attributes", "ranks", "contents"],
)
def test_nodes_that_differ_have_types_of_their_own(text: str, shapes: list[object]) -> None:
    """They differ in what they read, in an attribute, or in a small constant that gives a shape."""
    assert [_shape(node) for node in _model(text).graph.nodes] == shapes


def test_answers_are_not_shared_between_lists() -> None:
    """A caller that changes its list changes nobody else's types."""
    node = _model("g (float[2] x) => (float[2] y) { y = Relu(x) }").graph.nodes[0]
    infer_onnx_node(node).clear()
    assert _shape(node) == (2,)
