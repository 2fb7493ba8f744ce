"""Basic rules in sessions: what levels compute is equal, and what onnxruntime computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import ort_py as ort
from ort_py_kit.graphs import model_from_text
from ort_py_kit.tolerances import assert_close

RANDOM = np.random.default_rng(21)
X = RANDOM.standard_normal((2, 4, 6, 6)).astype(np.float32)
WEIGHTS: dict[str, np.ndarray[Any, Any]] = {
    "w": RANDOM.standard_normal((4, 3, 3, 3)).astype(np.float32),
    "k": RANDOM.standard_normal((6, 4, 3, 3)).astype(np.float32),
    "v": RANDOM.uniform(0.1, 2, 6).astype(np.float32),
    "c": RANDOM.uniform(0.1, 2, (6, 1, 1)).astype(np.float32),
    "m": RANDOM.standard_normal((6, 5)).astype(np.float32),
    "pads": np.array([0, 0, 1, 2, 0, 0, 0, 1], np.int64),
    "two": np.array(2, np.float32),
    "first": np.array([0], np.int64),
    "third": np.array([2], np.int64),
    "minus": np.array([-1], np.int64),
    "n": np.array(3, np.int64),
}

CASES = {
    "grouped transposed convolution": (
        "a = ConvTranspose<group = 2>(x, w) b = BatchNormalization(a, v, v, v, v) d = Div(b, c) y = Sub(c, d)",
        {"ConvTranspose": 1},
    ),
    "padded convolution": ("p = Pad(x, pads) a = Conv(p, k) b = Neg(a) y = Mul(b, c)", {"Conv": 1}),
    "scaled input of a product": (
        "a = Mul(x, two) b = Div(a, two) e = Mul(b, two) y = MatMul(e, m)",
        {"Mul": 2, "Div": 1, "MatMul": 1},
    ),
    "transposes around an addition": (
        "t = Transpose<perm = [0, 2, 3, 1]>(x) r = Abs(t) s = Add(r, two) y = Transpose<perm = [0, 3, 1, 2]>(s)",
        {"Abs": 1, "Add": 1},
    ),
    "sizes of a symbolic input": (
        "s = Shape(x) b = Gather(s, first) h = Gather(s, third) t = Concat<axis = 0>(b, minus, h) y = Reshape(x, t)",
        None,
    ),
    "three iterations": (
        """y = Loop<body = g (int64 i, bool g, float[B, 4, H, W] u) => (bool g, float[B, 4, H, W] o) {
            o = Mul(u, two)
        }>(n, , x)""",
        {"Mul": 1},
    ),
}


def run(runtime: Any, proto: bytes, feed: np.ndarray[Any, Any], level: Any) -> Any:
    """The output of a model at a level."""
    options = runtime.SessionOptions()
    options.graph_optimization_level = level
    return runtime.InferenceSession(proto, options, providers=["CPUExecutionProvider"]).run(None, {"x": feed})[0]


@pytest.mark.parametrize("name", CASES)
def test_levels_agree(name: str, tmp_path: Any) -> None:
    """With all rules and with none, and with onnxruntime; where it is said, the operators left."""
    body, left = CASES[name]
    proto = model_from_text(f"g (float[B, 4, H, W] x) => (float y) {{ {body} }}", 18)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(array, key) for key, array in WEIGHTS.items())
    model = proto.SerializeToString()
    levels = ort.GraphOptimizationLevel
    plain = run(ort, model, X, levels.ORT_DISABLE_ALL)
    assert_close(run(ort, model, X, levels.ORT_ENABLE_ALL), plain, context=name)
    theirs = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    assert_close(run(onnxruntime, model, X, theirs), plain, context=name)
    if left is None:
        return
    options = ort.SessionOptions()
    options.graph_optimization_level = levels.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    ort.InferenceSession(model, options, providers=["CPUExecutionProvider"]).close()
    found = [node.op_type for node in onnx.load(tmp_path / "optimised.onnx").graph.node]
    assert {op_type: found.count(op_type) for op_type in found} == left
