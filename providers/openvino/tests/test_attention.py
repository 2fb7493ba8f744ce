"""Attention that OpenVINO's generated loops would compute wrongly, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ort_py_kit.tolerances import assert_close
from providers.openvino.tests.models import NAME, opened, runners

SHAPES = {"a": (1, 2, 3), "b": (1, 3, 2), "v": (1, 2, 3)}


@pytest.mark.parametrize(("tokens", "heads"), [(8, 8), (12, 12), (8, 12)])
def test_as_many_tokens_as_heads(tokens: int, heads: int) -> None:
    """The closed form, in each of several runs."""
    width = 64
    text = f"""g (float[1, {tokens}, {heads * width}] q, float[1, {heads}, {width}, {tokens}] k,
        float[1, {heads}, {tokens}, {width}] v) => (float[1, {heads}, {tokens}, {width}] y)
        <int64[4] c = {{0, -1, {heads}, {width}}}> {{
        r = Reshape(q, c) t = Transpose <perm = [0, 2, 1, 3]> (r)
        s = MatMul(t, k) p = Softmax <axis = -1> (s) y = MatMul(p, v)
    }}"""
    rng = np.random.default_rng(tokens)
    q = rng.standard_normal((1, tokens, heads * width), np.float32) / 8
    k = rng.standard_normal((1, heads, width, tokens), np.float32)
    v = rng.standard_normal((1, heads, tokens, width), np.float32)
    scores = np.matmul(q.reshape(1, tokens, heads, width).transpose(0, 2, 1, 3), k)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = np.matmul(powers / powers.sum(-1, keepdims=True), v)
    with opened(text) as session:
        assert set(runners(session).values()) == {NAME}
        for _ in range(3):
            assert_close(session.run(None, {"q": q, "k": k, "v": v})[0], wanted)


def _attended(a: np.ndarray, b: np.ndarray, v: np.ndarray) -> np.ndarray:
    scores = np.matmul(a, b)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    result: np.ndarray = np.matmul(powers / powers.sum(-1, keepdims=True), v)
    return result


@pytest.mark.parametrize(
    ("end", "closed"),
    [
        ("y = Identity(o) z = Sub(o, v)", lambda o, v: (o, o - v)),
        ("y = Mul(o, v) z = Neg(y)", lambda o, v: (o * v, -o * v)),
        ("z = Div(o, v) y = Abs(o)", lambda o, v: (np.abs(o), o / v)),
    ],
    ids=["itself", "its multiple", "a value that is looked at"],
)
def test_a_result_that_is_read_twice(end: str, closed: Callable[[Any, Any], tuple[Any, Any]]) -> None:
    """By arithmetic and as an output of the region."""
    text = f"""g (float[1, 2, 3] a, float[1, 3, 2] b, float[1, 2, 3] v) => (float[1, 2, 3] y, float[1, 2, 3] z) {{
        m = MatMul(a, b) s = Softmax <axis = -1> (m) o = MatMul(s, v) {end}
    }}"""
    rng = np.random.default_rng(5)
    feeds = {name: rng.uniform(0.5, 1, shape).astype(np.float32) for name, shape in SHAPES.items()}
    with opened(text) as session:
        assert NAME in runners(session).values()
        for found, wanted in zip(session.run(None, feeds), closed(_attended(**feeds), feeds["v"]), strict=True):
            assert_close(found, wanted)
        assert not session.fallback_report


def test_a_single_constant_value() -> None:
    """One key whose value is one number: the generator takes it for a factor, and refuses."""
    text = """g (float[1, 2, 2] a, float[1, 2, 1] b) => (float[1, 2, 1] y) <float[1, 1, 1] v = {0.5}> {
        m = MatMul(a, b) s = Softmax <axis = -1> (m) y = MatMul(s, v)
    }"""
    with opened(text) as session:
        assert set(runners(session).values()) == {NAME}
        (y,) = session.run(None, {"a": np.ones((1, 2, 2), np.float32), "b": np.ones((1, 2, 1), np.float32)})
        np.testing.assert_array_equal(y, np.full((1, 2, 1), 0.5, np.float32))


@pytest.mark.parametrize("sizes", ["B, 2, K, 8", "B, H, K, D"])
def test_one_key_and_then_more(sizes: str) -> None:
    """Each run has another number of keys: the first has one."""
    turned = sizes.replace("K, 8", "8, K").replace("K, D", "D, K")
    text = f"""g (float[{sizes}] a, float[{turned}] b, float[{sizes}] v) => (float[{sizes}] y) {{
        m = MatMul(a, b) s = Softmax <axis = -1> (m) y = MatMul(s, v)
    }}"""
    rng = np.random.default_rng(6)
    with opened(text) as session:
        assert set(runners(session).values()) == {NAME}
        for keys in (1, 20, 4, 1, 9):
            a, b, v = (
                rng.standard_normal(one, np.float32) for one in ((3, 2, keys, 8), (3, 2, 8, keys), (3, 2, keys, 8))
            )
            assert_close(session.run(None, {"a": a, "b": b, "v": v})[0], _attended(a, b, v))
