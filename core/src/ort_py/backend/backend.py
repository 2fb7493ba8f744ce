"""ONNX's backend interface over sessions."""

from ort_py.compat.backend import OnnxRuntimeBackend, is_compatible, prepare, run, supports_device

__all__ = ["OnnxRuntimeBackend", "is_compatible", "prepare", "run", "supports_device"]
