"""CumSum and CumProd: running sums and products along an axis. Narrow floats accumulate in float32."""

from __future__ import annotations

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext, kernel
from ort_py_array.checks import host_ints, normalized_axis
from ort_py_array.precision import rounded, widened


def _accumulate(
    ctx: KernelContext, x: Array, axis_input: Array, *, name: str, neutral: int, exclusive: int, reverse: int
) -> Array:
    xp = ctx.xp
    (axis_given,) = host_ints(axis_input) or (0,)
    axis = normalized_axis(axis_given, x.ndim, ctx.node.location)
    wide = widened(xp, x)
    if reverse:
        wide = xp.flip(wide, axis)
    if exclusive:
        # Each sum stops before its own element: shift by one and begin with the neutral element.
        head = (slice(None),) * axis
        first = xp.full((*x.shape[:axis], min(1, x.shape[axis]), *x.shape[axis + 1 :]), neutral, wide.dtype)
        wide = xp.concatenate((first, wide[(*head, slice(None, -1))]), axis=axis)
    result = getattr(xp, name)(wide, axis=axis, dtype=wide.dtype)
    return rounded(xp.ascontiguousarray(xp.flip(result, axis)) if reverse else result, x.dtype)


@kernel("CumSum", since=11, until=14, strided=True, host_inputs=frozenset({1}))
def cum_sum(ctx: KernelContext, x: Array, axis: Array, *, exclusive: int = 0, reverse: int = 0) -> Array:
    """CumSum-11..14 along the axis in input 1 (host)."""
    return _accumulate(ctx, x, axis, name="cumsum", neutral=0, exclusive=exclusive, reverse=reverse)


@kernel("CumProd", since=26, strided=True, host_inputs=frozenset({1}))
def cum_prod(ctx: KernelContext, x: Array, axis: Array, *, exclusive: int = 0, reverse: int = 0) -> Array:
    """CumProd-26 along the axis in input 1 (host)."""
    return _accumulate(ctx, x, axis, name="cumprod", neutral=1, exclusive=exclusive, reverse=reverse)
