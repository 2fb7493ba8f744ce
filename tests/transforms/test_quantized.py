"""Quantised patterns in sessions of the CPU provider: integers equal bit by bit, products to float32's tolerance."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import ort_py as ort
from ort_py_kit.graphs import model_from_text
from ort_py_kit.tolerances import assert_close


def _run(text: str, feeds: dict[str, Any], level: str, weights: dict[str, Any]) -> tuple[Any, dict[str, int]]:
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    message = model_from_text(text, 17)
    message.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in weights.items())
    with ort.InferenceSession(message, options, providers=["CPUExecutionProvider"]) as session:
        report = session.load_report.optimisation
        changes = {one.name: one.changes for one in report.passes} if report is not None else {}
        return session.run(None, feeds)[0], changes


@pytest.mark.parametrize(("function", "zero"), [("Sigmoid", 0), ("LeakyRelu <alpha = 0.3>", 100)])
def test_activations_of_all_bytes(function: str, zero: int) -> None:
    """The table holds what the three nodes compute."""
    text = f"""g (uint8[256] x) => (uint8[256] y) {{
        f = DequantizeLinear (x, s, z) m = {function} (f) y = QuantizeLinear (m, t, u) }}"""
    weights = {"s": np.float32(0.043), "z": np.uint8(111), "t": np.float32(0.0391), "u": np.uint8(zero)}
    arrays = {name: np.asarray(value) for name, value in weights.items()}
    feeds = {"x": np.arange(256, dtype=np.uint8)}
    expected, _ = _run(text, feeds, "ORT_DISABLE_ALL", arrays)
    actual, changes = _run(text, feeds, "ORT_ENABLE_ALL", arrays)
    assert changes["QDQActivationFusion"] == 1
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("scale", [1e-30, 0.0037, 0.1, 3.0, 1e25])
@pytest.mark.parametrize("element", ["uint8", "int8"])
def test_moved_integers_are_equal(element: str, scale: float) -> None:
    """For every byte and scales of any usual size, at every level."""
    text = f"""g ({element}[16, 16] x) => ({element}[16, 16] y) {{
        f = DequantizeLinear (x, s, z) m = Transpose (f) y = QuantizeLinear (m, s, z) }}"""
    weights = {"s": np.array(scale, np.float32), "z": np.array(7, element)}
    feeds = {"x": np.arange(256, dtype=np.uint8).reshape(16, 16).view(element)}
    expected, _ = _run(text, feeds, "ORT_DISABLE_ALL", weights)
    actual, changes = _run(text, feeds, "ORT_ENABLE_ALL", weights)
    assert changes["QDQMovement"] == 1
    np.testing.assert_array_equal(actual, expected)


def test_a_product_quantised_at_run_time() -> None:
    """Six nodes are one; the integer product is the same."""
    text = """g (float[5, 64] x) => (float[5, 32] y) {
        q, s, z = DynamicQuantizeLinear (x) i = MatMulInteger (q, w, z, wz) c = Cast <to = 1> (i)
        k = Mul (s, ws) m = Mul (c, k) y = Add (m, b) }"""
    random = np.random.default_rng(1)
    weights = {
        "w": random.integers(-127, 127, (64, 32)).astype(np.int8),
        "ws": random.uniform(0.001, 0.01, 32).astype(np.float32),
        "wz": np.zeros(32, np.int8),
        "b": random.standard_normal(32).astype(np.float32),
    }
    feeds = {"x": random.standard_normal((5, 64)).astype(np.float32)}
    expected, _ = _run(text, feeds, "ORT_DISABLE_ALL", weights)
    actual, changes = _run(text, feeds, "ORT_ENABLE_ALL", weights)
    assert changes["DynamicQuantizeMatMulFusion"] == 1
    assert_close(actual, expected)
