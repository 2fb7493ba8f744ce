"""ScatterElements, ScatterND and the older Scatter: a copy of a tensor with elements replaced or combined.

Which of several updates of one element wins is open in ONNX where there is no reduction; NumPy keeps the last. With a
reduction all count; narrow floats are then summed and multiplied in float32.
"""

from __future__ import annotations

from math import prod

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext, kernel
from ort_py.errors import InvalidArgument
from ort_py_array.checks import normalized_axis, shape_error
from ort_py_array.indexing import element_positions, row_positions
from ort_py_array.precision import rounded, widened

_COMBINE = {"add": "add", "mul": "multiply", "min": "minimum", "max": "maximum"}


def _combined(ctx: KernelContext, x: Array, rows: Array, updates: Array, reduction: str) -> Array:
    """`x` seen as a matrix of rows as wide as those of `updates`, with `updates` put into `rows`."""
    xp = ctx.xp
    width = updates.shape[1]
    if reduction == "none":
        out = xp.array(x)
        if updates.size:
            out.reshape((-1, width))[rows] = updates
        return out
    if reduction not in _COMBINE:
        raise InvalidArgument(
            f"{ctx.node.op_type} has the unknown reduction '{reduction}'.",
            where=ctx.node.location,
            fix=f"Known: none, {', '.join(_COMBINE)}.",
        )
    wide = xp.array(widened(xp, x))
    if updates.size:
        getattr(xp, _COMBINE[reduction]).at(wide.reshape((-1, width)), rows, widened(xp, updates))
    return rounded(wide, x.dtype)


def _flat_combined(ctx: KernelContext, x: Array, positions: Array, updates: Array, reduction: str) -> Array:
    return _combined(ctx, x, positions.reshape(-1), updates.reshape((updates.size, 1)), reduction)


@kernel("ScatterElements", since=11, until=18, strided=True)
def scatter_elements(
    ctx: KernelContext, x: Array, indices: Array, updates: Array, *, axis: int = 0, reduction: str = "none"
) -> Array:
    """ScatterElements-11..18: one update for each index; `reduction` add, mul from 16, min, max from 18.

    Raises:
        InvalidArgument: The shapes do not fit, an index or `axis` is out of range, the reduction is unknown.
    """
    if tuple(updates.shape) != tuple(indices.shape):
        raise shape_error(
            "Updates and indices must have one shape.", ctx.node.location, [x.shape, indices.shape, updates.shape]
        )
    positions = element_positions(ctx, x.shape, indices, normalized_axis(axis, x.ndim, ctx.node.location))
    return _flat_combined(ctx, x, positions, updates, reduction)


@kernel("Scatter", since=9, until=11, strided=True)
def scatter(ctx: KernelContext, x: Array, indices: Array, updates: Array, *, axis: int = 0) -> Array:
    """Scatter-9, since renamed ScatterElements."""
    return scatter_elements(ctx, x, indices, updates, axis=axis)


@kernel("ScatterND", since=11, until=18, strided=True)
def scatter_nd(ctx: KernelContext, x: Array, indices: Array, updates: Array, *, reduction: str = "none") -> Array:
    """ScatterND-11..18: slices put where tuples of indices say; reductions as in ScatterElements.

    Raises:
        InvalidArgument: The shapes do not fit, an index is out of range, the reduction is unknown.
    """
    rows = row_positions(ctx, x.shape, indices)
    inner = tuple(x.shape[indices.shape[-1] :])
    if tuple(updates.shape) != (*rows.shape, *inner):
        raise shape_error(
            f"The updates must have the shape {(*rows.shape, *inner)}.",
            ctx.node.location,
            [x.shape, indices.shape, updates.shape],
        )
    return _combined(ctx, x, rows.reshape(-1), updates.reshape((rows.size, prod(inner))), reduction)
