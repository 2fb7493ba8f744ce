"""Det: determinants of square matrices, by the array module's LU decomposition.

Narrow floats are computed in float32; large batches are split over the context's pool. It is independent of other
operators.
"""

from __future__ import annotations

from math import prod

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import ALL_FLOATS, KernelContext, kernel
from ort_py.devices import HOST
from ort_py_array.checks import shape_error
from ort_py_array.durations import ahead_of_decomposition
from ort_py_array.precision import rounded, widened

__all__ = ["det"]

_OPERATIONS = 1 << 20
"""Work of one part of the batch, in multiplications."""


@kernel("Det", since=11, until=22, types={"T": ALL_FLOATS})
def det(ctx: KernelContext, x: Array) -> Array:
    """Det-11..22 of ``[…][m][m]``: shape ``[…]``; a matrix of no rows has the determinant 1.

    Raises:
        InvalidArgument: The last two axes are not there or not of one size.
    """
    xp = ctx.xp
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise shape_error("Det needs square matrices.", ctx.node.location, [x.shape])
    wide = widened(xp, x)
    lead, size = x.shape[:-2], x.shape[-1]
    count = prod(lead)
    some = max(1, _OPERATIONS // max(1, size**3))
    ahead_of_decomposition(ctx, size)
    if count <= some or ctx.device != HOST:
        return rounded(_determinants(ctx, wide), x.dtype)
    matrices = wide.reshape((count, size, size))
    out = xp.empty((count,), wide.dtype)

    def part(start: int, stop: int) -> None:
        out[start:stop] = _determinants(ctx, matrices[start:stop])

    ctx.parallel_for(count, some, part)
    return rounded(out.reshape(lead), x.dtype)


def _determinants(ctx: KernelContext, matrices: Array) -> Array:
    xp = ctx.xp
    y = xp.asarray(xp.linalg.det(matrices))
    if ctx.device == HOST and xp.all(y).item():
        return y
    # A decomposition that meets a NaN where it looks for a pivot may call the matrix singular.
    return xp.asarray(xp.where(xp.any(xp.isnan(matrices), axis=(-2, -1)), matrices.dtype.type(xp.nan), y))
