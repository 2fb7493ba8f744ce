"""Sessions and values where onnxruntime keeps them; applications import some from here, mostly for annotations."""

from __future__ import annotations

from ort_py import (
    AdapterFormat,
    InferenceSession,
    IOBinding,
    ModelCompiler,
    OrtDevice,
    OrtValue,
    SparseTensor,
    copy_tensors,
    get_all_providers,
    get_available_providers,
)
from ort_py.compat.low_level import check_and_normalize_provider_args

__all__ = [
    "AdapterFormat",
    "IOBinding",
    "InferenceSession",
    "ModelCompiler",
    "OrtDevice",
    "OrtValue",
    "Session",
    "SparseTensor",
    "check_and_normalize_provider_args",
    "copy_tensors",
    "get_all_providers",
    "get_available_providers",
]

Session = InferenceSession
"""onnxruntime's base of sessions; here there is one class."""
