"""LinearAttention-27, and `linear_attention`, which the operator of com.microsoft shares.

Checks and unpacks the inputs and hands blocks of heads to `linear_chunks`. Sums are float32, whatever the type of the
inputs and of the state; results are rounded once.
"""

from __future__ import annotations

import math

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext, kernel
from ort_py.errors import InvalidArgument
from ort_py_array.attention.core import split_heads
from ort_py_array.attention.linear_chunks import recurrence, step
from ort_py_array.checks import LARGE, shape_error

__all__ = ["linear_attention"]

_ELEMENTS = 1 << 18
"""Numbers that a block of heads reads and keeps: a megabyte, of which its chunks use a part at a time."""

_RULES = {"linear": (False, False), "gated": (True, False), "delta": (False, True), "gated_delta": (True, True)}
"""Whether a rule decays the state, and whether it corrects what the state holds for a key."""


@kernel("LinearAttention", since=27, outputs=2)
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
) -> tuple[Array, Array]:
    """LinearAttention-27: what queries read of a state that each step decays, corrects and adds to.

    Inputs are packed ``(batch, time, heads · size)``, the state is ``(batch, key heads, size, value size)``. Each key
    head serves ``q_num_heads / kv_num_heads`` query heads. `decay` holds logarithms, one per head or one per element of
    a key; `beta` one rate a head or one for all. `chunk_size` is a hint that does not change the result.

    Returns:
        ``(batch, time, query heads · value size)`` in the type of `query`, and the state after the last step in the
        type of `past_state`, or of `query` where there is none.

    Raises:
        InvalidArgument: An unknown rule, an input that the rule lacks or has too many, or shapes that do not fit.
        LimitError: The result or the state would pass the session's limits.
    """
    xp, where = ctx.xp, ctx.node.location
    _check_rule(ctx, update_rule, decay, beta)
    if kv_num_heads < 1 or q_num_heads < 1 or q_num_heads % kv_num_heads:
        raise InvalidArgument(
            f"q_num_heads is {q_num_heads} and kv_num_heads {kv_num_heads}.",
            where=where,
            why="each key head serves an equal number of query heads",
            fix="q_num_heads must be a positive multiple of kv_num_heads.",
        )
    q = split_heads(ctx, query, q_num_heads)
    k, v = (split_heads(ctx, x, kv_num_heads) for x in (key, value))
    batch, heads, time, size = k.shape
    value_size, group = v.shape[3], q_num_heads // kv_num_heads
    if q.shape != (batch, q_num_heads, time, size) or v.shape[:3] != k.shape[:3]:
        raise shape_error("Query, key and value do not belong together.", where, [query.shape, key.shape, value.shape])
    carried = (batch, heads, size, value_size)
    if past_state is not None and tuple(past_state.shape) != carried:
        raise shape_error(f"past_state must have the shape {list(carried)}.", where, [past_state.shape])
    g = None if decay is None else _by_head(ctx, "decay", decay, (batch, time), heads, (heads, heads * size))
    rate = None if beta is None else _by_head(ctx, "beta", beta, (batch, time), heads, (heads, 1))
    for shape in ((batch, time, q_num_heads * value_size), carried):
        if math.prod(shape) > LARGE:
            ctx.check_allocation(shape, xp.float32)
    y = xp.empty((batch, time, heads, group, value_size), query.dtype)
    state = xp.empty(carried, query.dtype if past_state is None else past_state.dtype)
    if not size or not value_size:  # scores are sums of nothing, and there is nothing to carry on
        return xp.zeros((batch, time, q_num_heads * value_size), query.dtype), state
    grouped = q.reshape((batch, heads, group, time, size))
    factor = scale or 1.0 / math.sqrt(size or 1)

    def block(b: slice, h: slice) -> None:
        shared = rate is not None and rate.shape[1] == 1
        operands = (grouped[b, h], k[b, h], v[b, h])
        past = None if past_state is None else past_state[b, h]
        fading = None if g is None else g[b, h]
        updating = None if rate is None else rate[b] if shared else rate[b, h]
        if time == 1:
            last = state[b, h] if state.dtype == xp.float32 else xp.empty(state[b, h].shape, xp.float32)
            found = step(xp, *operands, past, fading, updating, last)
        else:
            first = xp.zeros(state[b, h].shape, xp.float32) if past is None else past.astype(xp.float32, copy=False)
            found, last = recurrence(xp, *operands, first, fading, updating)
        if time != 1 or state.dtype != xp.float32:
            state[b, h] = last
        found *= factor
        y[b, :, h] = xp.moveaxis(found, 3, 1)

    own = (group + 2) * time * (size + value_size) + size * value_size
    head_step = min(heads, max(1, _ELEMENTS // max(1, own)))
    batch_step = min(batch, max(1, _ELEMENTS // max(1, own * heads)))
    cuts = -(-heads // head_step)

    def blocks(start: int, stop: int) -> None:
        for index in range(start, stop):
            entry, cut = divmod(index, cuts)
            block(
                slice(entry * batch_step, (entry + 1) * batch_step),
                slice(cut * head_step, (cut + 1) * head_step),
            )

    if batch:
        ctx.parallel_for(-(-batch // batch_step) * cuts, 1, blocks)
    return y.reshape((batch, time, q_num_heads * value_size)), state


def _check_rule(ctx: KernelContext, rule: str, decay: Array | None, beta: Array | None) -> None:
    where = ctx.node.location
    if rule not in _RULES:
        raise InvalidArgument(
            f"update_rule is '{rule}'.", where=where, fix=f"Use one of {', '.join(map(repr, _RULES))}."
        )
    for name, given, wanted in zip(("decay", "beta"), (decay, beta), _RULES[rule], strict=True):
        if (given is not None) != wanted:
            raise InvalidArgument(
                f"The rule '{rule}' {'needs' if wanted else 'has no'} input '{name}'.",
                where=where,
                fix=f"{'Connect' if wanted else 'Remove'} the input, or use another update_rule.",
            )


def _by_head(
    ctx: KernelContext, name: str, x: Array, lead: tuple[int, int], heads: int, sizes: tuple[int, int]
) -> Array:
    """A packed input as ``(batch, heads or 1, time, size or 1)``."""
    if x.ndim != 3 or tuple(x.shape[:2]) != lead or x.shape[2] not in sizes:
        wanted = " or ".join(str([*lead, size]) for size in sorted(set(sizes)))
        raise shape_error(f"{name} must have the shape {wanted}.", ctx.node.location, [x.shape])
    return split_heads(ctx, x, 1 if x.shape[2] == 1 else heads)
