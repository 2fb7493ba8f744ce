"""Quantised activations and products quantised at run time: the operators, their functions, and near misses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from core.tests.transforms.fusions import fuse
from ort_py.transforms.late import late
from ort_py.transforms.quantization.quantized_activations import FuseQuantizedActivation

BYTES = {"x": np.arange(256, dtype=np.uint8)}


def _activation(function: str, parameters: str = "(m, t, z)") -> str:
    return f"""g (uint8[256] x) => (uint8[256] y) {{
        s = Constant <value = float {{0.05}}> () z = Constant <value = uint8 {{100}}> ()
        t = Constant <value = float {{0.004}}> () many = Constant <value_floats = [0.5]> ()
        f = DequantizeLinear (x, s, z) m = {function} (f) y = QuantizeLinear {parameters} }}"""


@pytest.mark.parametrize(
    ("function", "fused"),
    [("Sigmoid", "QLinearSigmoid"), ("LeakyRelu <alpha = 0.2>", "QLinearLeakyRelu")],
)
def test_a_function_of_a_byte(function: str, fused: str) -> None:
    """Three nodes are one; its function gives the same bytes."""
    counts, _, _ = fuse(_activation(function), FuseQuantizedActivation(), feeds=BYTES, opset=21)
    assert counts[fused] == 1
    assert not counts["QuantizeLinear"]


def test_a_sum_stays() -> None:
    """Functions of two numbers are as fast in floating point."""
    text = _activation("Sigmoid").replace("Sigmoid (f)", "Add (f, f)")
    counts, _, _ = fuse(text, FuseQuantizedActivation())
    assert counts["Add"] == 1


def test_another_type_behind_the_function() -> None:
    text = _activation("Sigmoid", "(m, t, w)").replace("(uint8[256] y)", "(int8[256] y)")
    text = text.replace("f = Dequantize", "w = Constant <value = int8 {0}> () f = Dequantize")
    counts, _, report = fuse(text, FuseQuantizedActivation())
    assert counts["Sigmoid"] == 1
    assert "it goes from uint8 to int8" in report


WEIGHTS: dict[str, Any] = {
    "w": np.random.default_rng(1).integers(-128, 128, (6, 4)).astype(np.int8),
    "ws": np.array([0.01, 0.02, 0.03, 0.04], np.float32),
    "wz": np.array([0, 1, -2, 3], np.int8),
    "bias": np.array([1, -1, 2, -2], np.float32),
}

DYNAMIC = """g (float[2, N, 6] x) => (float[2, N, 4] y) {
    q, s, z = DynamicQuantizeLinear (x)
    i = MatMulInteger (q, w, z, wz)
    c = Cast <to = 1> (i)
    k = Mul (s, ws)
    m = Mul (c, k)
    y = Add (bias, m)
}"""


def _x() -> dict[str, Any]:
    return {"x": np.random.default_rng(2).standard_normal((2, 3, 6)).astype(np.float32)}


RULES = tuple(late("DynamicQuantizeMatMulFusion", "MatMulIntegerToFloatFusion", "QuantizedMatMulBiasFusion"))


def test_a_product_quantised_at_run_time() -> None:
    """Six nodes are one, which reads what they read."""
    counts, model, _ = fuse(DYNAMIC, *RULES, weights=WEIGHTS)
    assert counts == {"DynamicQuantizeMatMul": 1}
    assert [value.name if value else "" for value in model.graph.nodes[0].inputs] == ["x", "w", "ws", "wz", "bias"]
    fuse(DYNAMIC, *RULES, weights=WEIGHTS, feeds=_x())


def test_without_a_bias() -> None:
    """The Add may be missing, and factors may stand in any order."""
    text = DYNAMIC.replace("m = Mul (c, k)", "y = Mul (k, c)").replace("y = Add (bias, m)", "")
    counts, _, _ = fuse(text, *RULES, weights=WEIGHTS, feeds=_x())
    assert counts == {"DynamicQuantizeMatMul": 1}


def test_an_input_that_two_products_share() -> None:
    """It is quantised once; each product, its scale and bias are one node."""
    text = DYNAMIC.replace("=> (float[2, N, 4] y)", "=> (float[2, N, 4] y, float[2, N, 4] r)").replace(
        "y = Add (bias, m)",
        "y = Add (bias, m) i2 = MatMulInteger (q, w, z, wz) c2 = Cast <to = 1> (i2) k2 = Mul (ws, s) r = Mul (c2, k2)",
    )
    counts, _, _ = fuse(text, *RULES, weights=WEIGHTS, feeds=_x())
    assert counts == {"DynamicQuantizeLinear": 1, "MatMulIntegerToFloat": 2}


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("k = Mul (s, ws)", "u = Abs (s) k = Mul (u, ws)", "'u' is not the scale of 'q'"),
        ("(bias, m)", "(x4, m)", "'x4' is not a bias of the columns of 'w'"),
        ("(q, w, z, wz)", "(q, v, z)", "'v' is not a matrix of 8 bits whose columns are known"),
    ],
)
def test_near_misses(old: str, new: str, reason: str) -> None:
    """The cases are another scale, a sum that is not a bias, and unknown columns."""
    inputs = "float[2, N, 6] x, float[2, N, 4] x4, int8[6] v"
    text = DYNAMIC.replace(old, new).replace("float[2, N, 6] x)", f"{inputs})")
    if "v, z" in new:
        text = text.replace("float[2, N, 4] y)", "float[2, N, 4] y)").replace("k = Mul (s, ws)", "k = Mul (s, s)")
        text = text.replace("y = Add (bias, m)", "y = Identity (m)").replace(
            "=> (float[2, N, 4] y)", "=> (float[2, N] y)"
        )
    _, _, report = fuse(text, *RULES, weights=WEIGHTS)
    assert reason in report
