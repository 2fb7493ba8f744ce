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


def contributed(op_type: str, attributes: dict[str, Any], *arrays: Any, outputs: int = 1) -> tuple[NodeSpec, list[Any]]:
    """A node of com.microsoft, or of ONNX if it is GridSample, and arrays of its inputs; None stands for none."""
    plain = node_of("y = Add(x, z)")
    x, domain = plain.inputs[0], "" if op_type == "GridSample" else "com.microsoft"
    inputs = [np.zeros(one, np.float32) if isinstance(one, tuple) else one for one in arrays]
    node = replace(
        plain,
        domain=domain,
        op_type=op_type,
        since_version=1,
        attributes=attributes,
        inputs=tuple(None if one is None else x for one in inputs),
        outputs=(*plain.outputs, *[x] * (outputs - 1)),
    )
    return node, inputs


def test_keys_of_one_past_have_places_of_its_first_axis() -> None:
    """Attention of com.microsoft."""
    heads = {"num_heads": 2}
    node, inputs = contributed("Attention", heads, (3, 2, 5), (5, 24), None, (3, 6), (2, 3, 2, 4, 4), outputs=2)
    assert violated(node, inputs) == ""
    assert output_shapes(node, inputs) == [(3, 2, 8), (2, 3, 2, 6, 4)]
    assert work_of(node, inputs) == 3 * 2 * 2 * 6 * 8
    for place, shape, text in (
        (4, (2, 3, 2, 4, 5), "the past has 5"),
        (3, (3, 5), "a mask for 5 keys, where there are 6"),
    ):
        assert text in violated(node, [*inputs[:place], np.zeros(shape, np.float32), *inputs[place + 1 :]])


def test_groups_of_constant_lengths() -> None:
    """GroupQueryAttention, whose lengths have to be those of the past and the operands together."""
    heads, past = {"num_heads": 4, "kv_num_heads": 2}, [(3, 2, 5, 8)] * 2
    counts = [np.full(3, 6), np.array(7)]
    node, inputs = contributed(
        "GroupQueryAttention", heads, (3, 2, 32), (3, 2, 16), (3, 2, 16), *past, *counts, outputs=3
    )
    assert violated(node, inputs) == ""
    assert output_shapes(node, inputs) == [(3, 2, 32), (3, 2, 7, 8), (3, 2, 7, 8)]
    assert "7 keys, of which 9 are counted" in violated(node, [*inputs[:6], np.array(9)])
    assert "a sequence of 4 keys behind the first" in violated(node, [*inputs[:5], np.full(3, 4), inputs[6]])
    assert "the value has 24" in violated(node, [*inputs[:2], np.zeros((3, 2, 24)), *inputs[3:]])


@pytest.mark.parametrize(
    ("grid", "text"),
    [
        ((2, 5, 6, 2), ""),
        ((1, 5, 6, 2), "2 images and 1 grids"),
        ((2, 5, 6, 3), "places of 3 numbers for 2 axes"),
        ((2, 5, 2), "input 1 has 3 axes"),
    ],
)
def test_places_of_a_grid(grid: tuple[int, ...], text: str) -> None:
    node, inputs = contributed("GridSample", {}, (2, 3, 4, 7), grid)
    found = violated(node, inputs)
    assert text in found
    assert bool(found) is bool(text)
    assert output_shapes(node, inputs) == (None if text else [(2, 3, 5, 6)])


@pytest.mark.parametrize(
    ("place", "given", "text"),
    [
        (0, np.array([[1, 8, 0]]), ""),
        (0, np.array([[1, 9, 0]]), "a word is out of range"),
        (1, np.array([[1, 2, 0]]), "a segment is out of range"),
        (1, np.array([[1, 0]]), "a segment for 3 words"),
        (3, np.zeros((2, 4)), "2 positions for 3 words"),
        (2, np.zeros((9, 5)), "tables of 4 and 5 columns"),
        (5, np.zeros(5), "input 5 has 5"),
        (7, np.ones((1, 4)), "the mask has 4"),
    ],
)
def test_tables_of_embeddings(place: int, given: Any, text: str) -> None:
    words = np.array([[1, 2, 0]])
    arrays = [words, words % 2, (9, 4), (7, 4), (2, 4), (4,), (4,), words]
    node, inputs = contributed("EmbedLayerNormalization", {}, *arrays, outputs=3)
    inputs[place] = given
    assert text in violated(node, inputs)
    assert output_shapes(node, inputs) == (None if text else [(1, 3, 4), (1,), (1, 3, 4)])


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
