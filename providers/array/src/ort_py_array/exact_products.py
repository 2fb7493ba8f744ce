"""Integer products through floating-point GEMM, exact to the last bit.

NumPy has no fast integer GEMM, but float32 GEMM is exact while no sum can leave ±2²⁴. So the inner dimension is cut
into pieces for which that is certain, and the pieces are added up as int32. The bound comes from the element types
(or from weights known at planning, where the sums of their columns say more than their greatest value), never from the
data, so nothing has to be read back from a device.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py_array.parts import by_parts, converted

__all__ = ["exact_depth", "exact_matmul", "known_depth", "shifted"]

_EXACT = 1 << 24


def shifted(ctx: KernelContext, x: Array, zero_point: Array | None) -> tuple[Array, int]:
    """(x - zero_point as float32, a bound of its absolute values) for 8-bit `x`."""
    bound = 255 if zero_point is not None or x.dtype.kind == "u" else 128
    xp = ctx.xp
    y = converted(ctx, x, xp.float32)
    if zero_point is not None:
        by_parts(ctx, partial(_less, xp), y, zero_point.astype(xp.float32))
    return y, bound


def _less(xp: Any, y: Array, zero_point: Array) -> None:
    xp.subtract(y, zero_point, y)


def exact_depth(left: int, right: int) -> int:
    """Number of products of values bounded by `left` and `right` that float32 adds up exactly."""
    return max(1, _EXACT // max(1, left * right))


def known_depth(xp: Any, right: Array, left: int = 255) -> int:
    """`exact_depth` for a right operand that is known: no partial sum passes the absolute sum of a column.

    Waits for the device: for planning.

    Args:
        xp: Array module.
        right: ``(…, inner, columns)`` or ``(inner,)``, integers.
        left: Bound of the left operand.
    """
    if not right.size:
        return 1
    sizes = xp.abs(right) if right.ndim > 1 else xp.abs(right).reshape(-1, 1)
    inner = int(sizes.shape[-2])
    least = exact_depth(left, int(xp.max(sizes).item()))
    pieces = 1
    while (depth := -(-inner // pieces)) > least:
        sums = [xp.max(xp.sum(sizes[..., i : i + depth, :], axis=-2)).item() for i in range(0, inner, depth)]
        if max(sums) * left <= _EXACT:
            return depth
        pieces += 1
    return max(depth, least)


def exact_matmul(
    ctx: KernelContext, a: Array, b: Array, depth: int, multiply: Callable[[Array, Array], Array] | None = None
) -> Array:
    """``a @ b`` of integers stored as float32, as int32 (wrapping around as the specification's int32 does).

    Args:
        ctx: Context of the node.
        a: Rank at least 1.
        b: Rank at least 1.
        depth: How many products may be added up in float32, from `exact_depth`.
        multiply: Multiplies float32; NumPy's product where it is None.
    """
    xp = ctx.xp
    multiply = multiply or xp.matmul
    inner = a.shape[-1]
    if inner <= depth:
        return converted(ctx, multiply(a, b), xp.int32)
    total = None
    for start in range(0, inner, depth):
        left = a[..., start : start + depth]
        right = b[..., start : start + depth, :] if b.ndim > 1 else b[start : start + depth]
        ctx.check_time()
        part = converted(ctx, multiply(left, right), xp.int32)
        total = part if total is None else total + part
    return total
