"""Attention with as many tokens as heads, of known sizes: OpenVINO's generated loop would overwrite its operand."""

from __future__ import annotations

import numpy as np
import pytest

from ort_py_kit.tolerances import assert_close
from providers.openvino.tests.models import NAME, opened, runners


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
