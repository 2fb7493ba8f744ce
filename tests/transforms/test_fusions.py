"""Fusions with the CPU provider: it runs the fused operators, and gets the results of the nodes they replace.

The oracle is the same model with optimisation switched off, and onnxruntime.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest

import ort_py as ort
from ort_py_kit.graphs import model_from_text
from ort_py_kit.tolerances import assert_close

RANDOM = np.random.default_rng(21)
_NUMBERS = (
    "<float root = {1.4142135}, float one = {1.0}, float half = {0.5}, float two = {2.0}, float three = {3.0}, "
    "float cubic = {0.044715}, float slope = {0.7978845}, float eps = {0.00001}, float[5] c = {1, 2, 3, 4, 5}, "
    "float[4] scale = {0.5, 1, 1.5, 2}, float[4] shift = {1, 0, -1, 0.5}, float six = {6.0}, float zero = {0.0}>"
)
_ROWS = f"g (float[2, 3, 4] x) => (float[2, 3, 4] y) {_NUMBERS}"
_GELU = "a = Div(x, root) e = Erf(a) f = Add(e, one) p = Mul(x, f) y = Mul(p, half)"
_CENTRED = "m = ReduceMean<axes = [-1]>(x) d = Sub(x, m) p = Pow(d, two) v = ReduceMean<axes = [-1]>(p)"
_LAYER = f"{_CENTRED} e = Add(v, eps) r = Sqrt(e) n = Div(d, r) s = Mul(n, scale) y = Add(s, shift)"
_SUMS = f"g (float[2, 3, 4] a, float[2, 3, 4] b) => (float[2, 3, 4] y, float[2, 3, 4] z) {_NUMBERS}"
_CUBE = "c3 = Pow(x, three) u = Mul(c3, cubic) w = Add(x, u) q = Mul(w, slope) t = Tanh(q) f = Add(t, one)"
_PICTURE = "g (float[1, 2, 5, 5] x, float[3, 2, 3, 3] w, float[1, 3, 3, 3] z) => (float[1, 3, 3, 3] y)"

CASES = {
    "gelu": (f"{_ROWS} {{ {_GELU} }}", 13, "Gelu"),
    "standard gelu": (f"{_ROWS} {{ {_GELU} }}", 20, "Gelu"),
    "bias gelu": (f"{_ROWS} {{ k = Add(x, shift) {_GELU.replace('x,', 'k,')} }}", 17, "BiasGelu"),
    "tanh gelu": (f"{_ROWS} {{ {_CUBE} h = Mul(x, half) y = Mul(h, f) }}", 13, "FastGelu"),
    "quick gelu": (f"{_ROWS} {{ m = Mul(x, two) s = Sigmoid(m) y = Mul(x, s) }}", 17, "QuickGelu"),
    "mish": (f"{_ROWS} {{ s = Softplus(x) t = Tanh(s) y = Mul(x, t) }}", 18, "Mish"),
    "layer": (f"{_ROWS} {{ {_LAYER} }}", 11, "LayerNormalization"),
    "standard layer": (f"{_ROWS} {{ {_LAYER} }}", 17, "LayerNormalization"),
    "root mean square": (
        f"{_ROWS} {{ p = Pow(x, two) v = ReduceMean<axes = [-1]>(p) e = Add(v, eps) r = Sqrt(e) n = Div(x, r) "
        "y = Mul(n, scale) }",
        13,
        "SimplifiedLayerNormalization",
    ),
    "sum and layer": (
        f"{_SUMS} {{ k = Add(a, shift) x = Add(k, b) {_LAYER} z = Neg(x) }}",
        13,
        "SkipLayerNormalization",
    ),
    "product": (
        f"g (float[3, 4] x, float[4, 5] w) => (float[3, 5] y) {_NUMBERS} {{ p = MatMul(x, w) s = Add(p, c) "
        "y = LeakyRelu(s) }",
        13,
        "FusedGemm",
    ),
    "transposed product": (
        f"g (float[2, 3, 4] x, float[2, 5, 4] w) => (float[2, 3, 5] y) {_NUMBERS} "
        "{ t = Transpose<perm = [0, 2, 1]>(w) p = MatMul(x, t) y = Div(p, six) }",
        13,
        "FusedMatMul",
    ),
    "residual convolution": (f"{_PICTURE} {{ c = Conv(x, w) s = Add(c, z) y = Relu(s) }}", 13, "FusedConv"),
    "cut convolution": (f"{_PICTURE} {_NUMBERS} {{ k = Conv(x, w) y = Clip(k, zero, half) }}", 13, "FusedConv"),
}


def _session(model: bytes, level: Any) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("name", sorted(CASES))
def test_fused_models_compute_the_same(name: str) -> None:
    """The fused node is what runs, and its results are those without optimisation, and onnxruntime's."""
    text, opset, operator = CASES[name]
    proto = model_from_text(text, opset)
    feeds = {
        value.name: RANDOM.standard_normal([dim.dim_value for dim in value.type.tensor_type.shape.dim]).astype(
            np.float32
        )
        for value in proto.graph.input
    }
    model = proto.SerializeToString()
    levels = ort.GraphOptimizationLevel
    with _session(model, levels.ORT_ENABLE_ALL) as fused, _session(model, levels.ORT_DISABLE_ALL) as plain:
        assert operator in [node.op_type for node in fused.placement.nodes]
        results, expected = fused.run(None, feeds), plain.run(None, feeds)
    peer = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feeds)
    for left, right, other in zip(results, expected, peer, strict=True):
        assert_close(left, right, context="without optimisation")
        assert_close(left, other, context="onnxruntime")
