"""LayerNormalization, its simplified form, and sums in front of both, out of what exporters write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from core.tests.transforms.fusions import fuse
from ort_py.contracts import Transform
from ort_py.transforms.functions.layer_normalization import (
    FuseLayerNormalization,
    FuseNormalizationBias,
    FuseSimplifiedLayerNormalization,
    FuseSkipNormalization,
)

RANDOM = np.random.default_rng(12)
FEEDS = {"x": RANDOM.standard_normal((2, 3, 8)).astype(np.float32)}
WEIGHTS: dict[str, Any] = {
    "scale": RANDOM.standard_normal(8).astype(np.float32),
    "bias": RANDOM.standard_normal(8).astype(np.float32),
    "axes": np.array([-1], np.int64),
}
CONSTANTS = "<float two = {2.0}, float eps = {0.00001}, float one = {1.0}, float less = {-0.5}>"
HEAD = f"g (float[2, 3, 8] x) => (float[2, 3, 8] y) {CONSTANTS}"
MEAN, VARIANCE = "m = ReduceMean<axes = [-1]>(x) d = Sub(x, m)", "v = ReduceMean<axes = [-1]>(p) e = Add(v, eps)"
SQUARE, ROOT, DIVIDED = "p = Pow(d, two)", "r = Sqrt(e)", "n = Div(d, r)"
TAIL = "s = Mul(n, scale) y = Add(s, bias)"


def rules() -> list[Transform]:
    """All of them, in their order."""
    return [
        FuseLayerNormalization(),
        FuseNormalizationBias(),
        FuseSimplifiedLayerNormalization(),
        FuseSkipNormalization(),
    ]


@pytest.mark.parametrize("square", [SQUARE, "p = Mul(d, d)"])
@pytest.mark.parametrize(
    "divided",
    [
        "r = Sqrt(e) n = Div(d, r)",
        "r = Sqrt(e) i = Reciprocal(r) n = Mul(d, i)",
        "r = Sqrt(e) i = Div(one, r) n = Mul(i, d)",
        "i = Pow(e, less) n = Mul(d, i)",
    ],
)
@pytest.mark.parametrize("opset", [11, 17])
def test_layer_normalization(square: str, divided: str, opset: int) -> None:
    """Every spelling of square and root, also in opsets that do not have the operator."""
    text = f"{HEAD} {{ {MEAN} {square} {VARIANCE} {divided} {TAIL} }}"
    found, _, _ = fuse(text, *rules(), opset=opset, weights=WEIGHTS, feeds=FEEDS)
    assert found == {"LayerNormalization": 1}


def test_axes_as_an_input() -> None:
    """From opset 18 on reductions read their axes."""
    text = (
        f"{HEAD} {{ m = ReduceMean(x, axes) d = Sub(x, m) {SQUARE} v = ReduceMean(p, axes) e = Add(v, eps) {ROOT} "
        f"{DIVIDED} {TAIL} }}"
    )
    found, model, _ = fuse(text, *rules(), opset=18, weights=WEIGHTS)
    assert found == {"LayerNormalization": 1}
    assert model.graph.nodes[0].attributes == {"axis": -1, "epsilon": pytest.approx(1e-5), "stash_type": 1}


def test_without_a_bias() -> None:
    text = f"{HEAD} {{ {MEAN} {SQUARE} {VARIANCE} {ROOT} {DIVIDED} y = Mul(scale, n) }}"
    found, model, _ = fuse(text, *rules(), weights=WEIGHTS)
    assert found == {"LayerNormalization": 1}
    assert len(model.graph.nodes[0].inputs) == 2


def test_half_precision_behind_casts() -> None:
    """Statistics in float32 of a float16 tensor are the operator's own way."""
    text = f"""g (float16[2, 3, 8] x) => (float16[2, 3, 8] y) {CONSTANTS} {{
        w = Cast<to = 1>(x) m = ReduceMean<axes = [-1]>(w) d = Sub(w, m) {SQUARE} {VARIANCE} {ROOT} {DIVIDED}
        h = Cast<to = 10>(n) s = Mul(h, scale) y = Add(s, bias) }}"""
    half = {name: array.astype(np.float16) for name, array in WEIGHTS.items() if name != "axes"}
    found, _, _ = fuse(text, *rules(), weights=half, feeds={"x": FEEDS["x"].astype(np.float16)})
    assert found == {"LayerNormalization": 1}


@pytest.mark.parametrize("opset", [17, 23])
def test_root_mean_square(opset: int) -> None:
    """The simplified form is RMSNormalization where ONNX has it, else its forerunner."""
    square = f"p = Pow(x, two) {VARIANCE}" if opset < 18 else "p = Pow(x, two) v = ReduceMean(p, axes) e = Add(v, eps)"
    text = f"{HEAD} {{ {square} {ROOT} i = Reciprocal(r) n = Mul(x, i) y = Mul(n, scale) }}"
    found, _, _ = fuse(text, *rules(), opset=opset, weights=WEIGHTS, feeds=FEEDS if opset < 23 else None)
    assert found == {"SimplifiedLayerNormalization" if opset < 23 else "RMSNormalization": 1}


def test_a_sum_in_front_goes_in_and_comes_out() -> None:
    """Other readers of the sum read an output of the new node."""
    text = f"""g (float[2, 3, 8] a, float[2, 3, 8] b) => (float[2, 3, 8] y, float[2, 3, 8] z) {CONSTANTS} {{
        c = Add(a, bias) x = Add(c, b) {MEAN} {SQUARE} {VARIANCE} {ROOT} {DIVIDED} {TAIL} z = Neg(x) }}"""
    feeds = {"a": FEEDS["x"], "b": FEEDS["x"] * 0.5}
    found, _, _ = fuse(text, *rules(), weights=WEIGHTS, feeds=feeds)
    assert found == {"SkipLayerNormalization": 1, "Neg": 1}
    _, model, _ = fuse(text, *rules(), weights=WEIGHTS)
    assert [value is not None for value in model.graph.nodes[0].outputs] == [True, False, False, True]
    assert len(model.graph.nodes[0].inputs) == 5


def test_a_sum_that_broadcasts_stays() -> None:
    """SkipLayerNormalization broadcasts a batch at most."""
    text = f"""g (float[2, 3, 8] a, float[2, 3, 1] b) => (float[2, 3, 8] y) {CONSTANTS} {{
        x = Add(a, b) {MEAN} {SQUARE} {VARIANCE} {ROOT} {DIVIDED} {TAIL} }}"""
    found, _, why = fuse(text, *rules(), weights=WEIGHTS)
    assert found == {"Add": 1, "LayerNormalization": 1}
    assert "not known to have one shape" in why


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("v = ReduceMean<axes = [-1]>", "v = ReduceMean<axes = [1]>", "not over the last ones"),
        ("p = Pow(d, two)", "p = Pow(d, one)", "is 1.0, not 2.0"),
        ("e = Add(v, eps)", "e = Add(v, two)", "2.0 is not an epsilon"),
        ("Mul(n, scale)", "Mul(n, eps)", "the shape of the normalised axes"),
    ],
)
def test_what_only_looks_like_it_stays(old: str, new: str, reason: str) -> None:
    """Other axes, powers, epsilons and scales."""
    text = f"{HEAD} {{ {MEAN} {SQUARE} {VARIANCE} {ROOT} {DIVIDED} {TAIL} }}".replace(old, new)
    found, _, why = fuse(text, FuseLayerNormalization(), weights=WEIGHTS)
    assert "LayerNormalization" not in found
    assert reason in why


def test_a_bias_of_another_shape_stays() -> None:
    """A number is not a bias of a normalisation over eight columns."""
    text = f"{HEAD} {{ {MEAN} {SQUARE} {VARIANCE} {ROOT} {DIVIDED} s = Mul(n, scale) y = Add(s, one) }}"
    found, _, why = fuse(text, *rules(), weights=WEIGHTS, feeds=FEEDS)
    assert found == {"LayerNormalization": 1, "Add": 1}
    assert "the shape of the scale" in why
