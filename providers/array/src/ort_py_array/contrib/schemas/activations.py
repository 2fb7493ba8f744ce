"""Schemas of Gelu's relatives."""

from __future__ import annotations

from ort_py_array.contrib.schemas.notation import operator, same_shape

__all__ = ["SCHEMAS"]

_FLOATS = "float16 float double bfloat16"

SCHEMAS = [
    operator("Gelu", "X: T", "Y: T", shapes=same_shape(0), T=_FLOATS),
    operator("QuickGelu", "X: T", "Y: T", attributes={"alpha": 1.702}, shapes=same_shape(0), T=_FLOATS),
    operator("BiasGelu", "A: T, B: T", "C: T", shapes=same_shape(0), T=_FLOATS),
    operator("FastGelu", "X: T, bias: T?", "Y: T", shapes=same_shape(0), T=_FLOATS),
]
