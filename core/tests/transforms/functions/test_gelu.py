"""Gelu and its relatives: every spelling becomes one node, and what only looks like one stays."""

from __future__ import annotations

import numpy as np
import pytest

from core.tests.transforms.fusions import fuse
from ort_py.transforms.functions.gelu import FuseBiasGelu, FuseGelu, FuseQuickGelu, FuseTanhGelu
from ort_py.transforms.functions.powers import ExpandCube

RANDOM = np.random.default_rng(11)
FEEDS = {"x": RANDOM.standard_normal((2, 3, 8)).astype(np.float32)}
HEAD = (
    "g (float[2, 3, 8] x) => (float[2, 3, 8] y) <float root = {1.4142135}, float inverse = {0.70710677}, "
    "float one = {1.0}, float half = {0.5}, float two = {2.0}, float cubic = {0.044715}, float slope = {0.7978845}, "
    "float three = {3.0}, float alpha = {1.702}, float other = {0.3}, float[1, 1, 1, 1] wide = {0.5}>"
)
BIAS = {"bias": RANDOM.standard_normal(8).astype(np.float32)}


@pytest.mark.parametrize("argument", ["Div(x, root)", "Mul(x, inverse)", "Mul(inverse, x)"])
@pytest.mark.parametrize(
    "product",
    [
        "p = Mul(x, f) y = Mul(p, half)",
        "p = Mul(x, f) y = Div(p, two)",
        "p = Mul(x, half) y = Mul(p, f)",
        "p = Div(x, two) y = Mul(f, p)",
        "p = Mul(half, f) y = Mul(x, p)",
    ],
)
def test_erf_in_any_order(argument: str, product: str) -> None:
    """The half and the root may stand anywhere."""
    found, model, _ = fuse(f"{HEAD} {{ a = {argument} e = Erf(a) f = Add(e, one) {product} }}", FuseGelu(), feeds=FEEDS)
    assert found == {"Gelu": 1}
    assert model.opset_imports["com.microsoft"] == 1


def test_onnx_has_gelu_from_opset_20_on() -> None:
    """Then the new node is ONNX's own."""
    text = f"{HEAD} {{ a = Div(x, root) e = Erf(a) f = Add(e, one) p = Mul(x, f) y = Mul(p, half) }}"
    _, model, _ = fuse(text, FuseGelu(), opset=20)
    assert [(node.domain, node.op_type) for node in model.graph.nodes] == [("", "Gelu")]


@pytest.mark.parametrize(
    "argument",
    [
        "c = Pow(x, three) m = Mul(c, cubic) s = Add(x, m) u = Mul(s, slope)",
        "q = Mul(x, x) c = Mul(q, x) m = Mul(cubic, c) s = Add(m, x) u = Mul(slope, s)",
        "q = Mul(x, x) m = Mul(q, cubic) s = Add(m, one) v = Mul(x, s) u = Mul(v, slope)",
        "w = Mul(x, cubic) m = Mul(w, x) s = Add(one, m) v = Mul(x, slope) u = Mul(v, s)",
    ],
)
@pytest.mark.parametrize("opset", [13, 20])
def test_tanh_in_any_order(argument: str, opset: int) -> None:
    """The approximation by tanh, with the cube as a power or as products, as exporters write it."""
    text = f"{HEAD} {{ {argument} t = Tanh(u) f = Add(t, one) h = Mul(x, half) y = Mul(h, f) }}"
    found, model, _ = fuse(text, ExpandCube(), FuseTanhGelu(), opset=opset, feeds=FEEDS if opset < 20 else None)
    assert found == ({"FastGelu": 1} if opset < 20 else {"Gelu": 1})
    if opset >= 20:
        assert model.graph.nodes[0].attributes == {"approximate": "tanh"}


@pytest.mark.parametrize(("argument", "alpha"), [("Sigmoid(x)", 1.0), ("Sigmoid(m)", 1.702)])
def test_sigmoid_with_and_without_a_factor(argument: str, alpha: float) -> None:
    """Both are QuickGelu; its default factor is not that of a plain sigmoid."""
    found, _, _ = fuse(f"{HEAD} {{ m = Mul(x, alpha) s = {argument} y = Mul(s, x) }}", FuseQuickGelu(), feeds=FEEDS)
    assert found["QuickGelu"] == 1
    _, model, _ = fuse(f"{HEAD} {{ m = Mul(x, alpha) s = {argument} y = Mul(s, x) }}", FuseQuickGelu())
    assert model.graph.nodes[-1].attributes["alpha"] == pytest.approx(alpha)


def test_swish_where_onnx_has_it() -> None:
    """From opset 24 on the node is ONNX's Swish."""
    found, _, _ = fuse(f"{HEAD} {{ s = Sigmoid(x) y = Mul(x, s) }}", FuseQuickGelu(), opset=24)
    assert found == {"Swish": 1}


def test_a_bias_in_front() -> None:
    """A constant of one entry per column goes into the node."""
    text = f"{HEAD} {{ b = Add(bias, x) a = Div(b, root) e = Erf(a) f = Add(e, one) p = Mul(b, f) y = Mul(p, half) }}"
    found, _, _ = fuse(text, FuseGelu(), FuseBiasGelu(), weights=BIAS, feeds=FEEDS)
    assert found == {"BiasGelu": 1}


def test_a_bias_of_another_shape_stays() -> None:
    """One number for all columns is not a bias of BiasGelu."""
    text = f"{HEAD} {{ b = Add(x, one) a = Div(b, root) e = Erf(a) f = Add(e, one) p = Mul(b, f) y = Mul(p, half) }}"
    found, _, why = fuse(text, FuseGelu(), FuseBiasGelu(), feeds=FEEDS)
    assert found == {"Add": 1, "Gelu": 1}
    assert "one entry for each column" in why


def test_another_number_is_no_gelu() -> None:
    """erf of another multiple of x."""
    text = f"{HEAD} {{ a = Mul(x, other) e = Erf(a) f = Add(e, one) p = Mul(x, f) y = Mul(p, half) }}"
    found, _, why = fuse(text, FuseGelu())
    assert "Gelu" not in found
    assert "is 0.3" in why


def test_constants_with_the_digits_of_float16() -> None:
    """A model of float16 that is computed in float32 has them; other numbers as far away are others."""
    text = f"{HEAD} {{ a = Div(x, root) e = Erf(a) f = Add(e, one) p = Mul(x, f) y = Mul(p, half) }}"
    assert fuse(text.replace("1.4142135", "1.4140625"), FuseGelu())[0] == {"Gelu": 1}
    assert fuse(text.replace("1.4142135", "1.4144"), FuseGelu())[0]["Erf"] == 1
    slope = "c = Pow(x, three) m = Mul(c, cubic) s = Add(x, m) u = Mul(s, slope)"
    text = f"{HEAD} {{ {slope} t = Tanh(u) f = Add(t, one) h = Mul(x, half) y = Mul(h, f) }}"
    for number in ("0.044715", "0.7978845"):
        text = text.replace(number, str(float(np.float16(number))))
    assert fuse(text, ExpandCube(), FuseTanhGelu())[0] == {"FastGelu": 1}


def test_a_part_that_is_read_elsewhere_keeps_the_nodes() -> None:
    """The graph returns what would vanish."""
    head = HEAD.replace("float[2, 3, 8] y)", "float[2, 3, 8] y, float[2, 3, 8] e)")
    text = f"{head} {{ a = Div(x, root) e = Erf(a) f = Add(e, one) p = Mul(x, f) y = Mul(p, half) }}"
    found, _, why = fuse(text, FuseGelu())
    assert found["Erf"] == 1
    assert "the graph returns 'e'" in why


def test_a_constant_with_more_axes_keeps_the_nodes() -> None:
    """It gives the result an axis that Gelu would not."""
    head = HEAD.replace("float[2, 3, 8] y", "float[1, 2, 3, 8] y")
    text = f"{head} {{ a = Div(x, root) e = Erf(a) f = Add(e, one) p = Mul(x, f) y = Mul(p, wide) }}"
    found, _, why = fuse(text, FuseGelu())
    assert found["Erf"] == 1
    assert "the result may have more axes" in why


def test_double_precision_keeps_the_nodes() -> None:
    """Constants of a model may have float32's digits only, an operator's have all."""
    text = """g (double[4] x) => (double[4] y) <double root = {1.4142135}, double one = {1.0}, double half = {0.5}>
        { a = Div(x, root) e = Erf(a) f = Add(e, one) p = Mul(x, f) y = Mul(p, half) }"""
    found, _, why = fuse(text, FuseGelu())
    assert found["Erf"] == 1
    assert "'x' is double" in why
