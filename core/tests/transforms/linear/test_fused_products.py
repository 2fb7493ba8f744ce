"""Products and convolutions with what stands around them: Gemm, FusedGemm, FusedMatMul, FusedConv."""

from __future__ import annotations

import numpy as np
import pytest

from core.tests.transforms.fusions import fuse
from ort_py.transforms.linear.fused_products import (
    FuseConvActivation,
    FuseConvAdd,
    FuseGemmActivation,
    FuseMatMulAdd,
    FuseMatMulScale,
    FuseMatMulTranspose,
)

RANDOM = np.random.default_rng(13)
WEIGHTS = {
    "w": RANDOM.standard_normal((4, 5)).astype(np.float32),
    "gb": RANDOM.standard_normal(5).astype(np.float32),
    "f": RANDOM.standard_normal((3, 2, 3, 3)).astype(np.float32),
    "fb": RANDOM.standard_normal(3).astype(np.float32),
}
MATRIX = {"x": RANDOM.standard_normal((3, 4)).astype(np.float32)}
PICTURE = {
    "x": RANDOM.standard_normal((1, 2, 4, 4)).astype(np.float32),
    "z": RANDOM.standard_normal((1, 3, 4, 4)).astype(np.float32),
}
CONV = "Conv<pads = [1, 1, 1, 1]>"
PICTURE_HEAD = (
    "g (float[1, 2, 4, 4] x, float[1, 3, 4, 4] z) => (float[1, 3, 4, 4] y) "
    "<float low = {-0.5}, float high = {0.5}, float[1, 3, 1, 1] channel = {1, 2, 3}>"
)


def test_matmul_and_add_of_matrices() -> None:
    """Gemm, at the level that keeps to ONNX's operators."""
    text = "g (float[N, 4] x) => (float[N, 5] y) { p = MatMul(x, w) y = Add(gb, p) }"
    found, _, _ = fuse(text, FuseMatMulAdd(), weights=WEIGHTS, feeds=MATRIX)
    assert found == {"Gemm": 1}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("g (float[2, N, 4] x) => (float[2, N, 5] y) { p = MatMul(x, w) y = Add(p, gb) }", "known to be matrices"),
        ("g (float[1, 4] x, float[3, 5] d) => (float[3, 5] y) { p = MatMul(x, w) y = Add(p, d) }", "broadcast"),
    ],
)
def test_other_sums_stay(text: str, reason: str) -> None:
    """Products of more axes, and sums that are larger than the product."""
    found, _, why = fuse(text, FuseMatMulAdd(), weights=WEIGHTS)
    assert found == {"MatMul": 1, "Add": 1}
    assert reason in why


@pytest.mark.parametrize("call", ["Relu(p)", "Tanh(p)", "Sigmoid(p)", "LeakyRelu<alpha = 0.2>(p)", "HardSigmoid(p)"])
def test_gemm_and_activation(call: str) -> None:
    """The activation goes into the node, with its parameters."""
    text = f"g (float[3, 4] x) => (float[3, 5] y) {{ p = Gemm<alpha = 0.5>(x, w, gb) y = {call} }}"
    found, _, _ = fuse(text, FuseGemmActivation(), weights=WEIGHTS, feeds=MATRIX)
    assert found == {"FusedGemm": 1}


def test_a_gemm_that_is_read_twice_stays() -> None:
    """Somebody else wants it without the activation."""
    text = "g (float[3, 4] x) => (float[3, 5] y) { p = Gemm(x, w, gb) r = Relu(p) y = Mul(p, r) }"
    found, _, why = fuse(text, FuseGemmActivation(), weights=WEIGHTS)
    assert found["Relu"] == 1
    assert "is read by" in why


PRODUCT_HEAD = "g (float[2, 3, 4] x, float[2, 5, 4] k) => (float[2, 3, 5] y) <float s = {4.0}, float[2] two = {1, 2}>"
PRODUCTS = {
    "x": RANDOM.standard_normal((2, 3, 4)).astype(np.float32),
    "k": RANDOM.standard_normal((2, 5, 4)).astype(np.float32),
}


@pytest.mark.parametrize("scale", ["Div(p, s)", "Mul(s, p)"])
def test_transposes_and_scales_of_products(scale: str) -> None:
    """Both become attributes of one node."""
    text = f"{PRODUCT_HEAD} {{ t = Transpose<perm = [0, 2, 1]>(k) p = MatMul(x, t) y = {scale} }}"
    rules = FuseMatMulTranspose(), FuseMatMulScale()
    found, _, _ = fuse(text, *rules, feeds=PRODUCTS)
    assert found == {"FusedMatMul": 1}
    _, model, _ = fuse(text, *rules)
    assert model.graph.nodes[0].attributes == {"transB": 1, "alpha": 0.25 if "Div" in scale else 4.0}


def test_two_transposes_of_one_operand_cancel_out() -> None:
    """A swap of a swapped operand is none."""
    text = """g (float[3, 4] x) => (float[3, 5] y)
        { a = Transpose(x) b = Transpose(a) y = MatMul(b, w) }"""
    found, model, _ = fuse(text, FuseMatMulTranspose(), weights=WEIGHTS, feeds=None)
    assert found == {"FusedMatMul": 1}
    assert model.graph.nodes[0].attributes["transA"] == 0


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("t = Transpose<perm = [1, 2, 0]>(k) p = MatMul(x, t) y = Reshape(p, q)", "more than swap the last two axes"),
        ("p = MatMul(x, k) y = Div(p, two)", "not a single number"),
    ],
)
def test_other_transposes_and_factors_stay(body: str, reason: str) -> None:
    """Only the last two axes, only one number."""
    head = "g (float[2, 3, 2] x, float[2, 2, 2] k, int64[3] q) => (float[M, N, K] y) <float[2] two = {1, 2}>"
    _, model, why = fuse(f"{head} {{ {body} }}", FuseMatMulTranspose(), FuseMatMulScale())
    assert "FusedMatMul" not in [node.op_type for node in model.graph.nodes]
    assert reason in why


@pytest.mark.parametrize(
    "call",
    [
        "Relu(c)",
        "LeakyRelu<alpha = 0.2>(c)",
        "Sigmoid(c)",
        "Tanh(c)",
        "HardSigmoid(c)",
        "Clip(c, low, high)",
        "Clip(c)",
    ],
)
@pytest.mark.parametrize("inputs", ["x, f", "x, f, fb"])
def test_convolution_and_activation(call: str, inputs: str) -> None:
    """With and without a bias; Clip's bounds become parameters."""
    text = f"{PICTURE_HEAD} {{ c = {CONV}({inputs}) y = {call} }}"
    found, _, _ = fuse(text, FuseConvActivation(), weights=WEIGHTS, feeds=PICTURE)
    assert found == {"FusedConv": 1}


def test_attributes_of_clip() -> None:
    """Before opset 11 Clip's bounds are attributes."""
    text = f"{PICTURE_HEAD} {{ c = {CONV}(x, f) y = Clip<min = 0.0, max = 6.0>(c) }}"
    _, model, _ = fuse(text, FuseConvActivation(), weights=WEIGHTS, opset=10)
    assert model.graph.nodes[0].attributes["activation_params"] == (0.0, 6.0)


def test_convolution_sum_and_activation() -> None:
    """A residual block's end is one node."""
    text = f"{PICTURE_HEAD} {{ c = {CONV}(x, f, fb) s = Add(z, c) y = Relu(s) }}"
    found, _, _ = fuse(text, FuseConvAdd(), FuseConvActivation(), weights=WEIGHTS, feeds=PICTURE)
    assert found == {"FusedConv": 1}


def test_a_sum_that_broadcasts_stays() -> None:
    """FusedConv adds a tensor of the result's shape only."""
    text = f"{PICTURE_HEAD} {{ c = {CONV}(x, f) y = Add(c, channel) }}"
    found, _, why = fuse(text, FuseConvAdd(), weights=WEIGHTS)
    assert found == {"Conv": 1, "Add": 1}
    assert "the shape of the convolution" in why


def test_a_second_activation_stays() -> None:
    text = f"{PICTURE_HEAD} {{ c = {CONV}(x, f) r = Relu(c) y = Tanh(r) }}"
    found, _, _ = fuse(text, FuseConvActivation(), weights=WEIGHTS, feeds=PICTURE)
    assert found == {"FusedConv": 1, "Tanh": 1}


def test_bounds_from_an_input_keep_clip() -> None:
    """A value that is known only when the model runs is not a parameter."""
    head = PICTURE_HEAD.replace("float[1, 3, 4, 4] z)", "float[1, 3, 4, 4] z, float top)")
    found, _, why = fuse(f"{head} {{ c = {CONV}(x, f) y = Clip(c, low, top) }}", FuseConvActivation(), weights=WEIGHTS)
    assert found == {"Conv": 1, "Clip": 1}
    assert "not a constant" in why
