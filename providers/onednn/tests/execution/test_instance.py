"""A frame's state of a region: the arrays of a run."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx.parser

import ort_py as ort


def test_numpy_scalars_are_read_while_they_live() -> None:
    """Mod of values without axes gives a NumPy scalar; the region read its bits after they were freed."""
    text = """<ir_version: 8, opset_import: ["" : 13]> g (bfloat16 x) => (bfloat16 y) {
        remainder = Mod(x, x) negative = Neg(x) product = Mul(negative, remainder) bent = Tanh(product) y = Exp(bent)
    }"""
    options = ort.SessionOptions()
    options.cost_model = "always"
    with ort.InferenceSession(onnx.parser.parse_model(text).SerializeToString(), options) as session:
        assert session.placement.counts().get("DnnlExecutionProvider", 0) > 0
        results = [session.run(None, {"x": np.array(-0.03, ml_dtypes.bfloat16)})[0] for _ in range(50)]
    assert {float(one) for one in results} == {1.0}  # exp(tanh(0.03 * 0))
