"""Attention by hand becomes one MultiHeadAttention: its forms, what it computes, and what must stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from core.tests.transforms.fusions import fuse
from core.tests.transforms.support import operators
from ort_py.graph.ir import Model
from ort_py.transforms.attention.multi_head import FuseAttention
from ort_py.transforms.elimination.unused import EliminateDeadCode

HEADS = """
    heads = Constant <value_ints = [0, 0, 2, 4]> ()
    columns = Constant <value_ints = [0, 0, 8]> ()
"""

SPLIT = """
    q_rows = Reshape (q, heads)
    k_rows = Reshape (k, heads)
    v_rows = Reshape (v, heads)
    q_heads = Transpose <perm = [0, 2, 1, 3]> (q_rows)
    v_heads = Transpose <perm = [0, 2, 1, 3]> (v_rows)
"""

KEYS = """
    k_heads = Transpose <perm = [0, 2, 1, 3]> (k_rows)
    k_columns = Transpose <perm = [0, 1, 3, 2]> (k_heads)
"""

JOIN = """
    y_rows = Transpose <perm = [0, 2, 1, 3]> (y_heads)
    y = Reshape (y_rows, columns)
"""

INPUTS = "float[2, 3, 8] q, float[2, 5, 8] k, float[2, 5, 8] v"


def _text(middle: str, *, inputs: str = INPUTS, keys: str = KEYS, join: str = JOIN, result: str = "") -> str:
    result = result or "float[2, 3, 8] y"
    return f"g ({inputs}) => ({result}) {{ {HEADS} {SPLIT} {keys} {middle} {join} }}"


def _feeds(**more: Any) -> dict[str, Any]:
    random = np.random.default_rng(3)
    shapes = {"q": (2, 3, 8), "k": (2, 5, 8), "v": (2, 5, 8)}
    feeds: dict[str, Any] = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    return {**feeds, **more}


PLAIN = """
    scores = MatMul (q_heads, k_columns)
    weights = Softmax <axis = -1> (scores)
    y_heads = MatMul (weights, v_heads)
"""


def optimise(text: str, feeds: dict[str, Any] | None = None) -> tuple[Model, str]:
    """The model with its attentions fused, and what the report says; with `feeds` their functions are tried."""
    if feeds is not None:
        fuse(text, FuseAttention(), EliminateDeadCode(), feeds=feeds)
    _, model, report = fuse(text, FuseAttention(), EliminateDeadCode())
    return model, report


def _attention(model: Model) -> Any:
    return next(node for node in model.graph.nodes if node.op_type == "MultiHeadAttention")


def test_split_heads_become_columns() -> None:
    """Nothing is left but the operator, which reads and writes columns."""
    model, _ = optimise(_text(PLAIN), _feeds())
    assert operators(model) == {"MultiHeadAttention": 1}
    node = _attention(model)
    assert [value.name for value in node.inputs] == ["q", "k", "v"]
    assert node.attributes == {"num_heads": 2, "scale": 1.0}
    assert node.body is not None


@pytest.mark.parametrize(
    "middle",
    [
        "factor = Constant <value_float = 0.5> () a = MatMul (q_heads, k_columns) scores = Mul (a, factor)",
        "factor = Constant <value_float = 2.0> () a = MatMul (q_heads, k_columns) scores = Div (a, factor)",
        "factor = Constant <value_float = 0.5> () a = Mul (factor, q_heads) scores = MatMul (a, k_columns)",
        "factor = Constant <value_float = 2.0> () a = Div (k_columns, factor) scores = MatMul (q_heads, a)",
        "factor = Constant <value_floats = [0.70710678]> () a = Mul (q_heads, factor) b = Mul (k_columns, factor)"
        " scores = MatMul (a, b)",
    ],
    ids=["scores", "divided scores", "queries", "keys", "both by the root"],
)
def test_the_scale_may_stand_anywhere(middle: str) -> None:
    """Factors of queries, keys and scores become the attribute."""
    rest = " weights = Softmax <axis = -1> (scores) y_heads = MatMul (weights, v_heads)"
    model, _ = optimise(_text(middle + rest), _feeds())
    assert operators(model) == {"MultiHeadAttention": 1}
    assert _attention(model).attributes["scale"] == pytest.approx(0.5, rel=1e-6)


def test_a_factor_before_the_heads_are_split() -> None:
    """Whisper scales the columns of its queries."""
    text = _text(PLAIN).replace(
        "q_rows = Reshape (q, heads)",
        "factor = Constant <value_float = 0.25> () q_scaled = Mul (q, factor) q_rows = Reshape (q_scaled, heads)",
    )
    model, _ = optimise(text, _feeds())
    assert operators(model) == {"MultiHeadAttention": 1}
    assert _attention(model).attributes["scale"] == 0.25


MASKED = """
    scores = MatMul (q_heads, k_columns)
    masked = Add (mask, scores)
    weights = Softmax <axis = -1> (masked)
    y_heads = MatMul (weights, v_heads)
"""


@pytest.mark.parametrize("shape", [(2, 1, 3, 5), (1, 2, 3, 5), (3, 5), (2, 1, 1, 5)])
def test_a_mask_is_added(shape: tuple[int, ...]) -> None:
    """A mask may broadcast to the scores, on either side of the sum."""
    mask = np.random.default_rng(4).standard_normal(shape).astype(np.float32)
    inputs = f"{INPUTS}, float[{','.join(map(str, shape))}] mask"
    model, _ = optimise(_text(MASKED, inputs=inputs), _feeds(mask=mask))
    assert operators(model) == {"MultiHeadAttention": 1}
    assert _attention(model).inputs[5].name == "mask"


def test_a_guard_against_rows_of_nan_goes() -> None:
    """The function keeps it; the operator itself gives zeros where no key is seen."""
    middle = """
        scores = MatMul (q_heads, k_columns)
        masked = Add (scores, mask)
        plain = Softmax <axis = -1> (masked)
        unknown = IsNaN (plain)
        zero = Constant <value_float = 0.0> ()
        weights = Where (unknown, zero, plain)
        y_heads = MatMul (weights, v_heads)
    """
    mask = np.zeros((3, 5), np.float32)
    mask[0, 2:] = -np.inf
    model, _ = optimise(_text(middle, inputs=f"{INPUTS}, float[3, 5] mask"), _feeds(mask=mask))
    assert operators(model) == {"MultiHeadAttention": 1}


def test_keys_transposed_in_one_step() -> None:
    """Some exporters merge both transpositions of the keys."""
    model, _ = optimise(_text(PLAIN, keys="k_columns = Transpose <perm = [0, 2, 3, 1]> (k_rows)"), _feeds())
    assert operators(model) == {"MultiHeadAttention": 1}


def test_keys_transposed_over_three_axes() -> None:
    keys = """
        k_heads = Transpose <perm = [0, 2, 1, 3]> (k_rows)
        flat = Constant <value_ints = [-1, 5, 4]> ()
        whole = Constant <value_ints = [2, 2, 4, 5]> ()
        k_flat = Reshape (k_heads, flat)
        k_turned = Transpose <perm = [0, 2, 1]> (k_flat)
        k_columns = Reshape (k_turned, whole)
    """
    model, _ = optimise(_text(PLAIN, keys=keys), _feeds())
    assert operators(model) == {"MultiHeadAttention": 1}


CACHED = """
    k_new = Transpose <perm = [0, 2, 1, 3]> (k_rows)
    k_heads = Concat <axis = -2> (past_k, k_new)
    k_columns = Transpose <perm = [0, 1, 3, 2]> (k_heads)
"""


def test_a_past_becomes_inputs_and_outputs() -> None:
    """The operator appends the new keys and values and writes the present ones."""
    middle = PLAIN.replace("(weights, v_heads)", "(weights, v_all)")
    middle = f"v_all = Concat <axis = 2> (past_v, v_heads) {middle}"
    text = _text(
        middle,
        inputs=f"{INPUTS}, float[2, 2, P, 4] past_k, float[2, 2, P, 4] past_v",
        keys=CACHED,
        result="float[2, 3, 8] y, float[2, 2, T, 4] k_heads, float[2, 2, T, 4] v_all",
    )
    random = np.random.default_rng(6)
    past = {name: random.standard_normal((2, 2, 4, 4)).astype(np.float32) for name in ("past_k", "past_v")}
    model, _ = optimise(text, _feeds(**past))
    assert operators(model) == {"MultiHeadAttention": 1}
    assert [value.name for value in _attention(model).outputs] == ["y", "k_heads", "v_all"]


def test_a_mask_made_of_the_present_keys_keeps_them_outside() -> None:
    """The operator cannot write the keys that its own mask is computed from."""
    middle = """
        v_all = Concat <axis = 2> (past_v, v_heads)
        biggest = ReduceMax <keepdims = 1> (k_heads)
        scores = MatMul (q_heads, k_columns)
        masked = Add (scores, biggest)
        weights = Softmax <axis = -1> (masked)
        y_heads = MatMul (weights, v_all)
    """
    text = _text(middle, inputs=f"{INPUTS}, float[2, 2, P, 4] past_k, float[2, 2, P, 4] past_v", keys=CACHED)
    random = np.random.default_rng(6)
    past = {name: random.standard_normal((2, 2, 4, 4)).astype(np.float32) for name in ("past_k", "past_v")}
    model, _ = optimise(text, _feeds(**past))
    assert operators(model)["MultiHeadAttention"] == 1
    assert operators(model)["Concat"] == 2


@pytest.mark.parametrize("length", ["5", "N"])
def test_a_mask_may_be_as_long_as_the_present_keys(length: str) -> None:
    """PyTorch's older exporter cuts masks to that length, which is known without the keys."""
    middle = """
        v_all = Concat <axis = 2> (past_v, v_heads)
        none = Constant <value_ints = [0]> () two = Constant <value_ints = [2]> ()
        three = Constant <value_ints = [3]> ()
        shape = Shape (k_heads) length = Gather (shape, two)
        cut = Slice (mask, none, length, three)
        scores = MatMul (q_heads, k_columns)
        masked = Add (scores, cut)
        weights = Softmax <axis = -1> (masked)
        y_heads = MatMul (weights, v_all)
    """
    inputs = INPUTS.replace("[2, 5, 8]", f"[2, {length}, 8]")
    given = "float[2, 2, P, 4] past_k, float[2, 2, P, 4] past_v, float[2, 1, 3, 20] mask"
    text = _text(
        middle,
        inputs=f"{inputs}, {given}",
        keys=CACHED,
        result="float[2, 3, 8] y, float[2, 2, T, 4] k_heads, float[2, 2, T, 4] v_all",
    )
    random = np.random.default_rng(6)
    past = {name: random.standard_normal((2, 2, 4, 4)).astype(np.float32) for name in ("past_k", "past_v")}
    model, _ = optimise(text, _feeds(**past, mask=random.standard_normal((2, 1, 3, 20)).astype(np.float32)))
    assert operators(model)["MultiHeadAttention"] == 1
    assert operators(model)["Concat"] == 0
    read = {one.inputs[0] for one in model.graph.nodes if one.op_type == "Shape"}
    assert {one.name for one in read if one is not None} == {"past_k", "k" if length == "N" else "k_new"}


def test_weights_that_are_returned_stay() -> None:
    """Somebody reads the softmax: nothing is fused."""
    text = _text(PLAIN, result="float[2, 3, 8] y, float[2, 2, 3, 5] weights")
    model, _ = optimise(text, _feeds())
    assert not operators(model)["MultiHeadAttention"]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("<axis = -1> (scores)", "<axis = 2> (scores)", "the softmax is not over the keys"),
        (
            "scores = MatMul (q_heads, k_columns)",
            "half = Constant <value_float = 0.0> () raw = MatMul (q_heads, k_columns) scores = Mul (raw, half)",
            "the scores are multiplied by 0.0",
        ),
    ],
)
def test_near_misses(old: str, new: str, reason: str) -> None:
    """Patterns that only resemble an attention give a reason."""
    model, report = optimise(_text(PLAIN.replace(old, new)))
    assert not operators(model)["MultiHeadAttention"]
    assert reason in report


def test_scores_that_are_read_elsewhere_stay() -> None:
    """They would have to be computed twice."""
    text = _text(PLAIN, result="float[2, 3, 8] y, float[2, 2, 3, 5] scores")
    model, report = optimise(text, _feeds())
    assert not operators(model)["MultiHeadAttention"]
    assert "'scores', which MatMul" in report
    assert "is read elsewhere too" in report


def test_a_mask_that_spreads_the_scores() -> None:
    """Three masks for one row of scores would be three results."""
    inputs = "float[2, 1, 8] q, float[2, 5, 8] k, float[2, 5, 8] v, float[2, 1, 3, 5] mask"
    join = "y_rows = Transpose <perm = [0, 2, 1, 3]> (y_heads) y = Reshape (y_rows, columns)"
    model, report = optimise(_text(MASKED, inputs=inputs, join=join))
    assert not operators(model)["MultiHeadAttention"]
    assert "the mask may spread the scores from [2, 2, 1, 5] to [2, 2, 3, 5]" in report


def test_keys_transposed_otherwise() -> None:
    """Axes in another order do not form an attention, even where sizes agree."""
    text = """g (float[2, 4, 4, 4] q, float[2, 4, 4, 4] k, float[2, 4, 4, 4] v) => (float[2, 4, 4, 4] y) {
        kt = Transpose <perm = [0, 3, 1, 2]> (k) scores = MatMul (q, kt)
        weights = Softmax <axis = -1> (scores) y = MatMul (weights, v) }"""
    model, report = optimise(text)
    assert not operators(model)["MultiHeadAttention"]
    assert "the keys are transposed by [0, 3, 1, 2], not by [0, 1, 3, 2]" in report


def test_double_stays() -> None:
    """No kernel of the operator computes in double."""
    text = _text(PLAIN).replace("float[", "double[")
    model, report = optimise(text)
    assert not operators(model)["MultiHeadAttention"]
    assert "it computes in double, not in float or float16" in report


def test_heads_that_differ_stay() -> None:
    """Two batches of keys for one of queries is broadcasting, which the operator does not do."""
    text = """g (float[1, 2, 3, 4] q, float[2, 2, 5, 4] k, float[2, 2, 5, 4] v) => (float[2, 2, 3, 4] y) {
        kt = Transpose <perm = [0, 1, 3, 2]> (k) scores = MatMul (q, kt)
        weights = Softmax <axis = -1> (scores) y = MatMul (weights, v) }"""
    model, report = optimise(text)
    assert not operators(model)["MultiHeadAttention"]
    assert "queries, keys and values may differ in their batch: 1, 2, 2" in report
