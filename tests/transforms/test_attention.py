"""Fused attention in sessions of the CPU provider: what its kernel adds to what the function says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ort_py as ort
from ort_py_kit.graphs import model_from_text
from ort_py_kit.tolerances import assert_close


def _run(text: str, feeds: dict[str, Any], level: str) -> tuple[Any, dict[str, int]]:
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    message = model_from_text(text, 17).SerializeToString()
    with ort.InferenceSession(message, options, providers=["CPUExecutionProvider"]) as session:
        report = session.load_report.optimisation
        changes = {one.name: one.changes for one in report.passes} if report is not None else {}
        return session.run(None, feeds)[0], changes


def _heads(query: tuple[int, ...], key: tuple[int, ...], value: tuple[int, ...], dtype: Any = np.float32) -> Any:
    random = np.random.default_rng(5)
    return {
        name: random.standard_normal(shape).astype(dtype)
        for name, shape in zip("qkv", (query, key, value), strict=True)
    }


PLAIN = """
    kt = Transpose <perm = [0, 1, 3, 2]> (k)
    scores = MatMul (q, kt)
    weights = Softmax <axis = -1> (scores)
    y = MatMul (weights, v)
"""


@pytest.mark.parametrize(("element", "dtype"), [("float", np.float32), ("float16", np.float16)])
def test_heads_that_were_never_columns(element: str, dtype: Any) -> None:
    """Keys and values stay as they are; queries and the result are brought into the operator's form."""
    inputs = f"{element}[B, 2, N, 4] q, {element}[B, 2, M, 4] k, {element}[B, 2, M, 6] v"
    text = f"g ({inputs}) => ({element}[B, 2, N, 6] y) {{ {PLAIN} }}"
    feeds = _heads((3, 2, 3, 4), (3, 2, 5, 4), (3, 2, 5, 6), dtype)
    expected, _ = _run(text, feeds, "ORT_DISABLE_ALL")
    actual, changes = _run(text, feeds, "ORT_ENABLE_EXTENDED")
    assert changes["AttentionFusion"] == 1
    assert_close(actual, expected)


def test_nothing_is_fused_at_basic() -> None:
    """The operator is none of ONNX's."""
    text = f"g (float[1, 2, 3, 4] q, float[1, 2, 5, 4] k, float[1, 2, 5, 4] v) => (float[1, 2, 3, 4] y) {{ {PLAIN} }}"
    _, changes = _run(text, _heads((1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 4)), "ORT_ENABLE_BASIC")
    assert "AttentionFusion" not in changes


def test_rows_that_see_no_key_are_zeros() -> None:
    text = """g (float[1, 2, 3, 4] q, float[1, 2, 5, 4] k, float[1, 2, 5, 4] v, bool[3, 5] seen)
        => (float[1, 2, 3, 4] y) {
        kt = Transpose <perm = [0, 1, 3, 2]> (k)
        scores = MatMul (q, kt)
        zero = Constant <value_float = 0.0> ()
        hidden = Constant <value = float {-inf}> ()
        mask = Where (seen, zero, hidden)
        masked = Add (scores, mask)
        plain = Softmax <axis = -1> (masked)
        unknown = IsNaN (plain)
        weights = Where (unknown, zero, plain)
        y = MatMul (weights, v)
    }"""
    seen = np.ones((3, 5), np.bool_)
    seen[0, 2:] = seen[1] = False
    feeds = {**_heads((1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 4)), "seen": seen}
    expected, _ = _run(text, feeds, "ORT_DISABLE_ALL")
    actual, changes = _run(text, feeds, "ORT_ENABLE_ALL")
    assert changes["AttentionFusion"] == 1
    assert not actual[:, :, 1].any()
    assert_close(actual, expected)


def test_a_mask_that_turns_out_to_spread_is_refused_by_name() -> None:
    """Sizes that are unknown when the session is made are checked by the kernel: never a wrong result."""
    text = """g (float[1, 2, N, 4] q, float[1, 2, 5, 4] k, float[1, 2, 5, 4] v, float[A, 5] mask)
        => (float[1, 2, C, 4] y) {
        kt = Transpose <perm = [0, 1, 3, 2]> (k)
        scores = MatMul (q, kt)
        masked = Add (scores, mask)
        weights = Softmax <axis = -1> (masked)
        y = MatMul (weights, v)
    }"""
    feeds = {**_heads((1, 2, 1, 4), (1, 2, 5, 4), (1, 2, 5, 4)), "mask": np.zeros((3, 5), np.float32)}
    with pytest.raises(ort.OrtPyError, match="The mask does not broadcast to"):
        _run(text, feeds, "ORT_ENABLE_ALL")
