"""Attention of one query row with the keys before it: the word that a decoder computes, in few calls.

Such a call takes longer to find its way than to compute, so everything is checked and done in one function. It gives up
where a call is not as plain as nearly all are; `core` then does it, or says what is wrong. A row lies in memory alike
before and after its heads are split, so nothing is transposed. For arrays on the host, as it looks at sums. Knows no
operator.
"""

from __future__ import annotations

from math import inf, sqrt

import numpy as np  # dtypes only

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py_array.attention.plain import FEW
from ort_py_array.checks import LARGE

__all__ = ["one_row"]

_WIDE, _BOOL = np.dtype(np.float32), np.dtype(np.bool_)

_LEAST, _MOST = 1e-10, 1e30
"""Bounds of a sum of exponentials that needs no maximum to be subtracted from the scores first: no exponential has
overflowed, none that counts has vanished, and the row sees a key."""


def one_row(
    ctx: KernelContext,
    scale: float | None,
    heads: int,
    groups: int,
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None,
    past_key: Array | None,
    past_value: Array | None,
) -> tuple[Array, Array, Array] | None:
    """``softmax(q kᵀ · scale + mask) v`` in float32 for one row of queries that sees all keys.

    Args:
        ctx: Context of the node.
        scale: Factor of the scores; None for the root of the size of heads, divided into 1.
        heads: Heads of queries.
        groups: Heads of keys and values.
        q: Queries ``(batch, 1, heads · size)`` or ``(batch, heads, 1, size)``.
        k: New keys, of one row in the first form, of any number in the second one.
        v: New values in the form of the keys.
        mask: Broadcasts to ``(batch, heads, 1, keys)``; numbers are added to the scores, False hides.
        past_key: Keys before the new ones ``(batch, groups, rows, size)``.
        past_value: The same of values.

    Returns:
        The result ``(batch, groups, heads / groups, value size)``, all keys and all values; None where the call is
        another one, or has scores of unusual size.

    Raises:
        LimitError: The present would pass the session's limits.
    """
    xp = ctx.xp
    batch, size = q.shape[0], q.shape[-1]
    if q.ndim == 3:
        size //= heads or 1
    if not groups or heads % groups or not size or q.shape not in ((batch, 1, heads * size), (batch, heads, 1, size)):
        return None
    if k.ndim == v.ndim == 3 and k.shape[1] == v.shape[1] == 1:
        values = v.shape[2] // groups
        if k.shape[2] != groups * size or v.shape[2] != groups * values or not k.shape[0] == v.shape[0] == batch:
            return None
        k, v = k.reshape((batch, groups, 1, size)), v.reshape((batch, groups, 1, values))
    keys, values = (k.shape[2], v.shape[-1]) if k.ndim == 4 else (0, 0)
    if not values or k.shape != (batch, groups, keys, size) or v.shape != (batch, groups, keys, values):
        return None
    if q.dtype != _WIDE or k.dtype != _WIDE or v.dtype != _WIDE:
        return None
    rows = 0
    if past_key is not None and past_value is not None:
        rows = past_key.shape[2] if past_key.ndim == 4 else -1
        if past_key.shape != (batch, groups, rows, size) or past_value.shape != (batch, groups, rows, values):
            return None
        keys += rows
        if batch * groups * keys * max(size, values) > LARGE:
            ctx.check_allocation((batch, groups, keys, max(size, values)), _WIDE)
    elif past_key is not past_value:
        return None
    if not 0 < batch * heads * keys <= FEW or batch * heads * values > LARGE:
        return None
    if mask is not None:
        a, b, c, d = (1,) * (4 - mask.ndim) + mask.shape if mask.ndim < 5 else (0,) * 4
        if d != keys or c != 1 or b not in (1, heads) or a not in (1, batch) or mask.dtype not in (_WIDE, _BOOL):
            return None
        if b != 1:
            mask = mask.reshape((a, groups, heads // groups, keys))
    if past_key is not None:
        k, v = xp.concatenate((past_key, k), axis=2), xp.concatenate((past_value, v), axis=2)
    q = xp.multiply(q, 1 / sqrt(size) if scale is None else scale).reshape((batch, groups, heads // groups, size))
    scores = xp.matmul(q, k.swapaxes(2, 3))
    if mask is not None and mask.dtype == _BOOL:
        xp.copyto(scores, -inf, where=xp.logical_not(mask))
    elif mask is not None:
        scores += mask
    xp.exp(scores, out=scores)
    total = scores.sum(3, None, None, True)
    sums = total.reshape(-1).tolist()
    if not (min(sums) > _LEAST and sum(sums) < _MOST):  # neither for NaN, which the second comparison finds
        return None
    scores /= total
    return xp.matmul(scores, v), k, v
