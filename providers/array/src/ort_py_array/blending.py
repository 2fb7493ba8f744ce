"""One of two values for each element, by bits: no branch, so that an unforeseeable condition costs no more.

NumPy's `where` branches at each element, and a wrong guess costs as much as ten elements: on random conditions it takes
as long as twenty additions. `selection` uses this for large arrays on the host. It is independent of operators.
"""

from __future__ import annotations

from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext

__all__ = ["WIDTHS", "blended"]

WIDTHS = {1: "int8", 2: "int16", 4: "int32", 8: "int64"}
"""Integer types as wide as an element, by its bytes: other elements cannot be blended."""

_BLOCK = 32768
"""Elements of a block: the four steps stay in the cache."""


def blended(ctx: KernelContext, condition: Array, x: Array, y: Array, out: Array | None = None) -> Array:
    """`x` where the condition holds, else `y`; all three broadcast to a shape of at least one axis.

    Args:
        ctx: Context of the node; its pool gets blocks where the three have one shape.
        condition: Booleans.
        x: Elements of 1, 2, 4 or 8 bytes, which are not references.
        y: Of the type of `x`.
        out: Array of the result's shape and the type of `x` to write to, which may be `x` or `y`; a new one where it
            is None.
    """
    xp = ctx.xp
    if not condition.shape == x.shape == y.shape or not all(a.flags.c_contiguous for a in (condition, x, y)):
        result = _blend(xp, condition, x, y, None if out is None else out.view(WIDTHS[x.itemsize]))
        return result.view(x.dtype) if out is None else out
    if out is None:
        out = xp.empty(x.shape, x.dtype)
    given, chosen = [a.reshape(-1) for a in (condition, x, y)], out.reshape(-1).view(WIDTHS[x.itemsize])

    def part(start: int, stop: int) -> None:
        for first in range(start, stop, _BLOCK):
            block = slice(first, min(first + _BLOCK, stop))
            _blend(xp, given[0][block], given[1][block], given[2][block], chosen[block])

    ctx.parallel_for(x.size, _BLOCK, part)
    return out


def _blend(xp: Any, condition: Array, x: Array, y: Array, out: Array | None) -> Array:
    """The bits of the result, as integers."""
    kind = WIDTHS[x.itemsize]
    mask = xp.negative(condition.view("int8")).astype(kind)  # all bits where it holds, else none
    bits = y.view(kind)
    mask = xp.bitwise_and(mask, xp.bitwise_xor(x.view(kind), bits))
    return xp.bitwise_xor(mask, bits, out)
