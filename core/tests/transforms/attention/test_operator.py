"""Attention of ai.onnx takes over what is around it: split heads, repeated heads, the past."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from core.tests.transforms.support import notes, operators, optimise
from ort_py.transforms.attention.operator import JoinAttentionHeads, ShareAttentionHeads, TakeAttentionPast

OPSET = 23


def _random(**shapes: tuple[int, ...]) -> dict[str, Any]:
    random = np.random.default_rng(8)
    return {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


COLUMNS = """g (float[2, N, 8] q, float[2, M, 4] k, float[2, M, 4] v) => (float[2, N, 8] y) {
    heads = Constant <value_ints = [0, 0, 2, 4]> ()
    key_heads = Constant <value_ints = [0, 0, 1, 4]> ()
    columns = Constant <value_ints = [0, 0, 8]> ()
    q_rows = Reshape (q, heads) k_rows = Reshape (k, key_heads) v_rows = Reshape (v, key_heads)
    q_heads = Transpose <perm = [0, 2, 1, 3]> (q_rows)
    k_heads = Transpose <perm = [0, 2, 1, 3]> (k_rows)
    v_heads = Transpose <perm = [0, 2, 1, 3]> (v_rows)
    y_heads = Attention <is_causal = 1> (q_heads, k_heads, v_heads)
    y_rows = Transpose <perm = [0, 2, 1, 3]> (y_heads)
    y = Reshape (y_rows, columns)
}"""


def test_split_heads_become_columns() -> None:
    """The operator reads and writes columns, and knows how many heads they are; grouped heads included."""
    model, _ = optimise(
        COLUMNS, JoinAttentionHeads(), feeds=_random(q=(2, 3, 8), k=(2, 5, 4), v=(2, 5, 4)), opset=OPSET
    )
    assert operators(model) == {"Attention": 1}
    assert model.graph.nodes[0].attributes == {"is_causal": 1, "q_num_heads": 2, "kv_num_heads": 1}


def test_a_result_that_keeps_its_heads() -> None:
    """Somebody reads the heads: they are split again behind the operator."""
    text = COLUMNS.replace("(float[2, N, 8] y)", "(float[2, N, 8] y, float[2, 2, N, 4] y_heads)")
    model, _ = optimise(text, JoinAttentionHeads(), feeds=_random(q=(2, 3, 8), k=(2, 5, 4), v=(2, 5, 4)), opset=OPSET)
    assert operators(model) == {"Attention": 1, "Reshape": 2, "Transpose": 2}


def test_columns_of_some_only() -> None:
    """All three are columns or none."""
    text = COLUMNS.replace("k_heads = Transpose", "k_plain = Transpose").replace(
        "v_heads = Transpose", "k_heads = Neg (k_plain) v_heads = Transpose"
    )
    model, report = optimise(text, JoinAttentionHeads(), opset=OPSET)
    assert operators(model)["Transpose"] == 4
    assert "not all of queries, keys and values are split from columns" in notes(report)


REPEATED = """g (float[2, 4, N, 8] q, float[2, 2, M, 8] k, float[2, 2, M, 8] v) => (float[2, 4, N, 8] y) {
    axis = Constant <value_ints = [2]> ()
    many = Constant <value_ints = [1, 1, 2, 1, 1]> ()
    whole = Constant <value_ints = [0, 4, -1, 8]> ()
    k_one = Unsqueeze (k, axis) v_one = Unsqueeze (v, axis)
    k_many = Expand (k_one, many) v_many = Expand (v_one, many)
    k_all = Reshape (k_many, whole) v_all = Reshape (v_many, whole)
    y = Attention (q, k_all, v_all)
}"""


def test_repeated_heads_are_shared() -> None:
    """The operator shares keys and values between query heads: they need not be copied."""
    feeds = _random(q=(2, 4, 3, 8), k=(2, 2, 5, 8), v=(2, 2, 5, 8))
    text = REPEATED.replace("M", "5")
    model, _ = optimise(text, ShareAttentionHeads(), feeds=feeds, opset=OPSET)
    assert operators(model) == {"Attention": 1}


def test_heads_in_another_order_are_not_shared() -> None:
    """All heads once and then all again is another assignment of heads to groups."""
    text = (
        REPEATED.replace("M", "5")
        .replace("value_ints = [2]", "value_ints = [1]")
        .replace("[1, 1, 2, 1, 1]", "[1, 2, 1, 1, 1]")
    )
    model, _ = optimise(text, ShareAttentionHeads(), opset=OPSET)
    assert operators(model)["Expand"] == 2


def test_repeated_keys_alone_are_not_shared() -> None:
    """Keys and values have the same heads."""
    text = (
        REPEATED.replace("M", "5")
        .replace("(q, k_all, v_all)", "(q, k_all, q)")
        .replace("float[2, 4, N, 8] q", "float[2, 4, 5, 8] q")
    )
    model, report = optimise(text, ShareAttentionHeads(), opset=OPSET)
    assert operators(model)["Expand"] == 1
    assert "only keys or only values are repeated" in notes(report)


PAST = """g (float[2, 2, N, 4] q, float[2, 2, N, 4] k, float[2, 2, N, 4] v, float[2, 2, P, 4] pk, float[2, 2, P, 4] pv)
    => (float[2, 2, N, 4] y, float[2, 2, T, 4] present_k, float[2, 2, T, 4] present_v) {
    present_k = Concat <axis = -2> (pk, k)
    present_v = Concat <axis = 2> (pv, v)
    y = Attention (q, present_k, present_v)
}"""


def test_the_past_is_taken_over() -> None:
    """The operator appends the new keys and values and writes the present ones under their names."""
    feeds = _random(q=(2, 2, 3, 4), k=(2, 2, 3, 4), v=(2, 2, 3, 4), pk=(2, 2, 5, 4), pv=(2, 2, 5, 4))
    model, _ = optimise(PAST, TakeAttentionPast(), feeds=feeds, opset=OPSET)
    assert operators(model) == {"Attention": 1}


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("Attention (q", "Attention <is_causal = 1> (q", "its queries are counted from the first key"),
        ("(pk, k)", "(pk, k, k)", "what is in front of keys and values is not a past"),
        ("present_v)\n}", "present_v, mask) mask = ReduceMax (present_k) }", "or is needed before the attention"),
    ],
    ids=["causal", "three parts", "mask of the present"],
)
def test_no_past(old: str, new: str, reason: str) -> None:
    text = PAST.replace(old, new)
    if "mask" in new:
        text = text.replace("y = Attention", "mask = ReduceMax (present_k) y = Attention").replace(
            "mask) mask = ReduceMax (present_k) }", "mask) }"
        )
    model, report = optimise(text, TakeAttentionPast(), opset=OPSET)
    assert operators(model)["Concat"] == 2
    assert reason in notes(report)
