"""The types that arrays of CuPy can hold, and the operators that need a library of NVIDIA's that may be missing.

Comes before `provider`. It uses ONNX's element types and operators, and does not import CuPy.
"""

from __future__ import annotations

from importlib.metadata import version
from importlib.util import find_spec

from ort_py.contracts import NodeSpec
from ort_py.dtypes import DataType
from ort_py_array.provider import DEVICE_TYPES
from ort_py_cuda import libraries
from ort_py_cuda.installed import cuda_major

__all__ = ["held_types", "missing_library", "unheld"]

_NEEDS: dict[str, str] = {"DFT": "cufft", "STFT": "cufft", "Det": "cusolver", "Inverse": "cusolver"}
"""Operators that the array library computes with a library behind CuPy."""

_TITLES = {"cufft": "cuFFT", "cusolver": "cuSOLVER"}

_BFLOAT16_NUMPY = (2, 1, 2)
"""The first NumPy whose casts CuPy's bfloat16 relies on."""


def held_types() -> frozenset[DataType]:
    """Element types of arrays: CuPy has bfloat16 where `ml_dtypes` is installed, and no narrower type than 8 bits."""
    numbers = tuple(int(part) for part in version("numpy").split(".")[:3] if part.isdigit())
    if find_spec("ml_dtypes") is None or numbers < _BFLOAT16_NUMPY:
        return DEVICE_TYPES
    return DEVICE_TYPES | {DataType.BFLOAT16}


def unheld(data_type: DataType) -> str:
    """Explain why CuPy has no arrays of a type."""
    if data_type is DataType.STRING:
        return "texts live on the host"
    if data_type is DataType.BFLOAT16:
        return "CuPy's bfloat16 needs NumPy 2.1.2"
    return f"CuPy has no {data_type.onnx_name}"


def missing_library(node: NodeSpec) -> str | None:
    """Name the library whose absence prevents a node from being computed although its types can be held, or return
    None.
    """
    needed = _NEEDS.get(node.op_type)
    if needed is None or libraries.find(needed) is not None:
        return None
    wheel = libraries.LIBRARIES[needed].wheels[cuda_major() or 13]
    return f"{_TITLES[needed]} is not installed (pip install {wheel})"
