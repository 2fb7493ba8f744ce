"""Where, NonZero, Compress, Trilu, ReverseSequence: elements chosen by a condition or a place. Every element type.

NonZero and Compress have results whose size only the data knows: on a device they wait for it.
"""

from __future__ import annotations

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef, KernelForms, kernel
from ort_py.devices import HOST
from ort_py.dtypes import numpy_dtype
from ort_py.errors import InvalidArgument
from ort_py_array.blending import WIDTHS, blended
from ort_py_array.broadcasting import broadcast_shape
from ort_py_array.checks import LARGE, host_ints, normalized_axis, shape_error

_LARGE = 4096
"""Elements from which on `blended` is faster than `where`, whatever the condition."""

_AT_A_TIME = 1 << 20
"""Elements that are chosen at a time."""


def where(ctx: KernelContext) -> KernelCallable:
    """Where-9..16: x where the condition holds, else y; all three broadcast."""
    function: KernelCallable = ctx.xp.where
    values = ctx.node.inputs[1]
    kind = None if values is None or values.data_type is None else numpy_dtype(values.data_type)
    copy = ctx.xp.copyto

    def into(condition: Array, x: Array, y: Array, out: Array) -> Array:
        if out is not y:
            copy(out, y)
        copy(out, x, where=condition)
        return out

    if ctx.device != HOST or kind is None or kind.hasobject or kind.itemsize not in WIDTHS:
        return KernelForms(3, function, into)

    def run(condition: Array, x: Array, y: Array) -> Array:
        if condition.size < _LARGE and x.size < _LARGE and y.size < _LARGE:
            return function(condition, x, y)
        return blended(ctx, condition, x, y)

    def run_into(condition: Array, x: Array, y: Array, out: Array) -> Array:
        if condition.size < _LARGE and x.size < _LARGE and y.size < _LARGE:
            return into(condition, x, y, out)
        return blended(ctx, condition, x, y, out)

    return KernelForms(3, run, run_into)


def _where_shape(condition: Array, x: Array, y: Array) -> tuple[int, ...] | None:
    """The shape of the result, None where the product of the sizes, which bounds it, is small."""
    return None if 0 < condition.size * x.size * y.size <= LARGE else broadcast_shape(condition, x, y)


@kernel("NonZero", since=9, until=13, strided=True)
def non_zero(ctx: KernelContext, x: Array) -> Array:
    """NonZero-9..13: int64 indices of the elements that are not 0, one column an element, in row-major order.

    A scalar, having no axes, gives shape (0, n).
    """
    xp = ctx.xp
    if x.ndim == 0:
        return xp.zeros((0, int(xp.count_nonzero(x).item())), xp.int64)
    if ctx.device != HOST or x.size <= _LARGE:
        return xp.stack(xp.nonzero(x)).astype(xp.int64)
    y = xp.empty(_counted(ctx, x), xp.int64)
    step, done = max(1, len(x) * _AT_A_TIME // x.size), 0
    for start in range(0, len(x), step):
        ctx.check_time()
        places = xp.nonzero(x[start : start + step])
        found = places[0].size
        for axis, place in enumerate(places):
            y[axis, done : done + found] = place
        y[0, done : done + found] += start
        done += found
    return y


def _counted(ctx: KernelContext, x: Array) -> tuple[int, int]:
    """The shape of the places of what is not 0, after it was asked for."""
    shape = x.ndim, int(ctx.xp.count_nonzero(x))
    ctx.check_allocation(shape, ctx.xp.int64)
    return shape


@kernel("Compress", since=9, until=28, strided=True)
def compress(ctx: KernelContext, x: Array, condition: Array, *, axis: int | None = None) -> Array:
    """Compress-9..28: slices along `axis` (elements of the flat tensor where absent) whose condition holds.

    `condition` may be shorter than the axis; what it does not reach is left out. It may be longer where it chooses
    nothing there, as in `numpy.compress`, by which the operator is defined.

    Raises:
        InvalidArgument: `axis` is out of range, or the condition chooses behind its end or is not one-dimensional.
    """
    xp, where_ = ctx.xp, ctx.node.location
    along = None if axis is None else normalized_axis(axis, x.ndim, where_)
    size = x.size if along is None else x.shape[along]
    if condition.ndim != 1 or (condition.shape[0] > size and bool(xp.any(condition[size:]))):
        raise shape_error(f"The condition does not fit an axis of {size} elements.", where_, [x.shape, condition.shape])
    source, axis_ = (x.reshape(-1), 0) if along is None else (x, along)
    condition = condition[:size]
    entries = condition.shape[0]
    if ctx.device != HOST or source.size <= _AT_A_TIME or entries < 2:
        return xp.take(source, xp.nonzero(condition)[0], axis=axis_)
    count = int(xp.count_nonzero(condition))
    y = xp.empty((*source.shape[:axis_], count, *source.shape[axis_ + 1 :]), x.dtype)
    before, step, done = (slice(None),) * axis_, max(1, entries * _AT_A_TIME // source.size), 0
    for start in range(0, entries, step):
        ctx.check_time()
        chosen = xp.nonzero(condition[start : start + step])[0] + start
        y[(*before, slice(done, done + chosen.size))] = xp.take(source, chosen, axis=axis_)
        done += chosen.size
    return y


@kernel("Trilu", since=14, strided=True, host_inputs=frozenset({1}))
def trilu(ctx: KernelContext, x: Array, k: Array | None = None, *, upper: int = 1) -> Array:
    """Trilu-14: the upper or lower triangle of the last two axes from diagonal `k` (host) on; the rest is 0.

    Raises:
        InvalidArgument: The tensor has fewer than two axes.
    """
    xp = ctx.xp
    if x.ndim < 2:
        raise shape_error("Trilu needs matrices.", ctx.node.location, [x.shape])
    (diagonal,) = host_ints(k) or (0,)
    columns = xp.arange(x.shape[-1])
    y = xp.full(x.shape, "", x.dtype) if x.dtype.kind == "O" else xp.zeros(x.shape, x.dtype)

    def part(start: int, stop: int) -> None:
        distance = xp.subtract(columns, xp.arange(start, stop).reshape((-1, 1)))
        kept = xp.greater_equal(distance, diagonal) if upper else xp.less_equal(distance, diagonal)
        xp.copyto(y[..., start:stop, :], x[..., start:stop, :], where=kept)

    ctx.parallel_for(x.shape[-2], max(1, x.shape[-2] * _AT_A_TIME // max(1, y.size)), part)
    return y


@kernel("ReverseSequence", since=10, until=28, strided=True)
def reverse_sequence(ctx: KernelContext, x: Array, lengths: Array, *, batch_axis: int = 1, time_axis: int = 0) -> Array:
    """ReverseSequence-10..28: the first ``lengths[b]`` steps of each batch entry in reverse order.

    Raises:
        InvalidArgument: The axes are not 0 and 1, there is not one length an entry, or a length is negative or larger
            than the time axis.
    """
    xp, at = ctx.xp, ctx.node.location
    if {batch_axis, time_axis} != {0, 1} or x.ndim < 2 or tuple(lengths.shape) != (x.shape[batch_axis],):
        raise shape_error(
            f"ReverseSequence with batch axis {batch_axis} and time axis {time_axis} cannot take the inputs.",
            at,
            [x.shape, lengths.shape],
        )
    low, high = (lengths.min().item(), lengths.max().item()) if lengths.size else (0, 0)
    if low < 0 or high > x.shape[time_axis]:
        raise InvalidArgument(
            f"Lengths from {low} to {high} do not suit {x.shape[time_axis]} steps.",
            where=at,
            fix=f"Give each entry a length in [0, {x.shape[time_axis]}].",
        )
    if x.shape[time_axis] > LARGE:
        ctx.check_allocation((x.shape[time_axis],), xp.int64)
    steps, batch = xp.arange(x.shape[time_axis]), x.shape[batch_axis]
    y = xp.empty(x.shape, x.dtype)

    def part(start: int, stop: int) -> None:
        entries = xp.arange(start, stop).reshape((-1, 1))
        counts = lengths[start:stop].reshape((-1, 1))
        source = xp.where(steps < counts, xp.subtract(counts - 1, steps), steps)  # (batch, time)
        if batch_axis == 0:
            y[start:stop] = x[entries, source]
        else:
            y[:, start:stop] = x[source.T, entries.T]

    ctx.parallel_for(batch, max(1, batch * _AT_A_TIME // max(1, y.size)), part)
    return y


KERNELS: list[KernelDef] = [
    KernelDef(
        "Where",
        where,
        since=9,
        until=16,
        out=True,
        inplace=((2, 0),),  # the chosen elements are written over the rest
        strided=True,
        output_shape=_where_shape,
        implementation="ufunc:where",
    ),
]
