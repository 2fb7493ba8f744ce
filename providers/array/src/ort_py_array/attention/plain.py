"""Attention of few scores without anything special: the same steps as in `core`, without its blocks.

One position decoded at a time, or a short text, is over before blocks, limits and threads are sorted out. `core` asks
whether a call is such a one; nothing else should.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np  # dtypes only

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py_array.checks import LARGE

__all__ = ["FEW", "fits", "plain_attention"]

FEW = 16384
"""Scores up to which one block is best: a quarter of a first-level cache."""

_WIDE = np.dtype(np.float32)


def fits(rule: Any, q: Array, k: Array, v: Array, masks: Sequence[Array], offset: int) -> bool:
    """Return whether a call of few scores has nothing but a scale and an added mask, in float32, with a key head a
    query head.

    Operands that do not belong together do not fit either: the general way says what is wrong with them.

    Args:
        rule: The `core.Rule` of the call.
        q: Queries.
        k: Keys.
        v: Values.
        masks: Masks.
        offset: Position of the first query.
    """
    if not q.ndim == k.ndim == v.ndim == 4:
        return False
    batch, heads, rows, size = q.shape
    keys, values = k.shape[2], v.shape[3]
    if k.shape != (batch, heads, keys, size) or v.shape != (batch, heads, keys, values):
        return False
    if not 0 < batch * heads * rows * keys <= FEW or not size or not values:
        return False
    # A frontier behind the last key hides none.
    if rule.left is not None or (rule.right is not None and offset + rule.right + 1 < keys):
        return False
    if rule.softcap or rule.stage is not None or rule.softmax_type is not None or rule.step_type is not None:
        return False
    if q.dtype != _WIDE or k.dtype != _WIDE or v.dtype != _WIDE:
        return False
    if not masks:
        return True
    mask = masks[0]
    if len(masks) > 1 or mask.ndim > 4 or mask.dtype != _WIDE:
        return False
    a, b, c, d = (1,) * (4 - mask.ndim) + mask.shape
    return a in (1, batch) and b in (1, heads) and c in (1, rows) and d in (1, keys)


def plain_attention(
    ctx: KernelContext, scale: float, q: Array, k: Array, v: Array, masks: Sequence[Array], packed: bool
) -> Array:
    """``softmax(q kᵀ · scale + mask) v``; a row that sees no key gives zeros.

    Args:
        ctx: Context of the node.
        scale: Factor of the scores.
        q: Queries ``(batch, heads, rows, size)``.
        k: Keys ``(batch, heads, keys, size)``.
        v: Values ``(batch, heads, keys, value size)``.
        masks: None, or one that is added to the scores; -inf hides.
        packed: Return ``(batch, rows, heads · value size)`` instead of ``(batch, heads, rows, value size)``.

    Raises:
        LimitError: The result would pass the session's limits.
    """
    xp = ctx.xp
    batch, heads, rows, _ = q.shape
    values = v.shape[3]
    shape = (batch, rows, heads, values) if packed else (batch, heads, rows, values)
    if batch * heads * rows * values > LARGE:
        ctx.check_allocation(shape, q.dtype)
    y = xp.empty(shape, q.dtype)
    scores = xp.matmul(xp.multiply(q, scale), k.swapaxes(2, 3))
    seen = True
    if masks:
        scores += masks[0]
    top = scores.max(3, None, True)
    if masks:
        seen = top.min().item() > -inf  # neither for NaN
        if not seen:
            if xp.any(xp.isnan(top)).item():
                # A score of inf or NaN plus -inf is NaN, and would make its row NaN although its key takes no part.
                xp.copyto(scores, -inf, where=xp.equal(masks[0], -inf))
                top = scores.max(3, None, True)
            # Zeros are for rows that see no key. One whose scores overflowed has no weights: they are NaN.
            sees = xp.greater(masks[0].max(-1, None, True), -inf)
            top = xp.where(xp.logical_and(xp.equal(top, -inf), sees), xp.nan, top)
            # Where a row sees no key the greatest score is -inf, and -inf - -inf would be NaN.
            xp.maximum(top, xp.finfo(scores.dtype).min, out=top)
    scores -= top
    xp.exp(scores, out=scores)
    total = scores.sum(3, None, None, True)
    if not seen:
        total += xp.equal(total, 0)  # 0 / 1 for rows that see no key
    xp.divide(xp.matmul(scores, v), total, out=y.swapaxes(1, 2) if packed else y)
    return y.reshape((batch, rows, heads * values)) if packed else y
