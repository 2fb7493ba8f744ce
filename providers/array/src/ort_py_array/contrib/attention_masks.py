"""The forms in which operators of com.microsoft say which keys are padding, made into one: a mask to be added.

Lengths, ends and starts, zeros and ones by key, by query and key, or by position in the longest sequence. Hidden keys
get the node's `mask_filter_value`, not -inf: a query all of whose keys are hidden still weighs them by their scores.
Comes before `attention` and `multi_head_attention`; knows no heads.
"""

from __future__ import annotations

from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py.errors import InvalidArgument

__all__ = ["filter_value", "padding_mask"]

_FORMS = (
    "(batch) lengths, (2 · batch) ends and starts, (3 · batch + 2) whose first are lengths, (batch, keys), "
    "(batch, queries, keys), or (batch, 1, longest, longest)"
)


def filter_value(ctx: KernelContext) -> float:
    """The summand for the score of a hidden key."""
    return float(ctx.node.attributes.get("mask_filter_value", -10000.0))


def padding_mask(ctx: KernelContext, mask: Array | None, batch: int, rows: int, past: int, keys: int) -> Array | None:
    """A mask of any form as float32 numbers to be added to scores.

    Args:
        ctx: Context of the node.
        mask: int32 of one of the forms; positive entries of a raw mask are visible keys.
        batch: Batch entries.
        rows: Queries.
        past: Keys before the first query.
        keys: All keys.

    Returns:
        ``(batch, 1, 1 or rows, keys)``; None where nothing is hidden.

    Raises:
        InvalidArgument: The shape is of no form that fits.
    """
    if mask is None or (mask.ndim == 2 and mask.shape[1] == 1 != keys and mask.shape[0] in (1, batch)):
        return None  # one entry for all keys of a sequence changes no softmax
    visible = _visible(ctx.xp, mask, batch, rows, past, keys)
    if visible is None:
        raise InvalidArgument(
            f"The mask of keys has shape {list(mask.shape)}.",
            where=ctx.node.location,
            why=f"there are {batch} batch entries, {rows} queries and {keys} keys",
            fix=f"Use one of the forms {_FORMS}.",
        )
    return ctx.xp.where(visible, ctx.xp.float32(0), ctx.xp.float32(filter_value(ctx)))


def _visible(xp: Any, mask: Array, batch: int, rows: int, past: int, keys: int) -> Array | None:
    shape = tuple(mask.shape)
    if len(shape) == 1:
        if shape[0] not in (batch, 2 * batch, 3 * batch + 2):
            return None
        positions = xp.arange(keys, dtype=xp.int32)
        seen = xp.less(positions, mask[:batch].reshape((batch, 1, 1, 1)))
        if shape[0] == 2 * batch and batch:
            seen = xp.logical_and(seen, xp.greater_equal(positions, mask[batch:].reshape((batch, 1, 1, 1))))
        return seen
    if shape == (batch, keys):
        return xp.greater(mask, 0).reshape((batch, 1, 1, keys))
    if shape == (batch, keys - past):  # of the new keys only: those of the past are none of its business
        seen = xp.ones((batch, 1, 1, keys), dtype=xp.bool_)
        seen[..., past:] = xp.greater(mask, 0).reshape((batch, 1, 1, keys - past))
        return seen
    if shape == (batch, rows, keys):
        return xp.greater(mask, 0).reshape((batch, 1, rows, keys))
    if len(shape) == 4 and shape[:2] == (batch, 1) and shape[2] == shape[3] >= max(keys, past + rows):
        return xp.greater(mask[:, :, past : past + rows, :keys], 0)
    return None
