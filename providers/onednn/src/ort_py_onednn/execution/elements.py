"""Types of elements as ONNX, NumPy and oneDNN name them. It is independent of what is computed in which."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from ort_py.dtypes import DataType, data_type_of, numpy_dtype
from ort_py_onednn.binding.constants import Element

__all__ = ["ELEMENTS", "as_bytes", "element_of", "has_buffer", "numpy_of"]

ELEMENTS: Mapping[DataType, Element] = {
    DataType.FLOAT16: Element.F16,
    DataType.BFLOAT16: Element.BF16,
    DataType.FLOAT: Element.F32,
    DataType.INT32: Element.S32,
    DataType.INT8: Element.S8,
    DataType.BOOL: Element.U8,
    DataType.UINT8: Element.U8,
}
"""The element types that oneDNN has; true is a byte of 1. The last of a kind is what oneDNN's type is for NumPy."""

_ONNX = {element: kind for kind, element in ELEMENTS.items()}


@cache
def element_of(dtype: np.dtype[Any]) -> Element | None:
    """oneDNN's type for arrays of a dtype, None where it has none."""
    return ELEMENTS.get(data_type_of(dtype))


@cache
def numpy_of(element: Element) -> np.dtype[Any]:
    """The dtype of arrays of oneDNN's type."""
    return numpy_dtype(_ONNX[element])


def has_buffer(dtype: np.dtype[Any]) -> bool:
    """Return whether arrays of a dtype speak Python's buffer protocol, which those of `ml_dtypes` do not."""
    return dtype.kind != "V" and dtype.isbuiltin == 1


def as_bytes(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The bytes of a C-contiguous array of any type."""
    return array.reshape(-1).view(np.uint8)
