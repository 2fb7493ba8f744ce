"""Models of a few nodes in ONNX text, and sessions of them, for the tests of this folder."""

from __future__ import annotations

from typing import Any

import onnx.parser

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
