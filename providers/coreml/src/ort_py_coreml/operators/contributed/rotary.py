"""RotaryEmbedding, whose inputs are in another order than ONNX's."""

from __future__ import annotations

from ort_py_coreml.operators.rotary import CONTRIBUTED as OPERATORS

__all__ = ["OPERATORS"]
