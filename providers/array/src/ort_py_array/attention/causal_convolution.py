"""CausalConvWithState-27, and `causal_convolution`, which the operator of com.microsoft shares.

A short filter a channel over the present and the past, whose last steps are carried to the next call. Blocks of
channels are summed tap by tap in the cache; narrow floats are summed in float32 and rounded once.
"""

from __future__ import annotations

from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext, kernel
from ort_py.errors import InvalidArgument
from ort_py_array.checks import LARGE, shape_error
from ort_py_array.precision import widened

__all__ = ["causal_conv_with_state", "causal_convolution"]

_ELEMENTS = 32768
"""Of a block of channels, as in `pointwise`."""


@kernel("CausalConvWithState", since=27, outputs=2)
def causal_conv_with_state(
    ctx: KernelContext,
    x: Array,
    weight: Array,
    bias: Array | None = None,
    past_state: Array | None = None,
    *,
    activation: str = "none",
) -> tuple[Array, Array]:
    """CausalConvWithState-27: a filter ``(channels, 1, taps)`` over ``(batch, channels, length)`` and its past.

    Raises:
        InvalidArgument: Shapes that do not fit, or an unknown activation.
        LimitError: The state would pass the session's limits.
    """
    return causal_convolution(ctx, x, weight, bias, past_state, activation)


def causal_convolution(
    ctx: KernelContext,
    x: Array,
    weight: Array,
    bias: Array | None,
    state: Array | None,
    activation: str,
    dilation: int = 1,
) -> tuple[Array, Array]:
    """``y[t] = bias + Σ weight[j] · sequence[t + j · dilation]``: the sequence is the state with the input behind it.

    Args:
        ctx: Context of the node; its pool gets blocks of channels.
        x: Input ``(batch, channels, length)``.
        weight: Filters ``(channels, 1, taps)``.
        bias: ``(channels,)`` or None.
        state: The ``(taps - 1) · dilation`` steps before the input ``(batch, channels, steps)``; None is zeros.
        activation: ``"silu"`` or its other name ``"swish"``, or ``"none"``.
        dilation: Steps between two taps, at least 1.

    Returns:
        The result, of the input's shape, and the last ``(taps - 1) · dilation`` steps of the sequence; both new.

    Raises:
        InvalidArgument: The shapes do not fit, or the activation is another.
        LimitError: The state would pass the session's limits.
    """
    xp, where = ctx.xp, ctx.node.location
    if activation not in ("none", "silu", "swish"):
        raise InvalidArgument(
            f"activation is '{activation}'.", where=where, fix="Use 'none', 'silu' or its other name 'swish'."
        )
    channels = x.shape[1] if x.ndim == 3 else -1
    if weight.ndim != 3 or tuple(weight.shape[:2]) != (channels, 1) or weight.shape[2] < 1:
        raise shape_error(
            "The input must be (batch, channels, length), the weight (channels, 1, taps).",
            where,
            [x.shape, weight.shape],
        )
    carried = (x.shape[0], channels, (weight.shape[2] - 1) * dilation)
    if state is not None and tuple(state.shape) != carried:
        raise shape_error(f"The state must have the shape {list(carried)}.", where, [state.shape])
    if bias is not None and tuple(bias.shape) != (channels,):
        raise shape_error(f"The bias must have the shape {[channels]}.", where, [bias.shape])
    if carried[0] * carried[1] * carried[2] > LARGE:
        ctx.check_allocation(carried, x.dtype)
    taps = widened(xp, weight).reshape((channels, weight.shape[2]))
    offset = None if bias is None else widened(xp, bias).reshape((channels, 1))
    y = xp.empty(x.shape, x.dtype)
    if x.size:
        _convolve(ctx, x, taps, offset, state, activation != "none", dilation, y)
    return y, _last_steps(xp, x, state, carried)


def _convolve(
    ctx: KernelContext,
    x: Array,
    taps: Array,
    offset: Array | None,
    state: Array | None,
    gated: bool,
    dilation: int,
    y: Array,
) -> None:
    """Fill `y`, block by block."""
    xp = ctx.xp
    (batch, channels, length), count = x.shape, taps.shape[1]
    before = (count - 1) * dilation
    step = min(channels, max(1, _ELEMENTS // (length + before)))
    entries = min(batch, max(1, _ELEMENTS // ((length + before) * channels)))
    cuts = -(-channels // step)

    def block(b: slice, c: slice) -> None:
        part = x[b, c]
        sequence = xp.empty((*part.shape[:2], length + before), taps.dtype)
        sequence[..., :before] = 0 if state is None else state[b, c]
        sequence[..., before:] = part
        if length == 1:  # a step of decoding: one sum over the taps
            total = xp.sum(xp.multiply(sequence[..., ::dilation], taps[c]), axis=2, keepdims=True)
        else:
            total = xp.multiply(sequence[..., :length], taps[c, :1])
            for tap in range(1, count):
                first = tap * dilation
                total += xp.multiply(sequence[..., first : first + length], taps[c, tap : tap + 1])
        if offset is not None:
            total += offset[c]
        if gated:
            share = xp.exp(xp.negative(total))
            share += 1
            total /= share
        y[b, c] = total

    def blocks(start: int, stop: int) -> None:
        for index in range(start, stop):
            entry, cut = divmod(index, cuts)
            block(slice(entry * entries, (entry + 1) * entries), slice(cut * step, (cut + 1) * step))

    ctx.parallel_for(-(-batch // entries) * cuts, 1, blocks)


def _last_steps(xp: Any, x: Array, state: Array | None, shape: tuple[int, int, int]) -> Array:
    """The last steps of the state with `x` behind it."""
    length, count = x.shape[2], shape[2]
    present = xp.empty(shape, x.dtype)
    old = max(0, count - length)
    present[..., :old] = 0 if state is None else state[..., count - old :]
    present[..., old:] = x[..., length - (count - old) :]
    return present
