"""Standardising rows block by block, each made, measured and scaled while it is in the cache.

`normalization` of this package says how a row comes about: as a sum of tensors, or of looked-up embeddings. Here it is
standardised (layer normalisation) or divided by its root mean square (the simplified one), scaled, shifted and rounded
once. It is independent of operators.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, TypeAlias

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py.devices import HOST
from ort_py.errors import InvalidArgument
from ort_py.lazy_dataclass import dataclass
from ort_py_array.parts import LARGE_PART, assign, by_parts, widened_by_parts

__all__ = ["RowMaker", "Rows", "normalize_rows"]

RowMaker: TypeAlias = Callable[[int, int], Array]
"""``f(start, stop)`` → rows ``(stop - start, width)`` in the type to compute in; they are not written to."""

_ELEMENTS = 131072
"""Of a block of rows: steps are so short that starting them, and taking turns between threads, shows in smaller."""


@dataclass(slots=True)
class Rows:
    """Results of `normalize_rows`, shaped as matrices; those that are None are not wanted.

    Attributes:
        y: The normalised rows.
        total: The rows before.
        mean: Mean of each row, shape ``(rows, 1)``.
        inverse: Inverse deviation (or root mean square) of each row, shape ``(rows, 1)``.
    """

    y: Array
    total: Array | None = None
    mean: Array | None = None
    inverse: Array | None = None


def normalize_rows(
    ctx: KernelContext,
    results: Rows,
    make: RowMaker,
    scale: Array,
    shift: Array | None,
    epsilon: float,
    *,
    simplified: bool = False,
) -> None:
    """Write the rows that `make` gives, standardised, scaled and shifted, to `results`.

    Args:
        ctx: Context of the node.
        results: What to write.
        make: Gives the rows.
        scale: Factor of each column.
        shift: Summand of each column, or None.
        epsilon: Added to the variance.
        simplified: Divide by the root mean square instead of standardising.

    Raises:
        InvalidArgument: Scale or shift have another size than a row.
    """
    xp = ctx.xp
    count, width = results.y.shape
    for name, parameter in (("scale", scale), ("shift", shift)):
        if parameter is not None and parameter.size != width:
            raise InvalidArgument(
                f"The {name} has shape {list(parameter.shape)}, but a row has {width} entries.",
                where=ctx.node.location,
                fix=f"Give it the shape [{width}].",
            )
    if prod(results.y.shape) == 0:
        for statistic in (results.mean, results.inverse):
            if statistic is not None:  # of rows without entries
                statistic[...] = xp.nan
        return
    factor = widened_by_parts(ctx, scale.reshape(-1))
    summand = None if shift is None else widened_by_parts(ctx, shift.reshape(-1))
    if width > LARGE_PART and ctx.device == HOST:
        for row in range(count):
            _wide_row(ctx, results, row, make(row, row + 1), factor, summand, epsilon, simplified=simplified)
        return
    step = max(1, _ELEMENTS // width) if ctx.device == HOST else count

    def part(start: int, stop: int) -> None:
        for first in range(start, stop, step):
            last = min(first + step, stop)
            rows = make(first, last)
            if results.total is not None:
                results.total[first:last] = rows
            target = results.y[first:last]
            y = target if target.dtype == rows.dtype else xp.empty(rows.shape, rows.dtype)
            mean = _mean(xp, rows) if not simplified or results.mean is not None else None
            inverse = _normalized(xp, rows, None if simplified else mean, epsilon, y)
            xp.multiply(y, factor, out=y)
            if summand is not None:
                xp.add(y, summand, out=y)
            if y is not target:
                target[...] = y
            if results.mean is not None:
                results.mean[first:last] = mean
            if results.inverse is not None:
                results.inverse[first:last] = inverse

    if count <= step:
        part(0, count)
    else:
        ctx.parallel_for(count, step, part)


def _wide_row(
    ctx: KernelContext,
    results: Rows,
    row: int,
    rows: Array,
    factor: Array,
    summand: Array | None,
    epsilon: float,
    *,
    simplified: bool,
) -> None:
    """Write one row of `normalize_rows` that is so long that each step is taken in parts."""
    xp, place = ctx.xp, slice(row, row + 1)
    if results.total is not None:
        assign(ctx, results.total[place], rows)
    ctx.check_time()
    mean = _mean(xp, rows) if not simplified or results.mean is not None else None
    centre = 0 if mean is None or simplified else mean
    squares = xp.zeros((), rows.dtype)
    for first in range(0, rows.shape[1], LARGE_PART):
        ctx.check_time()
        some = rows[:, first : first + LARGE_PART] - centre
        squares += xp.dot(some.reshape(-1), some.reshape(-1))
    inverse = 1 / xp.sqrt(squares / rows.dtype.type(rows.shape[1]) + rows.dtype.type(epsilon))

    def step(out: Array, some: Array, scale: Array, *shift: Array) -> None:
        y = (some - centre) * inverse
        xp.multiply(y, scale, y)
        out[...] = xp.add(y, shift[0], y) if shift else y

    by_parts(ctx, step, results.y[place], rows, factor, *(() if summand is None else (summand,)))
    if results.mean is not None:
        results.mean[place] = mean
    if results.inverse is not None:
        results.inverse[place] = inverse


def _mean(xp: Any, rows: Array) -> Array:
    """The mean as a product with ones: BLAS adds a row up three times as fast as `mean` does."""
    return xp.matmul(rows, xp.full((rows.shape[1], 1), 1 / rows.shape[1], rows.dtype))


def _normalized(xp: Any, rows: Array, mean: Array | None, epsilon: float, out: Array) -> Array:
    """Write ``(rows - mean) / sqrt(variance + epsilon)`` to `out`; returns the inverse deviation.

    Without a mean, the variance is the mean square.
    """
    centred = rows if mean is None else xp.subtract(rows, mean, out=out)
    squares = xp.matmul(xp.expand_dims(centred, 1), xp.expand_dims(centred, 2)).reshape((-1, 1))
    inverse = 1 / xp.sqrt(squares / rows.shape[1] + rows.dtype.type(epsilon))
    xp.multiply(centred, inverse, out=out)
    return inverse
