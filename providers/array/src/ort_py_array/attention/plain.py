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

_WIDE, _BOOL = np.dtype(np.float32), np.dtype(np.bool_)


def fits(rule: Any, q: Array, k: Array, v: Array, masks: Sequence[Array], offset: int) -> bool:
    """Return whether a call of few scores has nothing but a scale and one mask, in float32.

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
    _, groups, keys, values = v.shape
    if k.shape != (batch, groups, keys, size) or v.shape[0] != batch or not groups or heads % groups:
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
    if len(masks) > 1 or mask.ndim > 4 or mask.dtype not in (_WIDE, _BOOL):
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
        k: Keys ``(batch, groups, keys, size)``; the heads that read the same keys follow each other.
        v: Values ``(batch, groups, keys, value size)``.
        masks: None, or one: numbers are added to the scores, where -inf hides, and False hides.
        packed: Return ``(batch, rows, heads · value size)`` instead of ``(batch, heads, rows, value size)``.

    Raises:
        LimitError: The result would pass the session's limits.
    """
    xp = ctx.xp
    batch, heads, rows, size = q.shape
    _, groups, keys, values = v.shape
    if batch * heads * rows * values > LARGE:
        ctx.check_allocation((batch, heads, rows, values), q.dtype)
    q = xp.multiply(q, scale)
    if groups != heads:  # the heads that read the same keys are rows of one product
        q = q.reshape((batch, groups, heads // groups * rows, size))
    scores = xp.matmul(q, k.swapaxes(2, 3))
    shape = scores.shape
    if groups != heads:
        scores = scores.reshape((batch, heads, rows, keys))
    mask = masks[0] if masks else None
    adds = mask is not None and mask.dtype != _BOOL
    if mask is None:
        seen, top = True, scores.max(3, None, True)
    else:
        if adds:
            scores += mask
        else:
            xp.copyto(scores, -inf, where=xp.logical_not(mask))
        top = scores.max(3, None, True)
        seen = top.min().item() > -inf  # neither for NaN
        if not seen:
            if adds and xp.any(xp.isnan(top)).item():
                # A score of inf or NaN plus -inf is NaN, and would make its row NaN although its key takes no part.
                xp.copyto(scores, -inf, where=xp.equal(mask, -inf))
                top = scores.max(3, None, True)
            # Zeros are for rows that see no key. One whose scores overflowed has no weights: they are NaN.
            sees = xp.greater(mask.max(-1, None, True), -inf if adds else False)
            top = xp.where(xp.logical_and(xp.equal(top, -inf), sees), xp.nan, top)
            # Where a row sees no key the greatest score is -inf, and -inf - -inf would be NaN.
            xp.maximum(top, xp.finfo(scores.dtype).min, out=top)
    scores -= top
    xp.exp(scores, out=scores)
    total = scores.sum(3, None, None, True)
    if not seen:
        total += xp.equal(total, 0)  # 0 / 1 for rows that see no key
    scores /= total  # before the product, whose sums would overflow where values are nearly as large as they can be
    y = xp.matmul(scores.reshape(shape), v).reshape((batch, heads, rows, values))
    return xp.ascontiguousarray(y.swapaxes(1, 2)).reshape((batch, rows, heads * values)) if packed else y
