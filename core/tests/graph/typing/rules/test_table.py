"""Rules for types: they say what ONNX's inference says, or leave the node to it.

`tests/conformance/test_typing_rules.py` compares them on ONNX's backend suite.
"""

from __future__ import annotations

import pytest

from ort_py.dtypes import DataType, TensorType, ValueType
from ort_py.graph.ir import Node
from ort_py.graph.reading.loader import load_model
from ort_py.graph.typing.contents import constant_contents
from ort_py.graph.typing.onnx_types import infer_onnx_node
from ort_py.graph.typing.rules import table
from ort_py.graph.typing.rules.table import rule_of, ruled_types
from ort_py_kit.graphs import model_from_text

LISTS = """<int64[2] two = {1, 2}, int64[1] one = {1}, int64[1] zero = {0},
    int64[2] rest = {0, -1}, int64[2] rows = {4, -1}, float scale = {0.5}, float[2] huge = {1e30, 1e30},
    float[2] most = {1, 0.7}>"""

COVERED = [
    ("float[N, 3] x, float[3] w", "y = Add(x, w)"),
    ("float[N, 1] x, float[M] w", "y = Mul(x, w)"),
    ("float[N, 3] x, float[N, 1] w", "y = Less(x, w)"),
    ("float[N, 6] x", "y = Reshape(x, rest)"),
    ("float[2, 6] x, int64[2] w", "y = Reshape(x, w)"),
    ("float[N, 6] x", "y = Transpose(x)"),
    ("float[N, 6] x, float[N, 2] w", "y = Concat<axis = -1>(x, w)"),
    ("float[N, 6] x", "y = Slice(x, zero, one, one)"),
    ("float[N, 6] x", "y = Unsqueeze(x, two)"),
    ("float[N, 1] x", "y = Squeeze(x, one)"),
    ("float[1, 6] x, int64[2] w", "y = Expand(x, w)"),
    ("float[N, 6] x", "y, z = Split<axis = 1, num_outputs = 2>(x)"),
    ("float[N, 6] x, int64[K] w", "y = Gather<axis = 1>(x, w)"),
    ("float[N, 6] x", "y = Shape<start = 1>(x)"),
    ("float[N, 6] x", "y = ReduceMean<keepdims = 0>(x, one)"),
    ("float[N, 6] x, float[6, M] w", "y = MatMul(x, w)"),
    ("float[N, 6] x, float[4, 6] w", "y = Gemm<transB = 1>(x, w)"),
    ("float[N, 3, 8, H] x, float[4, 3, 3, 3] w", "y = Conv<strides = [2, 2], pads = [1, 1, 1, 1]>(x, w)"),
    ("float[N, 3, 8, H] x, float[3, 2, 2, 2] w", "y = ConvTranspose<strides = [2, 2]>(x, w)"),
    ("float[N, 3, 8, H] x", "y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x)"),
    ("float[N, 3, 8, H] x", "y = GlobalAveragePool(x)"),
    ("float[N, 6] x", "y = Cast<to = 7>(x)"),
    ("float[N, 6] x", "y = QuantizeLinear(x, scale)"),
    ("float[2, 440] x", "y = Resize(x, , most)"),  # the product as float32 is 308, exactly it is below
]
"""Nodes that rules type: the inputs of the graph, and the node. Sizes with names are unknown before a run."""

LEFT = [
    ("float[N, 3] x, float[2] w", "y = Add(x, w)"),
    ("float[5, 3] x", "y = Reshape(x, rows)"),
    ("float[N, 6] x", "y = Transpose<perm = [0, 0]>(x)"),
    ("float[N, 6] x, float[N] w", "y = Concat<axis = 0>(x, w)"),
    ("float[N, 6] x", "y = Squeeze(x)"),
    ("float[N, 6] x, float[5, M] w", "y = MatMul(x, w)"),
    ("float[N, 3, 8, H] x", "y = MaxPool<kernel_shape = [2, 2], ceil_mode = 1>(x)"),
    ("float[N, 6] x", "y = Celu(x)"),
    ("float[N, 6] x", 'y = Shape<start = "a">(x)'),
    ("float[N, 6] x, float[2] f", "y = Resize(x, , huge)"),
]
"""Nodes that rules leave to ONNX: they contradict their operator, are typed otherwise, or have no rule."""


def _node(inputs: str, body: str) -> Node:
    """The node, with typed inputs and no types behind it."""
    outputs = body.partition("=")[0]
    model = load_model(model_from_text(f"g ({inputs}) => ({outputs}) {LISTS} {{ {body} }}"))
    for value in model.graph.initializers.values():
        assert value.weight is not None
        value.type = TensorType(value.weight.data_type, value.weight.shape)
    return model.graph.nodes[0]


def _ruled(node: Node, *, partly: bool = False) -> list[ValueType | None] | None:
    return ruled_types(node, lambda value: value.type, constant_contents, partly=partly)


@pytest.mark.parametrize(("inputs", "body"), COVERED)
def test_rules_say_what_onnx_infers(inputs: str, body: str) -> None:
    node = _node(inputs, body)
    assert _ruled(node) == infer_onnx_node(node)


@pytest.mark.parametrize(("inputs", "body"), LEFT)
def test_rules_leave_to_onnx_what_they_doubt(inputs: str, body: str) -> None:
    assert _ruled(_node(inputs, body)) is None


def test_a_node_with_an_untyped_input_is_left_to_onnx() -> None:
    node = _node("float[2] x", "y = Relu(x)")
    assert node.inputs[0] is not None
    node.inputs[0].type = None
    assert _ruled(node) is None


@pytest.mark.parametrize(
    ("body", "expected"),
    [("y = Relu(x)", None), ("y = Cast<to = 7>(x)", DataType.INT64), ("y = Add(w, x)", DataType.FLOAT)],
)
def test_as_much_follows_from_untyped_inputs_as_in_onnx(body: str, expected: DataType | None) -> None:
    """The element type is known unless it comes from them; the shape never is."""
    node = _node("float[2] x, float[2] w", body)
    for value in node.inputs:
        if value is not None and value.name == "x":
            value.type = None
    found = _ruled(node, partly=True)
    assert found == [None if expected is None else TensorType(expected)]


def test_a_version_that_the_rules_were_not_compared_with_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "_NEWEST", 12)
    assert rule_of.__wrapped__("Relu", "", 12) is not None
    assert rule_of.__wrapped__("Relu", "", 13) is None
