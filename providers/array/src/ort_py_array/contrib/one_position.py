"""GroupQueryAttention of one new position of one sequence: a word that a language model computes, in few calls.

Such a call takes longer to find its way through the general kernel than to compute. Queries and keys are turned
together, as rows of one array. It gives up where a call is not as plain as nearly all are, having changed nothing but
rows that the general kernel writes too; that then does the call, or says what is wrong. For arrays on the host.
"""

from __future__ import annotations

import numpy as np  # dtypes only

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py_array.attention.one_row import one_row
from ort_py_array.checks import host_ints

__all__ = ["one_position"]

_WIDE = np.dtype(np.float32)


def one_position(
    ctx: KernelContext,
    scale: float | None,
    heads: int,
    groups: int,
    query: Array,
    key: Array | None,
    value: Array | None,
    past_key: Array,
    past_value: Array,
    seqlens_k: Array,
    total: Array,
    angles: tuple[Array, Array] | None,
    *,
    interleaved: bool,
    over: bool,
    window: int,
) -> tuple[Array, Array, Array] | None:
    """Result, keys and values in float32; None where the call is another one, or has scores of unusual size.

    Args:
        ctx: Context of the node.
        scale: Factor of the scores; None for the root of the size of heads, divided into 1.
        heads, groups: Heads of queries, and of keys and values.
        query: ``(1, 1, heads · size)``, or with keys and values behind them.
        key, value: ``(1, 1, groups · size)``; None where the query has them.
        past_key, past_value: ``(1, groups, rows, size)``.
        seqlens_k: The position, as an array.
        total: The number of positions, as an array.
        angles: Caches of cosines and sines ``(positions, pairs)`` of the positions; None where heads are not turned.
        interleaved: Whether a pair to be turned is two neighbours.
        over: Whether the new rows are written into the pasts, which are the results.
        window: Keys that are seen, the new one included; all where it is not positive.
    """
    xp = ctx.xp
    if query.ndim != 3 or query.shape[:2] != (1, 1) or past_key.ndim != 4 or past_key.shape != past_value.shape:
        return None
    last, count = host_ints(seqlens_k.reshape(-1)), host_ints(total.reshape(-1))
    if not last or not count or not len(last) == len(count) == 1 or last[0] + 1 != count[0]:
        return None
    place, held, size = last[0], past_key.shape[2], past_key.shape[3]
    if place < 1 or past_key.shape[:2] != (1, groups) or not size or 0 < window <= place:
        return None
    if not query.dtype == past_key.dtype == past_value.dtype == _WIDE:
        return None
    if key is None or value is None:
        columns = (heads + 2 * groups) * size
        if key is not value or query.shape[2] != columns:
            return None
        turned, v = query.reshape((heads + 2 * groups, size)), query[:, :, (heads + groups) * size :]
    else:
        if query.shape[2] != heads * size or key.shape != (1, 1, groups * size) or value.shape != key.shape:
            return None
        if not key.dtype == value.dtype == _WIDE:
            return None
        turned, v = (query, key), value
    if angles is not None:
        cos, sin = angles
        if cos.ndim != 2 or cos.shape != sin.shape or 2 * cos.shape[1] > size or not place < cos.shape[0]:
            return None
        if not cos.dtype == sin.dtype == _WIDE:
            return None
    joined = xp.empty((heads + groups, size), _WIDE)
    if isinstance(turned, tuple):
        joined[:heads] = query.reshape((heads, size))
        joined[heads:] = turned[1].reshape((groups, size))
    else:
        joined[...] = turned[: heads + groups]
    if angles is not None:
        _turn(ctx, joined, cos[place], sin[place], interleaved=interleaved)
    q = joined[:heads].reshape((1, heads, 1, size))
    k, v = joined[heads:].reshape((1, groups, 1, size)), v.reshape((1, groups, 1, size))
    if held == place:
        found = one_row(ctx, scale, heads, groups, q, k, v, None, past_key, past_value)
    elif over and held > place:
        past_key[:, :, place : place + 1] = k
        past_value[:, :, place : place + 1] = v
        k, v = past_key[:, :, : place + 1], past_value[:, :, : place + 1]
        found = one_row(ctx, scale, heads, groups, q, k, v, None, None, None)
    else:
        return None
    if found is None:
        return None
    y = found[0].reshape((1, 1, heads * size))
    return (y, found[1], found[2]) if held == place else (y, past_key, past_value)


def _turn(ctx: KernelContext, x: Array, cos: Array, sin: Array, *, interleaved: bool) -> None:
    """Turn the first elements of the rows of ``(heads, size)``, in place, by the angles ``(pairs,)``."""
    xp = ctx.xp
    pairs = cos.shape[0]
    part = x[:, : 2 * pairs]
    if interleaved:  # two neighbours are a complex number in memory
        angle = xp.empty((pairs, 2), _WIDE)
        angle[:, 0], angle[:, 1] = cos, sin
        numbers = part.view(xp.complex64)
        numbers *= angle.reshape(-1).view(xp.complex64)
        return
    angle = xp.empty((2, 2, pairs), _WIDE)
    angle[0] = cos
    xp.negative(sin, out=angle[1, 0])
    angle[1, 1] = sin
    halves = part.reshape((x.shape[0], 2, pairs))  # a view: only the last axis is split
    across = halves[:, ::-1] * angle[1]
    halves *= angle[0]
    halves += across
