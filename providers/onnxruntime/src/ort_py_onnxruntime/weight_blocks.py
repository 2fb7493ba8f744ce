"""The native functions that onnxruntime's tools call, in NumPy: weights in blocks of a few bits, to the last bit.

Used by `tools`; knows nothing of models. Each function writes into arrays of the caller's, as onnxruntime's do. All
arithmetic is that of float32: the order of the operations and the roundings are part of what is promised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from ort_py.errors import ArgumentTypeError, InvalidArgument, UsageError

__all__ = ["FUNCTIONS"]

_Array: TypeAlias = np.ndarray[Any, Any]

_BLOCK_SIZES = (16, 32, 64, 128, 256)
_FLOATS = (np.dtype(np.float32), np.dtype(np.float16))

# bitsandbytes' tables: the bounds between neighbouring codes, and the codes in the order of what they stand for.
_FP4_BOUNDS = np.array(
    [0.00260417, 0.0859375, 0.20833333, 0.29166667, 0.4166667, 0.583333, 0.8333333],
    np.float32,
)
_FP4_CODES = np.array([0b0000, 0b0001, 0b0110, 0b0111, 0b0100, 0b0101, 0b0010, 0b0011], np.uint8)
_FP4_SIGN = np.uint8(0b1000)
_NF4_BOUNDS = np.array(
    [
        *(-0.8480964004993439, -0.6106329262256622, -0.4599952697753906, -0.33967943489551544, -0.23460740596055984),
        *(-0.13791173323988914, -0.045525018125772476, 0.03979014977812767, 0.1202552504837513, 0.2035212516784668),
        *(0.2920137718319893, 0.3893125355243683, 0.5016634166240692, 0.6427869200706482, 0.8614784181118011),
    ],
    np.float32,
)


def _quantize_columns(bits: int) -> Callable[..., None]:
    """Return the function that quantises blocks of columns and packs them along the column: for MatMulNBits."""

    def quantize(
        dst: Any, src: Any, scale: Any, zero_points: Any, block_size: int, n: int, k: int, is_symmetric: bool
    ) -> None:
        if block_size not in _BLOCK_SIZES:
            raise InvalidArgument(
                f"A block of {block_size} elements cannot be quantised.",
                fix=f"Use one of {', '.join(map(str, _BLOCK_SIZES))}.",
            )
        weight = _weight(src, k, n)
        count = -(-k // block_size)
        low, high = _ranges(weight, block_size)
        if is_symmetric:
            scales, zeros = _symmetric(low, high, bits, weight.dtype), np.full((count, n), 1 << (bits - 1), np.uint8)
        else:
            scales, zeros = _asymmetric(low, high, bits, weight.dtype)
            each = 8 // bits
            filled = np.full((-(-count // each) * each, n), 1 << (bits - 1), np.uint8)
            filled[:count] = zeros
            _fill(zero_points, _packed_along(filled, bits), "zero_points")
        _fill(scale, scales.T, "scale")
        turned = weight.astype(np.float32) * np.repeat(_reciprocal(scales), block_size, axis=0)[:k]
        turned += np.repeat(zeros.astype(np.float32), block_size, axis=0)[:k]
        values = np.clip(_rounded(turned), 0, (1 << bits) - 1).astype(np.uint8)
        packed = _packed_along(_with_tail(values, bits, block_size), bits)
        target = _target(dst, "dst").reshape(n, -1)
        target[:, : packed.shape[1]] = packed

    quantize.__doc__ = f"""Quantise a matrix to {bits} bits in blocks of its columns.

    Args:
        dst: Written: (n, blocks, bytes of a block).
        src: (k, n), float32 or float16.
        scale: Written: (n, blocks).
        zero_points: Written unless symmetric: (n, bytes of the blocks' zero points).
    """
    return quantize


def quantize_qdq_matmul_4bits(
    dst: Any, src: Any, scale: Any, zero_points: Any, block_size: int, n: int, k: int, is_symmetric: bool
) -> bool:
    """Quantise a matrix to four bits in blocks of its columns, and keep its order: for DequantizeLinear.

    Args:
        dst: Written: k * n numbers, packed.
        src: (k, n), float32 or float16.
        scale: Written: (blocks, n).
        zero_points: Written unless symmetric: blocks * n numbers, packed.

    Returns:
        Whether the numbers are signed.
    """
    weight = _weight(src, k, n)
    low, high = _ranges(weight, block_size)
    if is_symmetric:
        scales, zeros = _symmetric(low, high, 4, weight.dtype), np.zeros(low.shape, np.uint8)
    else:
        scales, zeros = _asymmetric(low, high, 4, weight.dtype)
        _fill(zero_points, _packed_pairs(zeros), "zero_points")
    _fill(scale, scales, "scale")
    turned = weight.astype(np.float32) * np.repeat(_reciprocal(scales), block_size, axis=0)[:k]
    whole = _rounded(turned) + np.repeat(zeros.astype(np.float32), block_size, axis=0)[:k]
    least, most = (-8, 7) if is_symmetric else (0, 15)
    _fill(dst, _packed_pairs(np.clip(whole, least, most).astype(np.int8).view(np.uint8) & 15), "dst")
    return bool(is_symmetric)


def quantize_matmul_bnb4(dst: Any, src: Any, absmax: Any, block_size: int, quant_type: int, n: int, k: int) -> None:
    """Quantise a matrix to bitsandbytes' four bits, in blocks of its elements.

    Args:
        dst: Written: one byte for two elements.
        src: (n, k), float32 or float16.
        absmax: Written: the largest magnitude of each block.
        block_size: Elements of a block.
        quant_type: 0 for FP4, 1 for NF4.

    Raises:
        InvalidArgument: There is no such type, or no such size of blocks.
    """
    if quant_type not in (0, 1) or block_size not in _BLOCK_SIZES:
        raise InvalidArgument(
            f"There is no quantisation of type {quant_type} in blocks of {block_size}.",
            fix=f"Types are 0 (FP4) and 1 (NF4), blocks have {', '.join(map(str, _BLOCK_SIZES))} elements.",
        )
    flat = _weight(src, n, k).ravel()
    largest = np.maximum.reduceat(np.abs(flat.astype(np.float32)), np.arange(0, flat.size, block_size))
    _fill(absmax, largest, "absmax")
    even = np.zeros(flat.size + flat.size % 2, np.float32)
    even[: flat.size] = flat.astype(np.float32) * np.repeat(_reciprocal(largest), block_size)[: flat.size]
    if quant_type == 0:
        codes = _FP4_CODES[np.searchsorted(_FP4_BOUNDS, np.abs(even))] | np.where(even < 0, _FP4_SIGN, np.uint8(0))
    else:
        codes = np.searchsorted(_NF4_BOUNDS, even).astype(np.uint8)
    _fill(dst, codes[::2] << 4 | codes[1::2], "dst")


def pack_fp4_weights_for_cuda_moe_gemm(q_weights: Any, n: int, k: int) -> _Array:
    """Transpose a matrix of four-bit numbers: (n, k / 2) bytes become (k, n / 2)."""
    packed = np.asarray(q_weights, np.uint8).reshape(n, k // 2)
    columns = np.stack([packed & 15, packed >> 4], axis=-1).reshape(n, k).T
    turned: _Array = columns[:, ::2] | columns[:, 1::2] << 4
    return turned


FUNCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {f"quantize_matmul_{bits}bits": _quantize_columns(bits) for bits in (2, 4, 8)}
    | {
        "pack_fp4_weights_for_cuda_moe_gemm": pack_fp4_weights_for_cuda_moe_gemm,
        "quantize_matmul_bnb4": quantize_matmul_bnb4,
        "quantize_qdq_matmul_4bits": quantize_qdq_matmul_4bits,
    }
)
"""The functions by their names in onnxruntime's extension."""

for _name, _function in FUNCTIONS.items():
    _function.__name__ = _function.__qualname__ = _name


def _weight(src: Any, rows: int, columns: int) -> _Array:
    """The first rows of a matrix: what was appended to fill the last block does not count."""
    array = np.asarray(src)
    if array.dtype not in _FLOATS:
        raise ArgumentTypeError(f"Weights of {array.dtype} cannot be quantised.", fix="Pass float32 or float16.")
    if array.size < rows * columns:
        raise InvalidArgument(f"A matrix of {rows} by {columns} is wanted, and {array.size} elements are given.")
    return array.ravel()[: rows * columns].reshape(rows, columns)


def _ranges(weight: _Array, block_size: int) -> tuple[_Array, _Array]:
    """Least and largest element of each block of each column, in float32. A zero has the sign of the first element."""
    starts = np.arange(0, len(weight), block_size)
    first = weight[starts]
    found = (np.minimum.reduceat(weight, starts, axis=0), np.maximum.reduceat(weight, starts, axis=0))
    low, high = (np.where(one == 0, first * 0, one).astype(np.float32) for one in found)
    return low, high


def _symmetric(low: _Array, high: _Array, bits: int, dtype: np.dtype[Any]) -> _Array:
    """Scales that map the larger half of the range to the negative numbers, of which there is one more."""
    largest = np.where(np.abs(high) > np.abs(low), high, low)
    scales: _Array = (-largest / np.float32(1 << (bits - 1))).astype(dtype)
    return scales


def _asymmetric(low: _Array, high: _Array, bits: int, dtype: np.dtype[Any]) -> tuple[_Array, _Array]:
    """Scales and zero points that map the range, and zero, to all numbers."""
    most = np.float32((1 << bits) - 1)
    low, high = np.where(low > 0, np.float32(0), low), np.where(high < 0, np.float32(0), high)
    scales = (high - low) / most
    there = scales != 0
    zeros = np.where(there, np.float32(0) - low / np.where(there, scales, np.float32(1)), low)
    return scales.astype(dtype), np.clip(_rounded(zeros), 0, most).astype(np.uint8)


def _reciprocal(scales: _Array) -> _Array:
    exact = scales.astype(np.float32)
    found: _Array = np.divide(np.float32(1), exact, out=np.zeros_like(exact), where=exact != 0)
    return found


def _rounded(values: _Array) -> _Array:
    """Round to the nearest whole number, halves away from zero. The differences here are exact."""
    whole = np.trunc(values)
    further = np.abs(values - whole) >= np.float32(0.5)
    rounded: _Array = np.where(further, whole + np.copysign(np.float32(1), values), whole)
    return rounded


def _with_tail(values: _Array, bits: int, block_size: int) -> _Array:
    """Rows appended to fill the last byte. onnxruntime leaves there what it packed before, and nothing reads it."""
    each = 8 // bits
    rows = len(values)
    missing = -rows % each
    if not missing or (rows - rows % each) % (each * block_size) == 0:
        return values
    return np.concatenate([values, values[rows - each : rows - each + missing]])


def _packed_along(values: _Array, bits: int) -> _Array:
    """Numbers of (k, n) packed along k into bytes of (n, bytes), the first in the lowest bits."""
    each = 8 // bits
    rows, columns = values.shape
    filled = np.zeros((columns, -(-rows // each), each), np.uint8)
    filled.reshape(columns, -1)[:, :rows] = values.T
    return _joined(filled, bits)


def _packed_pairs(values: _Array) -> _Array:
    """Numbers of four bits in their order, two in a byte."""
    filled = np.zeros((-(-values.size // 2), 2), np.uint8)
    filled.reshape(-1)[: values.size] = values.ravel()
    return _joined(filled, 4)


def _joined(numbers: _Array, bits: int) -> _Array:
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    joined: _Array = np.bitwise_or.reduce(numbers << shifts, axis=-1)
    return joined


def _fill(target: Any, values: _Array, name: str) -> None:
    """Write to the beginning of an array of the caller's."""
    _target(target, name).reshape(-1)[: values.size] = values.ravel()


def _target(array: Any, name: str) -> _Array:
    if not isinstance(array, np.ndarray) or not array.flags.c_contiguous or not array.flags.writeable:
        raise UsageError(f"'{name}' cannot be written to.", fix="Pass a NumPy array that is writable and C-contiguous.")
    return array
