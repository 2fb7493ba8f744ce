"""float16 in integer arithmetic: widening it, and rounding float32 to what it can hold, for computations in steps.

NumPy's conversions to float16 and back take ten times as long as an addition; these take a third of that and give the
same bits. It does not depend on operators.
"""

from __future__ import annotations

from typing import Any

from ort_py.contracts.graph_view import Array

__all__ = ["from_half", "through_half", "to_half", "widen"]

_BELOW_NORMAL = 2.0**-14
"""The least normal float16: under it, what float16 can hold is evenly spaced."""

_SPACING = 0.75
"""Added to a number under the least normal, leaves room for just the bits that float16 has there."""

_BEYOND = 65520.0
"""What rounds to more than the greatest float16."""

_INFINITE = 65536.0
"""Infinity, as a number of float16 with one more exponent."""

_BLOCK = 32768
"""Elements that are converted at once: the steps stay in the cache."""


def through_half(xp: Any, x: Array) -> Array:
    """float32 `x` rounded to the nearest float16, ties to even, as a new float32 array; beyond its range infinite."""
    bits = xp.right_shift(x.view(xp.uint32), 13)
    bits &= 1  # whether what is kept is odd: only then half a step more rounds up
    bits += 0xFFF
    bits += x.view(xp.uint32)
    bits &= 0xFFFFE000
    y = bits.view(xp.float32)
    size = xp.abs(x)
    xp.copyto(y, (x + _SPACING) - _SPACING, where=xp.less(size, _BELOW_NORMAL))
    xp.copyto(y, x * xp.inf, where=xp.greater_equal(size, _BEYOND))
    return y


def from_half(xp: Any, x: Array) -> Array:
    """float16 `x` as a new float32 array, every bit of a NaN included."""
    bits = xp.left_shift(x.view(xp.int16).astype(xp.int32), 13)
    bits &= -0x70000001  # the sign, which widening the integer repeated, once; then exponent and mantissa
    y = bits.view(xp.float32)
    # The difference of the two exponents' offsets, which makes subnormal numbers normal; in the memory of `bits`.
    xp.multiply(y, 2.0**112, out=y)
    xp.copyto(bits, bits | 0x7F800000, where=xp.greater_equal(xp.abs(y), _INFINITE))  # and NaNs
    return y


def widen(xp: Any, x: Array, out: Array | None = None) -> Array:
    """float16 `x`, C-contiguous on the host, as float32, in `out` or a new array: `from_half` in blocks, of which most
    hold neither infinities nor NaN.
    """
    y = xp.empty(x.shape, xp.float32) if out is None else out
    flat_x, flat_y = x.reshape(-1).view(xp.int16), y.reshape(-1)
    for first in range(0, x.size, _BLOCK):
        bits = flat_x[first : first + _BLOCK].astype(xp.int32)
        bits <<= 13
        bits &= -0x70000001
        block = flat_y[first : first + _BLOCK]
        xp.multiply(bits.view(xp.float32), 2.0**112, out=block)
        if not (block.max() < _INFINITE and block.min() > -_INFINITE):
            block[...] = from_half(xp, flat_x[first : first + _BLOCK].view(xp.float16))
    return y


def to_half(xp: Any, x: Array, out: Array | None = None) -> Array:
    """float32 `x`, C-contiguous on the host, as float16, in `out` or a new array: NumPy's conversion, in blocks."""
    y = xp.empty(x.shape, xp.float16) if out is None else out
    flat_x, flat_y = x.reshape(-1), y.reshape(-1)
    for first in range(0, x.size, _BLOCK):
        flat_y[first : first + _BLOCK] = _block_to_half(xp, flat_x[first : first + _BLOCK])
    return y


def _block_to_half(xp: Any, x: Array) -> Array:
    size = xp.abs(x)
    if not (size.max() < _BEYOND).item():  # infinities and NaNs, and what becomes one
        return x.astype(xp.float16)
    # A power of two so much greater that in the sum just float16's bits are left, rounded, at the low end.
    step = xp.clip(size, _BELOW_NORMAL, _BEYOND).view(xp.uint32)
    step &= 0x7F800000
    step += 13 << 23
    size += step.view(xp.float32)
    bits = size.view(xp.uint32)
    # The power's exponent, moved to float16's place, and those bits; modulo 2**16, the offsets differ by 2 << 10.
    xp.right_shift(bits, 13, step)
    step += bits
    step += 2 << 10
    xp.right_shift(x.view(xp.uint32), 16, bits)
    bits &= 0x8000
    step |= bits
    return step.astype(xp.uint16).view(xp.float16)
