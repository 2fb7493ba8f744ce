"""LinearAttention and CausalConvWithState of com.microsoft: ONNX's operators of the same names, and a little more.

More query heads than key heads or fewer, keys shared by values, filters with gaps, channels last, and the states of the
last steps, from which a decoder that took back some of them can go on. The work is that of `attention`.
"""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext, kernel
from ort_py.errors import InvalidArgument
from ort_py_array.attention import linear_attention as library
from ort_py_array.attention.causal_convolution import causal_convolution
from ort_py_array.checks import shape_error
from ort_py_array.contrib.schemas.notation import DOMAIN

__all__ = ["causal_conv_with_state", "linear_attention"]

_LONGEST = 8


def _check_window(ctx: KernelContext, window: int, past: Array | None, rank: int) -> None:
    """Check that a window of states is one that exists, and the past has it as its first axis.

    Raises:
        InvalidArgument: The window is out of range, or the first axis of the past differs from it.
    """
    if not 0 <= window <= _LONGEST:
        raise InvalidArgument(
            f"state_window is {window}.", where=ctx.node.location, fix=f"Use a number in [0, {_LONGEST}]."
        )
    if window and past is not None and (past.ndim != rank + 1 or past.shape[0] != window):
        raise shape_error(f"past_state must hold {window} states.", ctx.node.location, [past.shape])


@kernel("LinearAttention", domain=DOMAIN, since=1, outputs=2)
def linear_attention(
    ctx: KernelContext,
    query: Array,
    key: Array,
    value: Array,
    past_state: Array | None = None,
    decay: Array | None = None,
    beta: Array | None = None,
    *,
    q_num_heads: int,
    kv_num_heads: int,
    scale: float = 0.0,
    update_rule: str = "gated_delta",
    chunk_size: int = 64,
    state_window: int = 0,
) -> tuple[Array, Array]:
    """com.microsoft.LinearAttention-1: as ONNX's, also with more key than query heads and keys that values share.

    With `state_window` the states have a first axis of the last so many steps, right-aligned; the past is its last
    entry, and entries of no step are 0. Inputs that the rule does not use are ignored.

    Raises:
        InvalidArgument: Heads, shapes or a window that do not fit, and what ONNX's operator refuses.
        LimitError: The result or the state would pass the session's limits.
    """
    xp = ctx.xp
    _check_window(ctx, state_window, past_state, 4)
    query, key, size = _spread(ctx, query, key, value, q_num_heads, kv_num_heads)
    decay = decay if update_rule in ("gated", "gated_delta") else None
    beta = beta if update_rule in ("delta", "gated_delta") else None
    attributes: dict[str, Any] = {
        "q_num_heads": max(q_num_heads, kv_num_heads),
        "kv_num_heads": kv_num_heads,
        "scale": scale,
        "update_rule": update_rule,
        "chunk_size": chunk_size,
    }
    if not state_window:
        results: tuple[Array, Array] = library.linear_attention(
            ctx, query, key, value, past_state, decay, beta, **attributes
        )
        return results
    for name, rate in (("decay", decay), ("beta", beta)):
        if rate is not None and rate.ndim != 3:
            raise shape_error(f"{name} must be (batch, time, columns).", ctx.node.location, [rate.shape])
    carried = (value.shape[0], kv_num_heads, size, value.shape[2] // kv_num_heads)
    ctx.check_allocation((state_window, *carried), xp.float32)
    state = xp.zeros(carried, xp.float32) if past_state is None else past_state[-1].astype(xp.float32)
    states = xp.zeros((state_window, *carried), query.dtype if past_state is None else past_state.dtype)
    y = xp.empty((*query.shape[:2], attributes["q_num_heads"] * carried[3]), query.dtype)
    time = query.shape[1]
    cuts = [0, *range(max(1, time - state_window + 1), time + 1)]
    for first, last in pairwise(cuts):
        at = slice(first, last)
        rates = [None if x is None else x[:, at] for x in (decay, beta)]
        y[:, at], state = library.linear_attention(
            ctx, query[:, at], key[:, at], value[:, at], state, *rates, **attributes
        )
        states[state_window - 1 - (time - last)] = state
    return y, states


def _spread(
    ctx: KernelContext, query: Array, key: Array, value: Array, heads: int, value_heads: int
) -> tuple[Array, Array, int]:
    """Queries with at least one head for each of the values', keys with one for each, and the size of these heads."""
    size = query.shape[2] // heads if query.ndim == 3 and heads > 0 else 0
    key_heads = key.shape[2] // size if key.ndim == 3 and size else 0
    fits = (
        key_heads > 0
        and value_heads > 0
        and value.ndim == 3
        and (heads * size, key_heads * size) == (query.shape[2], key.shape[2])
        and value.shape[2] % value_heads == value_heads % key_heads == 0
        and max(heads, value_heads) % min(heads, value_heads) == 0
    )
    if not fits:
        raise shape_error(
            f"Inputs (batch, time, heads · size) with {heads} query and {value_heads} value heads do not fit.",
            ctx.node.location,
            [query.shape, key.shape, value.shape],
        )
    if heads < value_heads:
        query = _repeated(ctx.xp, query, heads, value_heads)
    if key_heads < value_heads:
        key = _repeated(ctx.xp, key, key_heads, value_heads)
    return query, key, size


def _repeated(xp: Any, x: Array, heads: int, times: int) -> Array:
    """Packed heads, each as often as makes `times` heads in all."""
    split = x.reshape((x.shape[0], x.shape[1], heads, x.shape[2] // heads))
    return xp.repeat(split, times // heads, axis=2).reshape((x.shape[0], x.shape[1], x.shape[2] // heads * times))


@kernel("CausalConvWithState", domain=DOMAIN, since=1, outputs=2, strided=True)
def causal_conv_with_state(
    ctx: KernelContext,
    x: Array,
    weight: Array,
    bias: Array | None = None,
    past_state: Array | None = None,
    *,
    activation: str = "none",
    channels_last: int = 0,
    dilation: int = 1,
    ndim: int = 1,
    state_window: int = 0,
) -> tuple[Array, Array]:
    """com.microsoft.CausalConvWithState-1: as ONNX's, also with gaps between taps and channels last.

    The input is ``(batch, channels, length)``, or ``(batch, length, ...)`` with channels on all axes behind; a state
    has ``(taps - 1) · dilation`` steps in place of `length`. `state_window` is as in `linear_attention`.

    Raises:
        InvalidArgument: More than one spatial axis, which nothing defines a padding for, and shapes that do not fit.
        LimitError: The state would pass the session's limits.
    """
    xp, where = ctx.xp, ctx.node.location
    _check_window(ctx, state_window, past_state, x.ndim)
    if ndim != 1 or dilation < 1:
        raise InvalidArgument(
            f"ndim is {ndim} and dilation {dilation}.",
            where=where,
            why="the padding of further spatial axes is nowhere defined",
            fix="Use ndim 1 and a positive dilation.",
        )
    shape = tuple(x.shape)
    if channels_last and x.ndim < 3:
        raise shape_error("With channels last the input has at least three axes.", where, [shape])
    past = past_state[-1] if state_window and past_state is not None else past_state
    if channels_last:
        if past is not None and (past.ndim != x.ndim or tuple(past.shape[2:]) != shape[2:]):
            raise shape_error("past_state must have the channels of the input.", where, [past.shape, shape])
        x, past = _first(x), None if past is None else _first(past)
    y, state = causal_convolution(ctx, x, weight, bias, past, activation, dilation)
    if state_window:
        state = _states(ctx, x, past, state_window, state.shape)
    if not channels_last:
        return y, state
    lead = state.shape[:-2]
    state = xp.ascontiguousarray(state.swapaxes(-1, -2)).reshape((*lead, state.shape[-1], *shape[2:]))
    return xp.ascontiguousarray(y.swapaxes(1, 2)).reshape(shape), state


def _first(x: Array) -> Array:
    """Channels from all last axes to the second."""
    return x.reshape((x.shape[0], x.shape[1], prod(x.shape[2:]))).swapaxes(1, 2)


def _states(ctx: KernelContext, x: Array, past: Array | None, window: int, shape: tuple[int, ...]) -> Array:
    """The states after each of the last steps, right-aligned, zeros where there was no step."""
    xp = ctx.xp
    ctx.check_allocation((window, *shape), x.dtype)
    states = xp.zeros((window, *shape), x.dtype)
    steps, length = shape[2], x.shape[2]
    count = min(window, length)
    begin = length - count + 1  # of what the last states hold together, in the past with the input behind it
    tail = x[..., max(0, begin - steps) :]
    if begin < steps:
        before = xp.zeros(shape, x.dtype) if past is None else past
        tail = xp.concatenate((before[..., begin:], tail), axis=2)
    for index in range(count):
        states[window - count + index] = tail[..., index : index + steps]
    return states
