"""Positions of maxima: MaxPool's second output.

Taps are visited in the order of the flattened kernel and the first of equal values wins, as in other runtimes.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py_array.windows import Placement

__all__ = ["lowest", "max_with_indices"]


def max_with_indices(ctx: KernelContext, x: Array, place: Placement, column_major: bool) -> tuple[Array, Array]:
    """Maxima of all windows and their flat positions in `x`.

    Args:
        ctx: Context of the node.
        x: Shape ``(n, c, *size)``.
        place: Window over `x`.
        column_major: Count the spatial position column by column (``storage_order`` 1).

    Returns:
        Values ``(n, c, *out)`` and int64 positions; the lowest number and -1 where a window saw no picture. NaN is
        greater than any number.
    """
    xp, rank = ctx.xp, len(place.out)
    steps, step = [0] * rank, 1
    for axis in range(rank) if column_major else reversed(range(rank)):
        steps[axis] = step
        step *= place.size[axis]
    planes = xp.arange(x.shape[0] * x.shape[1], dtype=xp.int64).reshape(*x.shape[:2], *(1,) * rank) * step
    shape = (*x.shape[:2], *place.out)
    values = xp.full(shape, lowest(xp, x.dtype), x.dtype)
    indices = xp.full(shape, -1, xp.int64)
    for tap in product(*(range(k) for k in place.kernel)):
        ctx.check_time()
        targets, sources, position = [], [], planes
        for axis, t in enumerate(tap):
            stride, shift = place.strides[axis], t * place.dilations[axis] - place.begin[axis]
            # Output positions whose tap lies on the picture: 0 <= o · stride + shift < size.
            first = max(0, (stride - 1 - shift) // stride)
            last = min(place.out[axis], (place.size[axis] - 1 - shift) // stride + 1)
            if last <= first:
                break
            targets.append(slice(first, last))
            sources.append(slice(first * stride + shift, (last - 1) * stride + shift + 1, stride))
            along = (xp.arange(first, last, dtype=xp.int64) * stride + shift) * steps[axis]
            position = position + along.reshape((-1,) + (1,) * (rank - 1 - axis))
        else:
            lead = (slice(None), slice(None))
            here, seen = values[(*lead, *targets)], x[(*lead, *sources)]
            known = indices[(*lead, *targets)]
            # NaN is the maximum, as it is without the output of positions; the first one counts.
            better = (seen > here) | (known < 0)
            if x.dtype.kind not in "iu":
                better |= xp.isnan(seen) & ~xp.isnan(here)
            values[(*lead, *targets)] = xp.where(better, seen, here)
            indices[(*lead, *targets)] = xp.where(better, position, known)
    return values, indices


def lowest(xp: Any, dtype: Any) -> Any:
    """The maximum of no elements of a type."""
    return xp.iinfo(dtype).min if dtype.kind in "iu" else -float("inf")
