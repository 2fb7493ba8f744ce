"""The ONNX type of a bare value, found out from the value itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from ort_py.dtypes import DataType, MapType, SequenceType, SparseTensorType, TensorType, ValueType, data_type_of
from ort_py.values.sparse import SparseTensor

__all__ = ["value_type_of"]


def value_type_of(value: Any) -> ValueType | None:
    """The type of an array, sparse tensor, list or dict; None where it cannot be known: nothing, or an empty list."""
    if isinstance(value, np.ndarray | np.generic):
        return TensorType(data_type_of(value.dtype), tuple(value.shape))
    if isinstance(value, SparseTensor):
        return SparseTensorType(value.element_type, tuple(value.dense_shape()))
    if isinstance(value, list | tuple):
        element = value_type_of(value[0]) if value else None
        # Elements of a sequence may differ in shape, so that of the first says nothing about the rest.
        return (
            None
            if element is None
            else SequenceType(TensorType(element.data_type) if isinstance(element, TensorType) else element)
        )
    if isinstance(value, dict) and value:
        key, item = next(iter(value.items()))
        inner = value_type_of(item) or TensorType(_data_type_of_scalar(item))
        return MapType(
            _data_type_of_scalar(key), TensorType(inner.data_type) if isinstance(inner, TensorType) else inner
        )
    return None


def _data_type_of_scalar(value: Any) -> DataType:
    if isinstance(value, np.generic):
        return data_type_of(value.dtype)
    # Python's float is what a map of float32 holds once it is a dict; ZipMap's maps are of that kind.
    return {int: DataType.INT64, float: DataType.FLOAT, bool: DataType.BOOL}.get(type(value), DataType.STRING)
