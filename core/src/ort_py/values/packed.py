"""Elements of less than a byte, as ONNX packs them, unpacked to one byte each as slots hold them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ort_py.dtypes import DataType, numpy_dtype

__all__ = ["unpack"]

_SIGNED = frozenset({DataType.INT4, DataType.INT2})


def unpack(raw: np.ndarray[Any, Any], data_type: DataType) -> np.ndarray[Any, Any]:
    """Unpack as many elements as the array has bytes, from its leading bytes; the other bytes are not read.

    onnxruntime keeps the shape of the byte array, so a caller who packs must pass twice the bytes that it reads.

    Args:
        raw: Array of one-byte elements, C-contiguous.
        data_type: A packed type.
    """
    bits = data_type.bits
    each = 8 // bits
    count = raw.size
    packed = raw.reshape(-1).view(np.uint8)[: -(-count // each)]
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    codes = ((packed[:, None] >> shifts) & np.uint8((1 << bits) - 1)).reshape(-1)[:count].reshape(raw.shape)
    dtype = numpy_dtype(data_type)
    if data_type is DataType.FLOAT4E2M1:
        return codes.view(dtype)
    if data_type in _SIGNED:
        sign = np.uint8(1 << (bits - 1))
        return ((codes ^ sign).astype(np.int8) - np.int8(sign)).astype(dtype)
    return codes.astype(dtype)
