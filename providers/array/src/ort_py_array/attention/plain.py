"""Attention of few scores without anything special: the same steps as in `core`, without its blocks.

One position decoded at a time, or a short text, is over before blocks, limits and threads are sorted out. `core` asks
whether a call is such a one; nothing else should.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ort_py.contracts.graph_view import Array

__all__ = ["FEW", "fits", "plain_attention"]

FEW = 16384
"""Scores up to which one block is best: a quarter of a first-level cache."""


def fits(xp: Any, rule: Any, q: Array, k: Array, v: Array, masks: Sequence[Array]) -> bool:
    """Whether a call of few scores has nothing but a scale and an added mask, in float32, with a key head a query head.

    Args:
        xp: Array module.
        rule: The `core.Rule` of the call.
        q: Queries, which belong to the keys and values.
        k: Keys.
        v: Values.
        masks: Masks that broadcast to the scores.
    """
    if rule.left is not None or rule.right is not None or rule.stage is not None or rule.softcap:
        return False
    if rule.softmax_type is not None or rule.step_type is not None:
        return False
    if q.shape[1] != k.shape[1] or not 0 < q.shape[0] * q.shape[1] * q.shape[2] * k.shape[2] <= FEW:
        return False
    wide = xp.float32
    if q.dtype != wide or k.dtype != wide or v.dtype != wide or len(masks) > 1 or not v.shape[3] or not q.shape[3]:
        return False
    return not masks or (masks[0].dtype == wide and masks[0].shape[-1] in (1, k.shape[2]))


def plain_attention(xp: Any, q: Array, k: Array, v: Array, scale: float, masks: Sequence[Array], y: Array) -> None:
    """``softmax(q kᵀ · scale + mask) v`` into `y`; a row that sees no key gives zeros.

    Args:
        xp: Array module.
        q: Queries ``(batch, heads, rows, size)``.
        k: Keys ``(batch, heads, keys, size)``.
        v: Values ``(batch, heads, keys, value size)``.
        scale: Factor of the scores.
        masks: None, or one that is added to the scores; -inf hides.
        y: Result ``(batch, heads, rows, value size)``, any strides.
    """
    mask = masks[0] if masks else None
    scores = xp.matmul(xp.multiply(q, xp.float32(scale)), k.swapaxes(2, 3))
    if mask is not None:
        scores += mask
    top = scores.max(3, None, True)
    if mask is not None:
        if xp.any(xp.isnan(top)).item():
            # A score of inf or NaN plus -inf is NaN, and would make its row NaN although its key takes no part.
            xp.copyto(scores, -xp.inf, where=xp.equal(mask, -xp.inf))
            top = scores.max(3, None, True)
        # Where a row sees no key the greatest score is -inf, and -inf - -inf would be NaN.
        xp.maximum(top, xp.finfo(scores.dtype).min, out=top)
    scores -= top
    xp.exp(scores, out=scores)
    total = scores.sum(3, None, None, True)
    if mask is not None:
        total += xp.equal(total, 0)  # 0 / 1 for rows that see no key
    xp.divide(xp.matmul(scores, v), total, out=y)
