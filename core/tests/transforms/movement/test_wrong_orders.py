"""Transposes whose attribute is not an order of the axes are refused at every level, whatever stands around them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import ort_py as ort
from ort_py.errors import OrtPyError

_BODIES = {
    "two in a row": "a = Transpose <perm = [0, 2, 1, 3]> (x) y = Transpose <perm = [0, 2, 1]> (a)",
    "an identity of fewer axes": "a = Relu (x) y = Transpose <perm = [0, 1, 2]> (a)",
    "an axis from the end": "a = Relu (x) y = Transpose <perm = [0, -2, 1, 3]> (a)",
    "behind a Reshape": "a = Reshape (x, s) y = Transpose <perm = [0, 2, 1, 3]> (a)",
}


@pytest.mark.parametrize("name", _BODIES)
@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_ALL"])
def test_refused(name: str, level: str) -> None:
    """The kernel's error reaches the caller: no rule makes another node of it."""
    constant = "<int64[5] s = {2, 3, 1, 4, 5}>" if "s)" in _BODIES[name] else ""
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 13]> g (float[A,B,C,D] x) => (float[Z] y) '
        f"{constant} {{ {_BODIES[name]} }}"
    )
    model.graph.output[0].type.tensor_type.ClearField("shape")
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    with pytest.raises(OrtPyError, match="perm"):
        ort.InferenceSession(model.SerializeToString(), options).run(None, {"x": np.ones((2, 3, 4, 5), np.float32)})
