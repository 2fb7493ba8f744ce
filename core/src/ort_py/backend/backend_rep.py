"""A session behind ONNX's interface of prepared models."""

from ort_py.compat.backend import OnnxRuntimeBackendRep

__all__ = ["OnnxRuntimeBackendRep"]
