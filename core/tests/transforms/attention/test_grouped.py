"""Attention over repeated keys and values with a past becomes Attention, whose opset may be newer than the model's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from core.tests.transforms.support import notes, operators, optimise
from ort_py.graph.editing.edit import Editor
from ort_py.graph.editing.edit_state import EditState
from ort_py.transforms.attention.grouped import FuseGroupedAttention
from ort_py.transforms.attention.multi_head import FuseAttention

DECODER = """g (float[2, 4, N, 8] q, float[2, 2, N, 8] k, float[2, 2, N, 6] v,
    float[2, 2, P, 8] pk, float[2, 2, P, 6] pv) => (float[2, 4, N, 6] y, float[2, 2, 7, 8] keys) {
    axis = Constant <value_ints = [2]> ()
    many = Constant <value_ints = [1, 1, 2, 1, 1]> ()
    whole = Constant <value_ints = [2, 4, 7, 8]> () whole_v = Constant <value_ints = [2, 4, 7, 6]> ()
    keys = Concat <axis = 2> (pk, k)
    values = Concat <axis = -2> (pv, v)
    k_one = Unsqueeze (keys, axis) v_one = Unsqueeze (values, axis)
    k_many = Expand (k_one, many) v_many = Expand (v_one, many)
    k_all = Reshape (k_many, whole) v_all = Reshape (v_many, whole_v)
    turned = Transpose <perm = [0, 1, 3, 2]> (k_all)
    scores = MatMul (q, turned)
    factor = Constant <value_float = 0.25> ()
    scaled = Mul (scores, factor)
    weights = Softmax <axis = -1> (scaled)
    y = MatMul (weights, v_all)
}""".replace("N", "2").replace("P", "5")


def _feeds(**more: tuple[int, ...]) -> dict[str, Any]:
    random = np.random.default_rng(4)
    shapes = {"q": (2, 4, 2, 8), "k": (2, 2, 2, 8), "v": (2, 2, 2, 6), "pk": (2, 2, 5, 8), "pv": (2, 2, 5, 6), **more}
    return {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize("opset", [17, 18, 23])
def test_the_cache_is_not_repeated(opset: int) -> None:
    """Past and new keys and values go into the operator with the heads they have; it is of opset 23 in every model."""
    model, _ = optimise(DECODER, FuseAttention(), FuseGroupedAttention(), feeds=_feeds(), opset=opset)
    found = operators(model)
    assert (found["Attention"], found["Expand"], found["MultiHeadAttention"]) == (1, 0, 0)
    (node,) = [one for one in model.graph.nodes if one.op_type == "Attention"]
    assert (node.domain, node.since_version, node.opset_version) == ("", 23, 23)
    assert model.opset_imports[""] == opset
    assert [None if one is None else one.name for one in node.inputs[1:]] == ["k", "v", None, "pk", "pv"]
    assert [None if one is None else one.name for one in node.outputs[1:]] == ["keys", "values"]


def test_a_mask_goes_in() -> None:
    """The summand of the scores becomes the operator's mask."""
    text = DECODER.replace("q, float", "q, float[2, 1, 2, 7] mask, float").replace(
        "Softmax <axis = -1> (scaled)", "Softmax <axis = -1> (biased)"
    )
    text = text.replace("weights =", "biased = Add (scaled, mask) weights =")
    model, _ = optimise(text, FuseAttention(), FuseGroupedAttention(), feeds=_feeds(mask=(2, 1, 2, 7)), opset=18)
    assert operators(model)["Attention"] == 1


def test_a_past_that_a_mask_needs_stays_outside() -> None:
    """The operator cannot write the keys that its own mask is computed from, and shares their heads all the same."""
    text = DECODER.replace("Softmax <axis = -1> (scaled)", "Softmax <axis = -1> (biased)")
    text = text.replace("weights =", "most = ReduceMax <keepdims = 0> (keys) biased = Add (scaled, most) weights =")
    model, _ = optimise(text, FuseAttention(), FuseGroupedAttention(), feeds=_feeds(), opset=18)
    (node,) = [one for one in model.graph.nodes if one.op_type == "Attention"]
    assert [None if one is None else one.name for one in node.inputs[1:3]] == ["keys", "values"]


def test_its_function_is_what_it_replaces() -> None:
    """A provider that lacks the operator gets keys and values repeated, in operators of the model's opset."""
    model, _ = optimise(DECODER, FuseAttention(), FuseGroupedAttention(), feeds=_feeds(), opset=18)
    (node,) = [one for one in model.graph.nodes if one.op_type == "Attention"]
    Editor(model.graph, EditState(model)).expand(node)
    found = operators(model)
    assert (found["Attention"], found["Expand"], found["Softmax"]) == (0, 2, 1)
    assert {one.opset_version for one in model.graph.nodes} == {18}


@pytest.mark.parametrize(
    "changes",
    [
        {"keys = Concat <axis = 2> (pk, k)": "keys = Neg (k)", "float[2, 2, 2, 8] k": "float[2, 2, 7, 8] k"},
        {"Concat <axis = -2> (pv, v)": "Concat <axis = 3> (pv, pv)", "float[2, 2, 5, 6] pv": "float[2, 2, 7, 3] pv"},
    ],
    ids=["no Concat", "columns"],
)
def test_without_a_past(changes: dict[str, str]) -> None:
    """Repeating what is as long as the queries costs little: compiling providers know MultiHeadAttention."""
    text = DECODER
    for old, new in changes.items():
        text = text.replace(old, new)
    model, report = optimise(text, FuseAttention(), FuseGroupedAttention(), opset=18)
    assert operators(model)["MultiHeadAttention"] == 1
    assert "keys and values have no past" in notes(report)


def test_keys_and_values_of_other_heads_stay() -> None:
    """Attention shares keys and values in the same groups."""
    text = (
        DECODER.replace("float[2, 2, 2, 6] v", "float[2, 1, 2, 6] v")
        .replace("float[2, 2, 5, 6] pv", "float[2, 1, 5, 6] pv")
        .replace(
            "v_many = Expand (v_one, many)",
            "four = Constant <value_ints = [1, 1, 4, 1, 1]> () v_many = Expand (v_one, four)",
        )
    )
    model, report = optimise(text, FuseAttention(), FuseGroupedAttention(), opset=18)
    assert operators(model)["MultiHeadAttention"] == 1
    assert "heads of keys [2, 2, 7, 8] and of values [2, 1, 7, 6] differ" in notes(report)
