"""CDist: distances between all pairs of rows of two matrices.

``|a|² - 2ab + |b|²`` by a float64 GEMM. For float32, its 53 bits leave enough precision after the cancellation between
close points. For float64, pairs that are close compared with their distance from the centre of the points are computed
again from differences. In both types, this is also done for pairs where infinities gave NaN.
"""

from __future__ import annotations

from ort_py import errors
from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext, kernel
from ort_py.devices import HOST
from ort_py_array.checks import shape_error
from ort_py_array.contrib.schemas.notation import DOMAIN
from ort_py_array.durations import ahead_of_product
from ort_py_array.parts import LARGE_PART, by_parts, converted, rounded_by_parts

__all__ = ["cdist"]

_NEAR = 1e-5
"""Where a squared distance is a smaller part of the squared lengths, more than five digits of it are lost."""

_PART = 1 << 26
"""Multiplications of a block of rows at least, which BLAS does in some milliseconds."""

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
    ahead_of_product(ctx, 2.0 * a.shape[0] * b.size)  # the estimate is for float32, which is twice as fast
    large = (a.size > LARGE_PART or b.size > LARGE_PART) and ctx.device == HOST
    if large:
        left, right = converted(ctx, a, xp.float64), converted(ctx, b, xp.float64)
    else:
        left, right = a.astype(xp.float64), b.astype(xp.float64)
    if right.size:
        centre = xp.mean(right, axis=0)
        centre = xp.where(xp.isfinite(centre), centre, 0.0)
        ctx.check_time()
        if large:
            for one in (left, right):
                by_parts(ctx, lambda out, by: xp.subtract(out, by, out), one, centre)
        else:
            left, right = left - centre, right - centre
            ctx.check_time()
    if large:
        lengths = _squared_lengths(ctx, left), _squared_lengths(ctx, right).reshape(-1)
    else:
        lengths = xp.sum(left * left, axis=1, keepdims=True), xp.sum(right * right, axis=1)
    squares = xp.empty((a.shape[0], b.shape[0]), xp.float64)

    def part(start: int, stop: int) -> None:
        some, own = squares[start:stop], lengths[0][start:stop]
        xp.matmul(left[start:stop], right.T, out=some)
        xp.multiply(some, -2.0, out=some)
        xp.add(some, own, out=some)
        xp.add(some, lengths[1], out=some)
        least = _NEAR * (own + lengths[1]) if a.dtype == xp.float64 else 0.0
        _correct(ctx, some, a[start:stop], b, least)
        if metric == "euclidean":
            xp.sqrt(some, out=some)

    if ctx.device == HOST:
        ctx.parallel_for(a.shape[0], max(1, _PART // max(1, b.size)), part)
    else:
        part(0, a.shape[0])
    return rounded_by_parts(ctx, squares, a.dtype) if large else squares.astype(a.dtype, copy=False)


def _squared_lengths(ctx: KernelContext, rows: Array) -> Array:
    """The sum of the squares of each row, as a column."""
    xp = ctx.xp
    lengths = xp.empty((rows.shape[0], 1), xp.float64)

    def part(start: int, stop: int) -> None:
        some = rows[start:stop]
        xp.sum(some * some, axis=1, keepdims=True, out=lengths[start:stop])

    ctx.parallel_for(rows.shape[0], max(1, LARGE_PART // rows.shape[1]), part)
    return lengths


def _correct(ctx: KernelContext, squares: Array, a: Array, b: Array, least: Array | float) -> None:
    """Squared distances below `least`, and those that are NaN, from the points' differences."""
    xp = ctx.xp
    rows, columns = xp.nonzero(xp.logical_not(squares >= least))
    step = max(1, _ELEMENTS // max(1, a.shape[1]))
    for first in range(0, rows.shape[0], step):
        ctx.check_time()
        some, others = rows[first : first + step], columns[first : first + step]
        difference = xp.take(a, some, axis=0).astype(xp.float64) - xp.take(b, others, axis=0)
        squares[some, others] = xp.sum(difference * difference, axis=1)
