"""CumSum and CumProd: running sums and products along an axis. Narrow floats accumulate in float32.

The array module's own function walks one line of the axis after the other, whose elements lie apart in memory unless
the axis is the last. Where it is not, blocks of the axis are accumulated side by side, then joined: about twice the
square root of its length in steps over whole slices, and sums that round less.
"""

from __future__ import annotations

from math import isqrt, prod
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext, kernel
from ort_py.devices import HOST
from ort_py.errors import InvalidArgument
from ort_py_array.checks import host_ints, normalized_axis
from ort_py_array.precision import rounded, widened

_AT_A_TIME = 1 << 20
"""Elements that are accumulated at a time."""

_INNER = 32
"""Elements of a slice behind the axis from which on stepping over slices is faster than walking along lines."""


def _accumulate(
    ctx: KernelContext, x: Array, axis_input: Array, *, name: str, neutral: int, exclusive: int, reverse: int
) -> Array:
    xp = ctx.xp
    numbers = host_ints(axis_input) or ()
    if len(numbers) != 1:
        raise InvalidArgument(
            f"{ctx.node.op_type} has the axes {numbers}.", where=ctx.node.location, fix="It must be one axis."
        )
    axis = normalized_axis(numbers[0], x.ndim, ctx.node.location)
    narrow_slices = prod(x.shape[axis + 1 :]) < _INNER
    if narrow_slices and x.size > _AT_A_TIME and ctx.device == HOST:
        combine = xp.add if name == "cumsum" else xp.multiply
        ordered = xp.flip(x, axis) if reverse else x
        y = _by_pieces(ctx, combine, ordered, axis, neutral if exclusive else None)
        return xp.ascontiguousarray(xp.flip(y, axis)) if reverse else y
    wide = widened(xp, x)
    if reverse:
        wide = xp.flip(wide, axis)
    if exclusive:
        # Each sum stops before its own element: shift by one and begin with the neutral element.
        head = (slice(None),) * axis
        first = xp.full((*x.shape[:axis], min(1, x.shape[axis]), *x.shape[axis + 1 :]), neutral, wide.dtype)
        wide = xp.concatenate((first, wide[(*head, slice(None, -1))]), axis=axis)
    if x.size and not narrow_slices:
        result = _by_slices(xp, xp.add if name == "cumsum" else xp.multiply, wide, axis)
    else:
        result = getattr(xp, name)(wide, axis=axis, dtype=wide.dtype)
    return rounded(xp.ascontiguousarray(xp.flip(result, axis)) if reverse else result, x.dtype)


def _by_pieces(ctx: KernelContext, combine: Any, x: Array, axis: int, neutral: int | None) -> Array:
    """Accumulate piece after piece of the axis, each onto the last entries of the one before.

    Args:
        ctx: Context of the node.
        combine: The ufunc.
        x: The elements in their order.
        axis: The axis.
        neutral: The first entries, where each element is left out of its own result.
    """
    xp, size, before = ctx.xp, x.shape[axis], (slice(None),) * axis
    y: Array = xp.empty(x.shape, x.dtype)
    shift = 0
    if neutral is not None:
        shift = 1
        y[(*before, slice(0, 1))] = neutral
    step = max(1, size * _AT_A_TIME // x.size)
    last: Array | None = None
    for start in range(0, size - shift, step):
        ctx.check_time()
        stop = min(start + step, size - shift)
        piece = x[(*before, slice(start, stop))]
        sums = xp.array(widened(xp, piece))
        if last is not None:
            first = sums[(*before, slice(0, 1))]
            combine(last, first, out=first)
        sums = combine.accumulate(sums, axis=axis, dtype=sums.dtype)
        last = sums[(*before, slice(-1, None))]
        y[(*before, slice(start + shift, stop + shift))] = rounded(sums, x.dtype)
    return y


def _by_slices(xp: Any, combine: Any, x: Array, axis: int) -> Array:
    size = x.shape[axis]
    step = isqrt(size)
    full = size // step * step
    y = xp.array(x).reshape((prod(x.shape[:axis]), size, prod(x.shape[axis + 1 :])))
    blocks = y[:, :full].reshape((y.shape[0], full // step, step, y.shape[2]))  # a view: only one axis is split
    for place in range(1, step):
        combine(blocks[:, :, place], blocks[:, :, place - 1], blocks[:, :, place])
    for number in range(1, full // step):
        combine(blocks[:, number], blocks[:, number - 1, -1:], blocks[:, number])
    for place in range(full, size):
        combine(y[:, place], y[:, place - 1], y[:, place])
    return y.reshape(x.shape)


@kernel("CumSum", since=11, until=14, strided=True, host_inputs=frozenset({1}))
def cum_sum(ctx: KernelContext, x: Array, axis: Array, *, exclusive: int = 0, reverse: int = 0) -> Array:
    """CumSum-11..14 along the axis in input 1 (host).

    Raises:
        InvalidArgument: There is no such axis, or not one is given.
    """
    return _accumulate(ctx, x, axis, name="cumsum", neutral=0, exclusive=exclusive, reverse=reverse)


@kernel("CumProd", since=26, strided=True, host_inputs=frozenset({1}))
def cum_prod(ctx: KernelContext, x: Array, axis: Array, *, exclusive: int = 0, reverse: int = 0) -> Array:
    """CumProd-26 along the axis in input 1 (host).

    Raises:
        InvalidArgument: There is no such axis, or not one is given.
    """
    return _accumulate(ctx, x, axis, name="cumprod", neutral=1, exclusive=exclusive, reverse=reverse)
