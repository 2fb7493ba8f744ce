"""CDist: distances between all pairs of rows of two matrices.

``|a|² - 2ab + |b|²`` by a float64 GEMM. For float32, its 53 bits leave enough precision after the cancellation between
close points. For float64, pairs that are close compared with their distance from the centre of the points are computed
again from differences. In both types, this is also done for pairs where infinities gave NaN.
"""

from __future__ import annotations

from typing import Any

from ort_py import errors
from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext, kernel
from ort_py_array.checks import shape_error
from ort_py_array.contrib.schemas.notation import DOMAIN

__all__ = ["cdist"]

_NEAR = 1e-5
"""Where a squared distance is a smaller part of the squared lengths, more than five digits of it are lost."""

_ELEMENTS = 1 << 18
"""Differences that exist at once: 2 MiB of float64."""


@kernel("CDist", domain=DOMAIN, since=1)
def cdist(ctx: KernelContext, a: Array, b: Array, *, metric: str = "sqeuclidean") -> Array:
    """com.microsoft.CDist-1: ``(m, n)`` and ``(k, n)`` → ``(m, k)``, Euclidean distances or their squares.

    Raises:
        InvalidArgument: The inputs are not matrices of rows of one length.
        NotImplemented: Another metric.
        LimitError: The result would be too large.
    """
    xp = ctx.xp
    if metric not in ("sqeuclidean", "euclidean"):
        raise errors.NotImplemented(
            f"The metric '{metric}'.", where=ctx.node.location, fix="Use 'sqeuclidean' or 'euclidean'."
        )
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        raise shape_error("CDist needs two matrices of the same width.", ctx.node.location, [a.shape, b.shape])
    ctx.check_allocation((a.shape[0], b.shape[0]), xp.float64)
    left, right = a.astype(xp.float64), b.astype(xp.float64)
    if right.size:
        centre = xp.mean(right, axis=0)
        centre = xp.where(xp.isfinite(centre), centre, 0.0)
        left, right = left - centre, right - centre
    lengths = xp.sum(left * left, axis=1, keepdims=True), xp.sum(right * right, axis=1)
    squares = xp.matmul(left, right.T)
    xp.multiply(squares, -2.0, out=squares)
    xp.add(squares, lengths[0], out=squares)
    xp.add(squares, lengths[1], out=squares)
    _correct(xp, squares, a, b, _NEAR * (lengths[0] + lengths[1]) if a.dtype == xp.float64 else 0.0)
    if metric == "euclidean":
        xp.sqrt(squares, out=squares)
    return squares.astype(a.dtype, copy=False)


def _correct(xp: Any, squares: Array, a: Array, b: Array, least: Array | float) -> None:
    """Squared distances below `least`, and those that are NaN, from the points' differences."""
    rows, columns = xp.nonzero(xp.logical_not(squares >= least))
    step = max(1, _ELEMENTS // max(1, a.shape[1]))
    for first in range(0, rows.shape[0], step):
        some, others = rows[first : first + step], columns[first : first + step]
        difference = xp.take(a, some, axis=0).astype(xp.float64) - xp.take(b, others, axis=0)
        squares[some, others] = xp.sum(difference * difference, axis=1)
