"""Models of a few nodes in ONNX text, and sessions of them, for the tests of this folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
from onnx import TensorProto, helper, numpy_helper

import ort_py

CPU = ["CPUExecutionProvider"]

HEADER = '<ir_version: 10, opset_import: ["" : 21]>\n'

RELU = "g (float[N, 3] x) => (float[N, 3] y) { y = Relu(x) }"
ADD = "g (float[2, 3] a, float[2, 3] b) => (float[2, 3] c) { c = Add(a, b) }"
TWO_OUTPUTS = "g (float[N] x) => (float[N] up, float[N] down) { up = Abs(x) down = Neg(x) }"


def model_bytes(text: str) -> bytes:
    """A model from its text; the header of opset 21 is put in front where there is none."""
    model = onnx.parser.parse_model(text if text.lstrip().startswith("<") else HEADER + text)
    return bytes(model.SerializeToString())


def typed_identity(type_text: str) -> str:
    """A model that hands on an input of a type, e.g. ``float[N]`` or ``seq(tensor(float))``."""
    return f"g ({type_text} x) => ({type_text} y) {{ y = Identity(x) }}"


def open_model(text: str, options: ort_py.SessionOptions | None = None, **arguments: Any) -> ort_py.InferenceSession:
    """A session on the CPU provider."""
    return ort_py.InferenceSession(model_bytes(text), options, **{"providers": CPU, **arguments})


def external_model(folder: Path) -> Path:
    """Write a model that adds a constant in a file beside it, 0 to 4095, to ``x`` of 4,096 floats; give its path."""
    array = np.arange(4096, dtype=np.float32)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4096]) for name in ("x", "y"))
    node = helper.make_node("Add", ["x", "c"], ["y"])
    graph = helper.make_graph([node], "g", [x], [y], [numpy_helper.from_array(array, "c")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path = folder / "model.onnx"
    folder.mkdir()
    onnx.save(model, path, save_as_external_data=True, location="data.bin", size_threshold=0)
    return path
