"""A model with methods that change its graph. Not there yet."""

from __future__ import annotations

from ort_py.compat.absent import absent_names
from ort_py.compat.not_yet import missing_class

__all__ = ["OnnxModel"]

OnnxModel = missing_class("transformers.onnx_model.OnnxModel", "Change the graph with onnx.helper and onnx.compose.")

__getattr__ = absent_names(__name__)
