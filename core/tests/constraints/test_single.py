"""The constraints of one node over the arrays of a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ort_py.constraints.single import output_shapes, violated, work_of
from ort_py.contracts import NodeSpec
from ort_py.graph.view import ModelGraphView
from ort_py_kit.graphs import typed_model


def node_of(body: str) -> NodeSpec:
    """The only node of a graph of a few inputs."""
    text = f"g (float[N,M] x, float[K,L] z, int64[R] i, bool[P] b, float[C,D,S] v) => (float[A,B] y) {{ {body} }}"
    return ModelGraphView(typed_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}').graph).nodes[0]


X, Z = np.zeros((3, 4), np.float32), np.zeros((4, 5), np.float32)
WAVE = np.zeros((1, 1, 3), np.float32)


@pytest.mark.parametrize(
    ("body", "inputs", "text"),
    [
        ("y = MatMul(x, z)", [X, X], "4"),
        ("y = Add(x, z)", [X, Z], "do not broadcast"),
        ("y = Gather(x, i)", [X, np.array([1, 3])], "out of range"),
        ("y = Reshape(x, i)", [X, np.array([5, -1])], "12"),
        ("y = Expand(x, i)", [X, np.array([3, -2])], "-2"),
        ("y = Slice(x, i, i)", [X, np.array([[1]]), np.array([[1]])], "2 axes where a list"),
        ("y = CumSum(x, i)", [X, np.array([[1]])], "2 axes where a list"),
        ("y = ConvTranspose<strides = [2], output_padding = [2]>(v, v)", [WAVE, WAVE], "output_padding has 2"),
    ],
)
def test_the_constraint_that_does_not_hold(body: str, inputs: list[Any], text: str) -> None:
    """Shapes, elements and attributes are looked at, as for a region."""
    assert text in violated(node_of(body), inputs)


@pytest.mark.parametrize(
    ("body", "inputs"),
    [
        ("y = MatMul(x, z)", [X, Z]),
        ("y = Gather(x, i)", [X, np.array([-3, 2])]),
        ("y = Det(x)", [X]),
        ("y = MatMul(x, z)", [[X], Z]),
        ("y = ConvTranspose<strides = [3], output_padding = [2]>(v, v)", [WAVE, WAVE]),
        ("y = ConvTranspose<dilations = [2], output_padding = [1]>(v, v)", [WAVE, WAVE]),
    ],
)
def test_nothing_is_said_where_nothing_is_known_to_be_wrong(body: str, inputs: list[Any]) -> None:
    """Neither of right inputs, nor of operators or values that the table does not know."""
    assert violated(node_of(body), inputs) == ""


@pytest.mark.parametrize(
    ("body", "inputs", "shapes"),
    [
        ("y = MatMul(x, z)", [X, Z], [(3, 5)]),
        ("y = Reshape(x, i)", [X, np.array([2, -1])], [(2, 6)]),
        ("y = Compress<axis = 0>(x, b)", [X, np.array([True, False, True])], None),
        ("y = MatMul(x, z)", [X, X], None),
        ("y = Det(x)", [X], None),
    ],
)
def test_shapes_of_outputs(body: str, inputs: list[Any], shapes: Any) -> None:
    """Wrong inputs and unknown operators have no shapes."""
    assert output_shapes(node_of(body), inputs) == shapes


@pytest.mark.parametrize(
    ("body", "inputs", "work"),
    [
        ("y = MatMul(x, z)", [X, Z], 3 * 4 * 5),
        ("y = MatMul(x, z)", [X, X], 0),
        ("y = Add(x, x)", [X, X], 0),
        ('y = Einsum<equation = "ij,jk->ik">(x, z)', [X, Z], 3 * 4 * 5),
    ],
)
def test_multiplications(body: str, inputs: list[Any], work: int) -> None:
    """Those of products; none where the operator has none, or a constraint is broken."""
    assert work_of(node_of(body), inputs) == work


def attention(*shapes: tuple[int, ...]) -> tuple[NodeSpec, list[Any]]:
    """MultiHeadAttention of two heads with a bias and a past, and arrays of its inputs."""
    plain = node_of("y = Add(x, z)")
    x, z = plain.inputs
    node = replace(
        plain,
        domain="com.microsoft",
        op_type="MultiHeadAttention",
        since_version=1,
        attributes={"num_heads": 2},
        inputs=(x, x, x, None, None, x, z, z),
        outputs=(*plain.outputs, x, z),
    )
    q, k, v, bias, keys, values = (np.zeros(shape, np.float32) for shape in shapes)
    return node, [q, k, v, None, None, bias, keys, values]


FITTING = (3, 1, 8), (3, 1, 8), (3, 1, 6), (1, 2, 1, 6), (3, 2, 5, 4), (3, 2, 5, 3)


def test_keys_and_values_stand_behind_those_of_the_past() -> None:
    node, inputs = attention(*FITTING)
    assert violated(node, inputs) == ""
    assert output_shapes(node, inputs) == [(3, 1, 6), (3, 2, 6, 4), (3, 2, 6, 3)]
    assert work_of(node, inputs) == 3 * 2 * 6 * (4 + 3)


def test_keys_of_several_heads_stand_behind_those_of_the_past() -> None:
    """Attention of ONNX, which has the past in other places."""
    node, (q, k, v, _, _, bias, keys, values) = attention(
        (3, 1, 16), (3, 1, 8), (3, 1, 6), (3, 1, 1, 6), (3, 2, 5, 4), (3, 2, 5, 3)
    )
    x, *_, z = node.inputs
    node = replace(
        node,
        domain="",
        op_type="Attention",
        since_version=23,
        attributes={"q_num_heads": 4, "kv_num_heads": 2},
        inputs=(x, x, x, x, z, z),
    )
    inputs = [q, k, v, bias, keys, values]
    assert violated(node, inputs) == ""
    assert output_shapes(node, inputs) == [(3, 1, 12), (3, 2, 6, 4), (3, 2, 6, 3)]
    assert "the past of the values has 4" in violated(node, [*inputs[:5], keys])


@pytest.mark.parametrize(
    ("place", "shape", "text"),
    [
        (3, (1, 2, 1, 5), "size 5 does not broadcast to 6"),
        (4, (3, 2, 5, 3), "the past of the keys has 3"),
        (5, (3, 2, 4, 3), "the past of the values has 4"),
        (5, (1, 2, 5, 3), "the past of the values has 1"),
    ],
)
def test_a_past_that_does_not_fit(place: int, shape: tuple[int, ...], text: str) -> None:
    shapes = list(FITTING)
    shapes[place] = shape
    assert text in violated(*attention(*shapes))
