"""Weights with a scale a block in the panels that products of one row read.

A panel has 64 columns and all blocks, each with its scales behind it; `binding.row_few_bits` describes the order. It
does not depend on plans.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from ort_py_onednn.binding.row_few_bits import COLUMNS, ROW, units
from ort_py_onednn.execution.large_pages import lasting

__all__ = ["panels", "weights_of"]

Array: TypeAlias = np.ndarray[Any, Any]

_WORD = 32
"""Bits of a word, in which a column has its weights one above the other."""


def panels(weights: Array, scales: Array, bits: int) -> Array:
    """Put weights and scales into panels.

    Args:
        weights: (blocks, size, N) int8, from -8 to 7 where they get four bits.
        scales: (blocks, 1, N) float32.
        bits: Of a weight: 4 or 8.

    Returns:
        Bytes. Columns behind the last one have weights and scales of zero.
    """
    count, size, columns = weights.shape
    number = -(-columns // COLUMNS)
    behind = ((0, 0), (0, 0), (0, number * COLUMNS - columns))
    made = lasting(number * count * units(bits, size) * ROW)
    rows = made.reshape(number, count, units(bits, size), ROW)
    whole, factors = np.pad(weights, behind), np.pad(scales, behind)
    together = _WORD // bits
    words: Array = np.zeros((count, size // together, number * COLUMNS), np.uint32)
    added = np.uint8(1 << (bits - 1))
    for place in range(together):
        words |= (whole[:, place::together].view(np.uint8) + added).astype(np.uint32) << np.uint32(bits * place)
    rows[:, :, :-1].view(np.uint32)[...] = words.reshape(count, -1, number, COLUMNS).transpose(2, 0, 1, 3)
    rows[:, :, -1].view(np.float32)[...] = factors.reshape(count, number, COLUMNS).transpose(1, 0, 2)
    return made


def weights_of(data: Array, dims: tuple[int, int, int], bits: int) -> Array:
    """Take the weights out of panels again: (blocks, size, N) int8.

    Args:
        data: As `panels` makes it.
        dims: Of the weights.
        bits: Of a weight.
    """
    count, size, columns = dims
    number = -(-columns // COLUMNS)
    body = data.reshape(number, count, units(bits, size), ROW)[:, :, :-1]
    together = _WORD // bits
    words = body.view(np.uint32)
    found: Array = np.empty((count, size, columns), np.int8)
    flat = words.transpose(1, 2, 0, 3).reshape(count, size // together, -1)[..., :columns]
    least, mask = np.uint8(1 << (bits - 1)), np.uint32((1 << bits) - 1)
    for place in range(together):
        numbers = (flat >> np.uint32(bits * place) & mask).astype(np.uint8) - least
        found[:, place::together] = numbers.view(np.int8)
    return found
