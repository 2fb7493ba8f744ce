"""Memory for a library that may read a few bytes behind the end of an array.

Kernels of XNNPACK read up to `EXTRA_BYTES` behind an array, and ignore what they read. That is harmless as long as
these bytes can be read: in the same page of memory, or in the same block.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ort_py_xnnpack.binding._xnnpack import ffi
from ort_py_xnnpack.binding.constants import EXTRA_BYTES

__all__ = ["Array", "address", "aligned", "begin_of", "can_be_overread", "padded", "roomy"]

Array = np.ndarray[Any, Any]

_PAGE = 4096
"""The smallest page that any system has; larger ones are multiples."""
_ALIGNMENT = 64


_from_buffer, _cast, _NUMBER = ffi.from_buffer, ffi.cast, ffi.typeof("uintptr_t")  # what each run calls


def address(array: Array) -> Any:
    """The pointer to an array."""
    return ffi.cast("void *", array.ctypes.data)


def begin_of(array: Array) -> int:
    """Return the address of a C-contiguous array, several times faster than NumPy's own ways do."""
    return int(_cast(_NUMBER, _from_buffer(array)))


def can_be_overread(array: Array, begin: int) -> bool:
    """Return whether the bytes behind an array can be read for sure.

    Args:
        array: The array.
        begin: Where it begins.
    """
    end = begin + array.nbytes
    if (end - 1) // _PAGE == (end + EXTRA_BYTES - 1) // _PAGE:
        return True
    base = array.base
    return isinstance(base, np.ndarray) and bool(
        base.flags.c_contiguous and end + EXTRA_BYTES <= base.ctypes.data + base.nbytes
    )


def aligned(size: int) -> Array:
    """Bytes that begin at a multiple of 64."""
    block = np.empty(size + _ALIGNMENT, np.uint8)
    start = -block.ctypes.data % _ALIGNMENT
    return block[start : start + size]


def roomy(shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
    """A new array with readable bytes behind its end."""
    kind = np.dtype(dtype)
    size = math.prod(shape)
    return np.empty(size + EXTRA_BYTES // kind.itemsize, kind)[:size].reshape(shape)


def padded(array: Array) -> Array:
    """A copy with readable bytes behind its end."""
    copy = roomy(array.shape, array.dtype)
    copy[...] = array
    return copy
