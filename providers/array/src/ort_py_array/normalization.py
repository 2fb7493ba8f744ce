"""Normalisations: batch, layer, instance, group, RMS, local response, Lp and mean-variance.

Statistics of narrow floats are formed in float32 (``stash_type``) and the result is rounded once.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext, kernel
from ort_py.devices import HOST
from ort_py.dtypes import DataType, numpy_dtype
from ort_py.errors import InvalidArgument
from ort_py_array.batch_normalization import KERNELS
from ort_py_array.checks import normalized_axis
from ort_py_array.parts import LARGE_PART, by_parts, converted, rounded_by_parts, widened_by_parts
from ort_py_array.precision import mean_along, rounded, widened
from ort_py_array.row_norms import row_kernel

__all__ = [
    "KERNELS",
    "group_normalization",
    "instance_normalization",
    "layer_normalization",
    "lp_normalization",
    "lrn",
    "mean_variance_normalization",
    "rms_normalization",
    "standardized",
]


_SHORT = 4096
"""Longest row that `einsum` adds up: with vectors, twice as fast as `sum`, but without the latter's care for digits."""


def standardized(
    ctx: KernelContext,
    x: Array,
    axes: tuple[int, ...],
    epsilon: float,
    factor: Array | None = None,
    out: Array | None = None,
) -> tuple[Array, Array, Array]:
    """Subtract the mean and divide by the deviation over the last axes; `x` is left alone, unless it is `out`.

    Args:
        ctx: Context of the node.
        x: float32 or float64, C-contiguous.
        axes: The last axes, in order.
        epsilon: Added to the variance.
        factor: What to multiply by in the same step, broadcast to the other axes.
        out: Array of the shape and type of `x` to write the first result to, which may be `x`.

    Returns:
        ``(x - mean) / sqrt(var + epsilon) · factor``, the mean, and the inverse deviation, the latter two with axes of
        size 1.
    """
    lead = x.shape[: x.ndim - len(axes)]
    count = prod(x.shape[x.ndim - len(axes) :])
    rows = x.reshape((prod(lead), count))
    target = None if out is None else out.reshape(rows.shape)
    by = None if factor is None else ctx.xp.broadcast_to(factor, lead).reshape((-1, 1))
    if x.size <= LARGE_PART or ctx.device != HOST:
        target, mean, inverse = _standardized_rows(ctx, rows, epsilon, by, target)
    else:
        xp = ctx.xp
        results = xp.empty(rows.shape, x.dtype) if target is None else target
        mean, inverse = xp.empty((rows.shape[0], 1), x.dtype), xp.empty((rows.shape[0], 1), x.dtype)

        def part(start: int, stop: int) -> None:
            some = slice(start, stop)
            here = None if by is None else by[some]
            _, mean[some], inverse[some] = _standardized_rows(ctx, rows[some], epsilon, here, results[some])

        ctx.parallel_for(rows.shape[0], max(1, LARGE_PART // count), part)
        target = results
    kept = (*lead, *(1 for _ in axes))
    return target.reshape(x.shape) if out is None else out, mean.reshape(kept), inverse.reshape(kept)


def _standardized_rows(
    ctx: KernelContext, rows: Array, epsilon: float, factor: Array | None, out: Array | None
) -> tuple[Array, Array, Array]:
    """`standardized` for the last axis of a matrix; `factor` is a column."""
    xp, count, kind = ctx.xp, rows.shape[1], rows.dtype.type
    short = count <= _SHORT
    mean = (xp.einsum("rc->r", rows) if short else xp.sum(rows, axis=1)).reshape((-1, 1)) / kind(count)
    check = ctx.check_time if rows.size > LARGE_PART else _no_check
    check()
    centred = rows - mean if out is None else xp.subtract(rows, mean, out)
    check()
    squares = xp.einsum("rc,rc->r", centred, centred) if short else xp.sum(xp.multiply(centred, centred), axis=1)
    inverse = 1 / xp.sqrt(squares.reshape((-1, 1)) / kind(count) + kind(epsilon))
    check()
    xp.multiply(centred, inverse if factor is None else xp.multiply(inverse, factor), centred)
    return centred, mean, inverse


def _no_check() -> None:
    """Do nothing: the rows are few."""


def _stash(xp: Any, ctx: KernelContext, x: Array, stash_type: int) -> Array:
    """`x` in the type that statistics are formed in, never less precise than `x` itself."""
    if x.dtype == xp.float64 or stash_type in (DataType.FLOAT, DataType.DOUBLE):
        kind = numpy_dtype(stash_type)
        return x if x.dtype in (xp.float64, kind) else converted(ctx, x, kind)
    if stash_type in (DataType.FLOAT16, DataType.BFLOAT16):
        return widened_by_parts(ctx, x)
    raise InvalidArgument(
        f"stash_type is {stash_type}, which is not a floating-point type.",
        where=ctx.node.location,
        fix="Use 1 (float), 10 (float16), 11 (double) or 16 (bfloat16).",
    )


def _channels(ctx: KernelContext, x: Array, *parameters: Array) -> None:
    wanted = x.shape[1] if x.ndim > 1 else 1
    for parameter in parameters:
        if tuple(parameter.shape) != (wanted,):
            raise InvalidArgument(
                f"A parameter of shape {list(parameter.shape)} does not fit an input of shape {list(x.shape)}, "
                f"which has {wanted} channels.",
                where=ctx.node.location,
                fix=f"Give it the shape [{wanted}].",
            )


def _per_channel(parameter: Array, rank: int) -> Array:
    return parameter.reshape((-1,) + (1,) * (rank - 2))


# From 1 on, though ONNX has it from 17 on: the optimiser makes it in models of any opset, as onnxruntime's does.
@kernel(
    "LayerNormalization",
    since=1,
    until=17,
    outputs=None,
    out=True,
    inplace=((0, 0),),
    bind=partial(row_kernel, centred=True),
)
def layer_normalization(
    ctx: KernelContext,
    x: Array,
    scale: Array,
    bias: Array | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    out: Array | tuple[Array, ...] | None = None,
) -> tuple[Array, ...]:
    """Standardise over the axes from `axis` on, then scale and shift; also gives mean and inverse deviation."""
    xp = ctx.xp
    axes = tuple(range(normalized_axis(axis, x.ndim, ctx.node.location), x.ndim))
    wide = _stash(xp, ctx, x, stash_type)
    count = len(ctx.node.outputs)
    first = out[0] if isinstance(out, tuple) else out
    y, mean, inverse = standardized(ctx, wide, axes, epsilon, None, first if wide.dtype == x.dtype else None)
    y = _scaled_last(ctx, x, y, scale, bias, first)
    if count == 1:
        return (y,)
    outs = out if isinstance(out, tuple) else (None,) * count
    stash = wide.dtype if x.dtype == xp.float64 and stash_type == DataType.DOUBLE else numpy_dtype(stash_type)
    return y, *(rounded(one, stash, given) for one, given in zip((mean, inverse), outs[1:], strict=False))


def _scaled_last(
    ctx: KernelContext, x: Array, y: Array, scale: Array, bias: Array | None, out: Array | None = None
) -> Array:
    """`y · scale + bias`, rounded to the type of `x`: the specification rounds before it scales.

    `y` is overwritten; it may be `out`.
    """
    xp = ctx.xp

    def multiply(target: Array, factor: Array) -> None:
        xp.multiply(target, factor, target)

    def add(target: Array, summand: Array) -> None:
        xp.add(target, summand, target)

    try:
        xp.broadcast_to(scale, y.shape)
        if y.dtype == x.dtype:
            by_parts(ctx, multiply, y, scale)
            if bias is not None:
                by_parts(ctx, add, y, bias)
            return rounded(y, x.dtype, out)
        y = converted(ctx, rounded_by_parts(ctx, y, x.dtype), y.dtype)
        by_parts(ctx, multiply, y, widened(xp, scale))
        if bias is not None:
            by_parts(ctx, add, y, widened(xp, bias))
    except ValueError as error:
        raise InvalidArgument(
            f"Scale of shape {list(scale.shape)}{'' if bias is None else f' or bias of shape {list(bias.shape)}'} does "
            f"not broadcast to the input's {list(x.shape)}.",
            where=ctx.node.location,
            why=str(error),
            fix="Give them the shape of the normalised axes, or one that broadcasts to it.",
        ) from error
    return rounded_by_parts(ctx, y, x.dtype, out)


@kernel(
    "RMSNormalization", since=23, out=True, inplace=((0, 0),), bind=partial(row_kernel, centred=False, several=False)
)
def rms_normalization(
    ctx: KernelContext,
    x: Array,
    scale: Array,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    out: Array | None = None,
) -> Array:
    """``x / sqrt(mean(x²) + epsilon) · scale`` over the axes from `axis` on."""
    xp = ctx.xp
    axes = tuple(range(normalized_axis(axis, x.ndim, ctx.node.location), x.ndim))
    wide = _stash(xp, ctx, x, stash_type)
    y = xp.empty(wide.shape, wide.dtype) if out is None or wide.dtype != x.dtype else out

    def squared(target: Array, some: Array) -> None:
        xp.multiply(some, some, target)

    def divided(target: Array, some: Array, by: Array) -> None:
        xp.divide(some, by, target)

    # The result's memory holds the squares first, unless it is the input's.
    squares = by_parts(ctx, squared, xp.empty(wide.shape, wide.dtype) if out is not None else y, wide)
    ctx.check_time()
    root = xp.sqrt(mean_along(xp, squares, axes) + wide.dtype.type(epsilon))
    by_parts(ctx, divided, y, wide, root)
    return _scaled_last(ctx, x, y, scale, None, out)


@kernel("InstanceNormalization", since=1, until=22, out=True, inplace=((0, 0),))
def instance_normalization(
    ctx: KernelContext,
    x: Array,
    scale: Array,
    bias: Array,
    *,
    epsilon: float = 1e-5,
    consumed_inputs: tuple[int, ...] = (),
    out: Array | None = None,
) -> Array:
    """Standardise each channel of each image over its spatial axes, then scale and shift by channel.

    ``consumed_inputs`` of version 1 was a hint for in-place work, without meaning for the result.
    """
    xp = ctx.xp
    _channels(ctx, x, scale, bias)
    wide = widened_by_parts(ctx, x)
    target = out if wide.dtype == x.dtype else None
    y, _, _ = standardized(ctx, wide, tuple(range(2, x.ndim)), epsilon, widened(xp, scale), target)

    def add(target: Array, summand: Array) -> None:
        xp.add(target, summand, target)

    by_parts(ctx, add, y, _per_channel(widened(xp, bias), x.ndim))
    return rounded_by_parts(ctx, y, x.dtype, out)


@kernel("GroupNormalization", since=21, out=True, inplace=((0, 0),))
def group_normalization(
    ctx: KernelContext,
    x: Array,
    scale: Array,
    bias: Array,
    *,
    num_groups: int,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    out: Array | None = None,
) -> Array:
    """Standardise each group of channels, then scale and shift by channel."""
    xp = ctx.xp
    _channels(ctx, x, scale, bias)
    wide = _stash(xp, ctx, x, stash_type)
    y = _grouped(ctx, wide, num_groups, epsilon, out if wide.dtype == x.dtype else None).reshape(x.shape)
    if y.dtype != x.dtype:
        y = converted(ctx, rounded_by_parts(ctx, y, x.dtype), y.dtype)

    def scaled(target: Array, factor: Array, summand: Array) -> None:
        xp.multiply(target, factor, target)
        xp.add(target, summand, target)

    parameters = [_per_channel(widened(xp, one), x.ndim) for one in (scale, bias)]
    by_parts(ctx, scaled, y, *parameters)
    return out if out is not None and y.dtype == x.dtype else rounded_by_parts(ctx, y, x.dtype, out)


@kernel("GroupNormalization", since=18)
def group_normalization_18(
    ctx: KernelContext, x: Array, scale: Array, bias: Array, *, num_groups: int, epsilon: float = 1e-5
) -> Array:
    """Like `group_normalization`, but scale and bias hold one entry per group."""
    xp = ctx.xp
    y = _grouped(ctx, widened(xp, x), num_groups, epsilon)
    if not tuple(scale.shape) == tuple(bias.shape) == (num_groups,):
        raise InvalidArgument(
            f"scale has shape {list(scale.shape)} and bias {list(bias.shape)} instead of [{num_groups}].",
            where=ctx.node.location,
            fix="Before opset 21 scale and bias have one entry for each group.",
        )
    y = y * widened(xp, scale).reshape(-1, 1) + widened(xp, bias).reshape(-1, 1)
    return rounded(y.reshape(x.shape), x.dtype)


def _grouped(ctx: KernelContext, x: Array, groups: int, epsilon: float, out: Array | None = None) -> Array:
    """Shape ``(n, groups, …)``, standardised over the last axis."""
    if x.ndim < 2 or groups < 1 or x.shape[1] % groups:
        raise InvalidArgument(
            f"An input of shape {list(x.shape)} cannot be divided into {groups} groups of channels.",
            where=ctx.node.location,
            fix="Set num_groups to a divisor of the number of channels (axis 1).",
        )
    size = x.shape[1] // groups
    for dim in x.shape[2:]:
        size *= dim
    shape = (x.shape[0], groups, size)
    target = None if out is None else out.reshape(shape)
    return standardized(ctx, x.reshape(shape), (2,), epsilon, None, target)[0]


@kernel("LRN", since=1, until=13, out=True, inplace=((0, 0),))
def lrn(
    ctx: KernelContext,
    x: Array,
    *,
    size: int,
    alpha: float = 1e-4,
    beta: float = 0.75,
    bias: float = 1.0,
    out: Array | None = None,
) -> Array:
    """``x / (bias + alpha / size · Σ x²)^beta``, the sum over `size` neighbouring channels."""
    xp = ctx.xp
    if size < 1 or x.ndim < 2:
        raise InvalidArgument(
            f"size is {size} and the input has shape {list(x.shape)}.",
            where=ctx.node.location,
            fix="Set size to 1 or more and feed a tensor with channels in axis 1.",
        )
    wide = widened(xp, x)
    squares = xp.multiply(wide, wide)
    sums = squares.copy()
    channels = x.shape[1]
    furthest = channels - 1  # whatever `size` says: there is nothing beyond
    for shift in range(-min((size - 1) // 2, furthest), min(size // 2, furthest) + 1):
        if shift:
            sums[:, max(0, -shift) : channels - max(0, shift)] += squares[:, max(0, shift) : channels - max(0, -shift)]
    kind = wide.dtype.type
    sums *= kind(alpha / size)
    sums += kind(bias)
    if beta == 0.75:  # the usual value: two square roots are several times faster than a power
        root = xp.sqrt(sums)
        xp.multiply(root, xp.sqrt(root), out=sums)
    else:
        sums = xp.power(sums, kind(beta))
    xp.divide(wide, sums, out=sums if out is None or wide.dtype != x.dtype else out)
    return rounded(sums, x.dtype, out) if out is None or wide.dtype != x.dtype else out


@kernel("LpNormalization", since=1, until=22)
def lp_normalization(ctx: KernelContext, x: Array, *, axis: int = -1, p: int = 2) -> Array:
    """``x / ‖x‖_p`` along one axis (p is 1 or 2); where the norm is 0, so is the result."""
    xp = ctx.xp
    axis = normalized_axis(axis, x.ndim, ctx.node.location)
    if p not in (1, 2):
        raise InvalidArgument(f"p is {p}; LpNormalization knows 1 and 2.", where=ctx.node.location, fix="Use 1 or 2.")
    wide = widened(xp, x)
    if p == 1:
        norm = xp.sum(xp.abs(wide), axis=axis, keepdims=True)
    else:
        norm = xp.sqrt(xp.sum(xp.multiply(wide, wide), axis=axis, keepdims=True))
    none = norm == 0  # squares of small numbers vanish, so x itself need not be 0
    return rounded(xp.where(none, wide.dtype.type(0), wide / xp.where(none, wide.dtype.type(1), norm)), x.dtype)


@kernel("MeanVarianceNormalization", since=9, until=13)
def mean_variance_normalization(ctx: KernelContext, x: Array, *, axes: tuple[int, ...] = (0, 2, 3)) -> Array:
    """``(x - mean) / (deviation + 1e-9)`` over `axes`."""
    xp = ctx.xp
    chosen = tuple(normalized_axis(axis, x.ndim, ctx.node.location) for axis in axes)
    wide = widened_by_parts(ctx, x)
    least = wide.dtype.type(1e-9)
    if wide.size <= LARGE_PART or ctx.device != HOST:
        centered = wide - mean_along(xp, wide, chosen)
        deviation = xp.sqrt(mean_along(xp, xp.multiply(centered, centered), chosen))
        centered /= deviation + least
        return rounded(centered, x.dtype)
    centered, squares = xp.empty(wide.shape, wide.dtype), xp.empty(wide.shape, wide.dtype)

    def squared(target: Array, centre: Array, some: Array, mean: Array) -> None:
        xp.subtract(some, mean, centre)
        xp.multiply(centre, centre, target)

    def divided(target: Array, by: Array) -> None:
        xp.divide(target, by, target)

    by_parts(ctx, squared, squares, centered, wide, mean_along(xp, wide, chosen))
    ctx.check_time()
    by_parts(ctx, divided, centered, xp.sqrt(mean_along(xp, squares, chosen)) + least)
    return rounded_by_parts(ctx, centered, x.dtype)
