"""Weights packed in 2, 4 or 8 bits, multiplied without ever being unpacked as a whole.

A matrix of such weights stays as it is in the model. A product takes some of its rows at a time, unpacks them into
scratch of a few MiB and multiplies with BLAS; each part goes to the context's pool. Elements of one byte are not
interleaved: all first ones, then all second ones come to lie side by side, and so do the columns of the other operand,
which is the smaller. Comes before `block_quantized` and `experts`; knows no operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py.lazy_dataclass import dataclass

__all__ = ["PackedMatrix", "times_in_parts", "unpacked"]

_SCRATCH_ELEMENTS = 1 << 19
"""Unpacked weights that exist at once: 2 MiB of float32, what a second-level cache holds."""

_FEW = 4
"""Rows up to which it is cheaper to scale the parts of a product, one per block, than the weights."""


def unpacked(xp: Any, packed: Array, bits: int, size: int) -> Array:
    """uint8 values ``(..., size)`` of bytes ``(..., ceil(size · bits / 8))``, the first in the lowest bits."""
    if bits == 8:
        return packed[..., :size]
    values = xp.empty((*packed.shape, 8 // bits), xp.uint8)
    for place in range(8 // bits):
        values[..., place] = _field(xp, packed, bits, place)
    return values.reshape((*packed.shape[:-1], packed.shape[-1] * (8 // bits)))[..., :size]


def _field(xp: Any, packed: Array, bits: int, place: int) -> Array:
    """One of the values in each byte, uint8."""
    values = xp.right_shift(packed, place * bits) if place else packed
    return xp.bitwise_and(values, (1 << bits) - 1) if (place + 1) * bits < 8 else values


def times_in_parts(
    ctx: KernelContext, shape: tuple[int, int], count: int, product: Callable[[int, int], Array]
) -> Array:
    """``x @ W.T``, put together from products with some rows of W.

    Args:
        ctx: Context of the node.
        shape: Of W.
        count: Rows of x.
        product: ``f(start, stop)`` → ``x @ W[start:stop].T``, for which some rows of W are unpacked.

    Returns:
        float32, ``(count, shape[0])``.
    """
    out = ctx.xp.empty((count, shape[0]), ctx.xp.float32)
    step = max(1, _SCRATCH_ELEMENTS // max(1, shape[1]))

    def part(start: int, stop: int) -> None:
        for first in range(start, stop, step):
            last = min(first + step, stop)
            out[:, first:last] = product(first, last)

    ctx.parallel_for(shape[0], step, part)
    return out


@dataclass(frozen=True, slots=True)
class PackedMatrix:
    """A matrix ``(rows, blocks · block)`` of packed integers with a scale and maybe a zero point for each block.

    Attributes:
        packed: uint8, ``(rows, blocks · block · bits / 8)``.
        scales: ``(rows, blocks)``, floating point.
        shifts: Zero points less the middle ``2^(bits - 1)``, float32 ``(rows, blocks)``; None where they are that.
        bits: 2, 4 or 8.
        groups: int64 block number of each column, where blocks are not runs of columns.
    """

    packed: Array
    scales: Array
    shifts: Array | None
    bits: int
    groups: Array | None = None

    @property
    def width(self) -> int:
        """Number of columns, the padding of the last block included."""
        return int(self.packed.shape[1]) * (8 // self.bits)

    def times(self, ctx: KernelContext, x: Array) -> Array:
        """``x @ W.T``, float32, for a float32 matrix `x` (its columns as they are, padding left out)."""
        xp, columns = ctx.xp, x.shape[1]
        x = self._padded(xp, x)
        few = self.groups is None and (x.shape[0] <= _FEW or self.scales.shape[1] == 1)
        product = self._by_block_if_finite(xp, x, columns) if few else self._by_row(xp, x, columns)
        return times_in_parts(ctx, (self.packed.shape[0], self.width), x.shape[0], product)

    def _by_block_if_finite(self, xp: Any, x: Array, columns: int) -> Callable[[int, int], Array]:
        """Products by block, but by row where the former may have subtracted an infinity from another."""
        by_block = self._by_block(xp, x)

        def product(start: int, stop: int) -> Array:
            found = by_block(start, stop)
            return found if xp.all(xp.isfinite(found)).item() else self._by_row(xp, x, columns)(start, stop)

        return product

    def _padded(self, xp: Any, x: Array) -> Array:
        if x.shape[1] == self.width:
            return x
        wider = xp.zeros((x.shape[0], self.width), x.dtype)
        wider[:, : x.shape[1]] = x
        return wider

    def _by_row(self, xp: Any, x: Array, columns: int) -> Callable[[int, int], Array]:
        """Products with dequantised weights: the first elements of all bytes, then the second ones, and so on."""
        padded = columns < self.width
        each, size = 8 // self.bits, self.packed.shape[1]
        ordered = xp.swapaxes(x.reshape((-1, size, each)), 1, 2).reshape((-1, each * size)) if each > 1 else x
        middle = 1 << (self.bits - 1)

        def product(start: int, stop: int) -> Array:
            packed, scales, shifts = self.packed[start:stop], self.scales[start:stop], self.shifts
            weights = xp.empty((stop - start, each, size), xp.float32)
            scale = self._spread(xp, scales)
            shift = None if shifts is None else self._spread(xp, shifts[start:stop])
            for place in range(each):
                # A byte holds what is between -128 and 127, and converting bytes is the fastest there is.
                weights[:, place] = xp.subtract(_field(xp, packed, self.bits, place), middle).view(xp.int8)
                if shift is not None:
                    xp.subtract(weights[:, place], shift(place), out=weights[:, place])
                xp.multiply(weights[:, place], scale(place), out=weights[:, place])
                if padded:  # 0 times what an infinite scale makes of the padding would be NaN
                    weights[:, place, -(-(columns - place) // each) :] = 0
            return xp.matmul(ordered, weights.reshape((stop - start, each * size)).T)

        return product

    def _spread(self, xp: Any, parameter: Array) -> Callable[[int], Array]:
        """A parameter of blocks, one entry for each byte; by the place in the byte."""
        parameter, groups = parameter.astype(xp.float32, copy=False), self.groups
        if groups is not None:
            return lambda place: xp.take(parameter, groups[place :: 8 // self.bits], axis=1)
        spread = xp.repeat(parameter, self.packed.shape[1] // parameter.shape[1], axis=1)
        return lambda place: spread

    def _by_block(self, xp: Any, x: Array) -> Callable[[int, int], Array]:
        """Products of integers, one for each block, which are then scaled and added: best where `x` has few rows."""
        each, count, blocks = 8 // self.bits, x.shape[0], self.scales.shape[1]
        size = self.packed.shape[1] // blocks
        planes = xp.ascontiguousarray(xp.transpose(x.reshape((count, blocks, size, each)), (3, 1, 0, 2)))
        sums = xp.sum(x.reshape((count, blocks, size * each)), axis=2)
        middle = float(1 << (self.bits - 1))
        # For eight bits, the middle is subtracted before the product: afterwards too many digits would cancel.
        rest = 0.0 if self.bits == 8 else middle

        def product(start: int, stop: int) -> Array:
            packed, scales = self.packed[start:stop], self.scales[start:stop].astype(xp.float32, copy=False)
            parts = None
            for place in range(each):
                values = _field(xp, packed, self.bits, place)
                if self.bits == 8:
                    values = xp.subtract(values, 128).view(xp.int8)
                weights = values.astype(xp.float32).reshape((stop - start, blocks, size))
                part = xp.matmul(planes[place], xp.transpose(weights, (1, 2, 0)))
                parts = part if parts is None else xp.add(parts, part, out=parts)
            scaled = xp.multiply(parts, xp.expand_dims(scales.T, 1), out=parts)
            zeros = scales * rest if self.shifts is None else scales * (self.shifts[start:stop] + rest)
            return xp.sum(scaled, axis=0) - xp.matmul(sums, zeros.T)

        return product
