"""Caches of keys and values in 8 or 4 bits: new rows are quantised into them, all rows dequantised for attention.

Symmetric: a value is its integer, or its 8-bit float, times a scale that broadcasts to the cache. Of two 4-bit values
in a byte the first is the low one; they are stored with 8 added, or as two's complements. It does not depend on
attention.
"""

from __future__ import annotations

from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py.errors import InvalidArgument
from ort_py.lazy_dataclass import dataclass
from ort_py_array.checks import LARGE, shape_error
from ort_py_array.saturation import quantized

__all__ = ["CacheFormat", "cache_format"]

_OFFSET = 8

_HIGH_BITS = 0x88
"""Turned over, a number with 8 added is its two's complement; of both in a byte."""


@dataclass(frozen=True, slots=True)
class CacheFormat:
    """Storage format of keys or values.

    Attributes:
        ctx: Context of the node.
        name: Which, for messages.
        per_channel: One scale an element of a head; otherwise one for all.
        bits: 8 or 4.
        complement: 4 bits are a two's complement, rather than stored with 8 added.
    """

    ctx: KernelContext
    name: str
    per_channel: bool
    bits: int
    complement: bool = False

    def scale(self, scale: Array | None, heads: int, size: int) -> Array:
        """The scale, so that it broadcasts to ``(batch, heads, rows, size)``.

        Raises:
            InvalidArgument: It is absent, or of another shape.
        """
        count = heads * size if self.per_channel else 1
        if scale is None or scale.size != count:
            raise InvalidArgument(
                f"{self.name}_scale is {'absent' if scale is None else f'of shape {list(scale.shape)}'}.",
                where=self.ctx.node.location,
                why=f"{self.name}_quant_type is {'PER_CHANNEL' if self.per_channel else 'PER_TENSOR'}",
                fix=f"Give a scale of {count} entries{', (1, heads, 1, size)' if self.per_channel else ''}.",
            )
        return scale.reshape((1, heads, 1, size) if self.per_channel else (1, 1, 1, 1))

    def stored(self, x: Array, scale: Array, dtype: Any) -> Array:
        """New rows ``(batch, heads, rows, size)`` as they are stored: of half the size where two share a byte."""
        xp = self.ctx.xp
        ratio = xp.divide(x.astype(xp.float32), scale)
        if self.bits == 8:
            return quantized(xp, ratio, None, dtype)
        if x.shape[3] % 2:
            what = "Heads of odd size cannot be stored in pairs of 4 bits."
            raise shape_error(what, self.ctx.node.location, [x.shape])
        xp.rint(ratio, out=ratio)
        xp.clip(ratio, -_OFFSET, _OFFSET - 1, out=ratio)
        ratio += _OFFSET
        nibbles = ratio.astype(xp.uint8)
        pairs = xp.bitwise_or(nibbles[..., ::2], xp.left_shift(nibbles[..., 1::2], 4))
        return xp.bitwise_xor(pairs, _HIGH_BITS) if self.complement else pairs

    def loaded(self, x: Array, scale: Array, size: int) -> Array:
        """Stored rows as float32 ``(batch, heads, rows, size)``.

        Raises:
            LimitError: They would pass the session's limits.
        """
        xp = self.ctx.xp
        shape = (*x.shape[:3], size)
        if x.size > LARGE:
            self.ctx.check_allocation(shape, xp.float32)
        if self.bits == 8:
            return xp.multiply(x.astype(xp.float32), scale)
        if self.complement:
            x = xp.bitwise_xor(x, _HIGH_BITS)
        y = xp.empty(shape, xp.float32)
        y[..., ::2] = xp.bitwise_and(x, 15)
        y[..., 1::2] = xp.right_shift(x, 4)
        y -= _OFFSET
        y *= scale
        return y


def cache_format(ctx: KernelContext, name: str) -> CacheFormat | None:
    """The format that the node's attributes say for ``"k"`` or ``"v"``; None where it is not quantised.

    Raises:
        InvalidArgument: An unknown kind or bit width.
    """
    attributes = ctx.node.attributes
    kind = attributes.get(f"{name}_quant_type", "NONE")
    bits = int(attributes.get("kv_cache_bit_width", 0)) or 8
    if kind == "NONE":
        return None
    if kind not in ("PER_TENSOR", "PER_CHANNEL") or bits not in (4, 8):
        raise InvalidArgument(
            f"{name}_quant_type is '{kind}' and kv_cache_bit_width {bits}.",
            where=ctx.node.location,
            fix="Use 'NONE', 'PER_TENSOR' or 'PER_CHANNEL', and 8 or 4 bits.",
        )
    return CacheFormat(ctx, name, kind == "PER_CHANNEL", bits)
