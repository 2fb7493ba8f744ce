"""Preparing a model for quantisation. Not there yet."""

from __future__ import annotations

from ort_py.compat.absent import absent_names
from ort_py.compat.not_yet import missing_function

__all__ = ["quant_pre_process"]

quant_pre_process = missing_function(
    "quantization.quant_pre_process",
    "Write the optimised model with SessionOptions.optimized_model_filepath, and its shapes with "
    "onnx.shape_inference.infer_shapes_path().",
)

__getattr__ = absent_names(__name__)
