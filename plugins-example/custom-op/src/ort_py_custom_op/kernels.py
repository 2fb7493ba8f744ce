"""The kernels of the operator. `ort_py.contracts.kernel_defs` collects the declarations in this module."""

from __future__ import annotations

from ort_py.contracts import ALL_FLOATS, Array, KernelContext, kernel
from ort_py_custom_op.schema import DOMAIN

__all__ = ["pairwise_distance"]


@kernel("PairwiseDistance", domain=DOMAIN, since=1, types={"T": ALL_FLOATS})
def pairwise_distance(ctx: KernelContext, x: Array, y: Array, *, squared: int = 0) -> Array:
    """Euclidean distances of all points of `x`, [N, D], to all of `y`, [M, D]: [N, M].

    |x - y|² = |x|² + |y|² - 2 x·y: one product of matrices, and no array of N · M · D differences. What rounding makes
    negative is zero.
    """
    xp = ctx.xp
    ctx.check_allocation((x.shape[0], y.shape[0]), x.dtype)  # may be larger than both inputs together
    squares = xp.sum(x * x, axis=1)[:, None] + xp.sum(y * y, axis=1)[None, :] - 2 * xp.matmul(x, y.T)
    squares = xp.maximum(squares, x.dtype.type(0)).astype(x.dtype)
    return squares if squared else xp.sqrt(squares)
