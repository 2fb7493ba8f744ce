"""Bytes of an ONNX tensor as an array that kernels can use.

In files, tensors are little endian and types below one byte are packed; in memory, arrays are in the host's order with
one element a byte or more, on a 64-byte boundary. It is independent of protobuf, files or who keeps the result.
"""

from __future__ import annotations

import sys
from ctypes import addressof, c_char
from math import prod
from typing import Any

import numpy as np

from ort_py.dtypes import DataType, nbytes_of, numpy_dtype

ALIGNMENT = 64
"""A cache line and an AVX-512 register. NumPy aligns to 16; an unaligned operand makes a matrix product 13× slower."""


def stored_as_is(data_type: DataType) -> bool:
    """Return whether bytes in a file equal the bytes in memory, so that a mapped file can be used in place.

    Booleans are not: a file can hold bytes other than 0 and 1, which NumPy's loops must never see.
    """
    if data_type.bits < 8 or data_type is DataType.BOOL:
        return False
    return sys.byteorder == "little" or data_type.bits == 8


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """A new array on a 64-byte boundary, uninitialised; filled with None where `dtype` is object."""
    if dtype.hasobject:
        return np.empty(shape, dtype)
    nbytes = prod(shape) * dtype.itemsize
    buffer = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -addressof(c_char.from_buffer(buffer.data)) % ALIGNMENT  # NumPy's own way takes three times as long
    return buffer[start : start + nbytes].view(dtype).reshape(shape)


def aligned_copy(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A read-only, C-contiguous copy in the host's byte order on a 64-byte boundary."""
    native = array.dtype if array.dtype.isnative else array.dtype.newbyteorder("=")
    copy = aligned_empty(array.shape, native)
    copy[...] = array
    return frozen(copy)


def frozen(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Make the array permanently read-only, together with the buffer it is a view of, so that it cannot be made
    writable again.
    """
    base = array.base
    if isinstance(base, np.ndarray):
        base.flags.writeable = False
    array.flags.writeable = False
    return array


def unpack(raw: bytes | memoryview, data_type: DataType, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """A read-only array from the bytes of a file.

    Args:
        raw: Exactly ``nbytes_of(data_type, shape)`` bytes.
        data_type: Element type; not a string.

    Returns:
        Array of ``numpy_dtype(data_type)`` on a 64-byte boundary, which nothing else refers to.
    """
    source = np.frombuffer(raw, np.uint8, nbytes_of(data_type, shape))
    dtype = numpy_dtype(data_type)
    target = aligned_empty((prod(shape),), dtype)
    if data_type.bits == 6:
        _six_bits(source, target.view(np.uint8))
    elif data_type.bits < 8:
        _sub_byte(source, target.view(np.uint8), data_type.bits)
    elif data_type is DataType.BOOL:
        np.not_equal(source, 0, out=target)
    else:
        target.view(np.uint8)[...] = source
        to_host_order(target)
    return frozen(target.reshape(shape))


def to_host_order(array: np.ndarray[Any, Any], order: str = sys.byteorder) -> None:
    """Turn little-endian bytes into the host's, in place.

    Args:
        array: The array, whose dtype claims the host's order already.
        order: ``little`` or ``big``: the host's.
    """
    width = array.dtype.itemsize // (2 if array.dtype.kind == "c" else 1)
    if order == "big" and width > 1:
        array.view(np.dtype(f"u{width}")).byteswap(inplace=True)


def _sub_byte(source: np.ndarray[Any, Any], target: np.ndarray[Any, Any], bits: int) -> None:
    """Two or four elements a byte, the first in the lowest bits; `ml_dtypes` has no sign bits above signed ones."""
    per_byte = 8 // bits
    mask = (1 << bits) - 1
    for lane in range(per_byte):
        part = target[lane::per_byte]
        np.right_shift(source[: len(part)], lane * bits, out=part)
        np.bitwise_and(part, mask, out=part)


def _six_bits(source: np.ndarray[Any, Any], target: np.ndarray[Any, Any]) -> None:
    """Four elements in three bytes, as one stream of bits from the lowest on."""
    groups = (len(target) + 3) // 4
    triples = np.zeros((groups, 3), np.uint32)
    triples.reshape(-1)[: len(source)] = source
    words = triples[:, 0] | (triples[:, 1] << 8) | (triples[:, 2] << 16)
    target[...] = ((words[:, None] >> np.array([0, 6, 12, 18], np.uint32)) & 63).reshape(-1)[: len(target)]
