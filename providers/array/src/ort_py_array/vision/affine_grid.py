"""AffineGrid: the position that each pixel of an image is read from under an affine map.

The mapped position of a pixel is the sum of one term per axis. A line of pixels differs from the next only by the terms
of the outer axes, so all lines are computed by one product of small matrices, without an array of the positions of all
pixels. Comes before GridSample. Narrow floats are computed in float32.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import ALL_FLOATS, KernelContext, kernel
from ort_py.errors import InvalidArgument
from ort_py_array.checks import host_ints
from ort_py_array.precision import rounded, widened

__all__ = ["affine_grid"]


@kernel("AffineGrid", since=20, types={"T1": ALL_FLOATS}, host_inputs=frozenset({1}))
def affine_grid(ctx: KernelContext, theta: Array, size: Array, *, align_corners: int = 0) -> Array:
    """AffineGrid-20: ``[n][2][3]`` and a host size (n, c, h, w) to ``[n][h][w][2]``, or one dimension more.

    With `align_corners`, a picture one pixel high or wide has 0/0 positions, as the operator's function has it; one
    that is one pixel deep is at -1.

    Raises:
        InvalidArgument: The size has neither four nor five numbers or a negative one, or the maps do not fit it.
        LimitError: The grid would be too large.
    """
    xp, where = ctx.xp, ctx.node.location
    numbers = host_ints(size) or ()
    rank = len(numbers) - 2
    if rank not in (2, 3) or min(numbers) < 0:
        raise InvalidArgument(
            f"AffineGrid has the size {list(numbers)}.",
            where=where,
            fix="It must be (n, c, h, w) or (n, c, d, h, w), none of them negative.",
        )
    if tuple(theta.shape) != (numbers[0], rank, rank + 1):
        raise InvalidArgument(
            f"Maps of shape {list(theta.shape)} do not fit the size {list(numbers)}.",
            where=where,
            fix=f"They must have the shape {[numbers[0], rank, rank + 1]}.",
        )
    shape = (numbers[0], *numbers[2:], rank)
    wide = widened(xp, theta)
    ctx.check_allocation(shape, wide.dtype)
    positions = [
        _positions(xp, numbers[2 + axis], bool(align_corners), axis == 0 and rank == 3).astype(wide.dtype)
        for axis in range(rank)
    ]
    return rounded(xp.matmul(_lines(xp, positions[:-1]), _terms(xp, wide, positions[-1])).reshape(shape), theta.dtype)


def _lines(xp: Any, outer: list[Array]) -> Array:
    """The place of every line of pixels along the outer axes, and a 1: ``[lines][rank]``."""
    sizes = tuple(values.shape[0] for values in outer)
    lines = xp.ones((*sizes, len(outer) + 1), outer[0].dtype)
    for axis, values in enumerate(outer):
        lines[..., axis] = values.reshape((-1, *(1,) * (len(outer) - 1 - axis)))
    return lines.reshape((prod(sizes), len(outer) + 1))


def _terms(xp: Any, theta: Array, line: Array) -> Array:
    """Factors of `_lines`: ``[n][rank][width · rank]``; the last row is the line through 0."""
    batch, rank, _ = theta.shape
    terms = xp.empty((batch, rank, line.shape[0], rank), theta.dtype)
    for axis in range(rank - 1):
        terms[:, axis] = theta[:, None, :, rank - 1 - axis]
    terms[:, -1] = theta[:, None, :, 0] * line.reshape((-1, 1)) + theta[:, None, :, rank]
    return terms.reshape((batch, rank, line.shape[0] * rank))


def _positions(xp: Any, size: int, align_corners: bool, depth: bool) -> Array:
    """Centres of `size` pixels between -1 and 1, in float64."""
    steps = xp.arange(size, dtype=xp.float64)
    if not align_corners:
        return (2 * steps + 1) / max(size, 1) - 1
    if size == 1:
        return steps * (0.0 if depth else float("inf")) - 1
    return steps * (2 / max(size - 1, 1)) - 1
