"""Reading and writing NumPy arrays at bare addresses, with sizes and strides: how a library sees memory."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["DTYPES", "seen"]

DTYPES = {"FLOAT": np.float32, "HALF": np.float16, "BFLOAT16": ml_dtypes.bfloat16, "INT32": np.int32}
"""By the front end's names."""


def seen(address: int, dims: Sequence[int], strides: Sequence[int], dtype: Any) -> Any:
    """A view of memory of this process; strides count elements."""
    size = np.dtype(dtype).itemsize
    reach = 1 + sum((n - 1) * s for n, s in zip(dims, strides, strict=True))
    block = (ctypes.c_char * (reach * size)).from_address(address)
    flat = np.frombuffer(block, dtype=dtype)
    return np.lib.stride_tricks.as_strided(flat, tuple(dims), tuple(s * size for s in strides))
