"""Weights of a few bits with a scale a block, as MatMulNBits has them: unpacked to int8 whose zero point is 0."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

__all__ = ["Blocks", "bits_of", "unpacked"]

Array: TypeAlias = np.ndarray[Any, Any]
Blocks: TypeAlias = tuple[Array, Array]
"""Integers (blocks, block size, N) int8, and scales (blocks, 1, N) float32."""


def unpacked(names: list[str], attributes: Mapping[str, Any], constant: Callable[[str], Array | None]) -> Blocks | str:
    """The weights of a MatMulNBits.

    Args:
        names: Of its inputs, ``""`` where one is absent.
        attributes: Of the node: K, N, block_size, bits.
        constant: The array of a name.

    Returns:
        The weights; the reason where they cannot be had in 8 bits.
    """
    depth, columns, size = (int(attributes[name]) for name in ("K", "N", "block_size"))
    bits = int(attributes.get("bits", 4))
    if bits not in {4, 8}:
        return f"weights of {bits} bits; 4 and 8 are supported"
    if depth % size:
        return "the last block is incomplete"
    count = depth // size
    held, scales, zeros = (
        constant(names[place]) if len(names) > place and names[place] else None for place in (1, 2, 3)
    )
    if held is None or scales is None or scales.dtype != np.float32:
        return "weights or scales are not constants, or scales not float32"
    if len(names) > 3 and names[3] and (zeros is None or zeros.dtype != np.uint8):
        return "zero points are not constant bytes"
    integers = _numbers(held.reshape(columns, -1), bits)[:, :depth].reshape(columns, count, size)
    shifts: Array = np.full((columns, count), 1 << (bits - 1), np.int16)
    if zeros is not None:
        shifts = _numbers(zeros.reshape(columns, -1), bits)[:, :count]
    shifted = integers.astype(np.int16) - shifts.astype(np.int16)[:, :, None]
    if int(shifted.min()) < -128 or int(shifted.max()) > 127:
        return "its weights minus their zero points need more than 8 bits"
    weights = np.ascontiguousarray(shifted.astype(np.int8).transpose(1, 2, 0))
    return weights, np.ascontiguousarray(scales.reshape(columns, count).T[:, None, :])


def bits_of(weights: Array) -> int:
    """Bits that numbers with a sign need: 4 or 8.

    Args:
        weights: int8, not empty.
    """
    return 4 if int(weights.min()) >= -8 and int(weights.max()) <= 7 else 8


def _numbers(packed: Array, bits: int) -> Array:
    """Bytes as numbers, the lower half of a byte first."""
    if bits == 8:
        return packed
    return np.stack([packed & 15, packed >> 4], axis=-1).reshape(packed.shape[0], -1)
