"""Scaled dot-product attention over blocks of (batch entry, key head, query row), written once for every operator.

``softmax(cap(scale · q kᵀ) + bias) v`` with grouped heads, masks, a causal frontier, windows, lengths and sinks. The
scores of a block stay near the second-level cache; the whole matrix exists only where it is an output. Keys that no
row of a block sees are not multiplied. Comes after `visibility`; knows no operator and no layout of a cache.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py.errors import Location
from ort_py.lazy_dataclass import dataclass
from ort_py_array.attention.plain import fits, plain_attention
from ort_py_array.attention.visibility import Visibility
from ort_py_array.checks import LARGE, shape_error
from ort_py_array.half_floats import from_half, through_half
from ort_py_array.parts import LARGE_PART, assign
from ort_py_array.precision import is_narrow, widened

__all__ = ["Rule", "Stage", "attend", "check_operands", "expect_entries", "grown", "split_heads"]

Stage: TypeAlias = Literal["raw", "capped", "biased", "probabilities"]
"""A point of the computation whose matrix can be asked for: after the product, the cap, all masks, the softmax."""

_SCORES = 131072
"""Scores of a block: half a megabyte of float32, which with the block's keys and queries fits a second-level cache."""

_ROWS = 16
"""Least rows of a block's product where there are so many: with fewer, reading all keys for each block costs more."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Decisions made when a node is bound.

    Attributes:
        scale: Factor on the product of queries and keys.
        left: Keys before its own position that a query sees; None is all.
        right: Keys after it; 0 is causal attention, None is all.
        softcap: Scores become ``softcap · tanh(score / softcap)``; 0 leaves them.
        softmax_type: dtype that scores are rounded to before the softmax and probabilities after it; None is the type
            that everything is computed in. A narrow one rounds each step of the softmax.
        stage: The matrix to return besides the result, None for none.
        step_type: dtype that each step of the computation is rounded to, where a specification defines it as a chain of
            operators of that type; None rounds the result alone.
    """

    scale: float
    left: int | None = None
    right: int | None = None
    softcap: float = 0.0
    softmax_type: Any = None
    stage: Stage | None = None
    step_type: Any = None


def split_heads(ctx: KernelContext, x: Array, heads: int) -> Array:
    """``(batch, length, heads · size)`` as a view of shape ``(batch, heads, length, size)``.

    Raises:
        InvalidArgument: The rank is not 3, or the last axis cannot be divided by the number of heads.
    """
    if x.ndim != 3 or heads < 1 or x.shape[2] % heads:
        raise shape_error(f"An input cannot be split into {heads} heads.", ctx.node.location, [x.shape])
    return x.reshape((x.shape[0], x.shape[1], heads, x.shape[2] // heads)).swapaxes(1, 2)


def grown(ctx: KernelContext, past: Array, new: Array) -> Array:
    """The whole past with the new rows behind it, C-contiguous; both of one type, ``(batch, heads, rows, size)``.

    Raises:
        LimitError: The present would pass the session's limits.
    """
    held = past.shape[2]
    shape = (*past.shape[:2], held + new.shape[2], past.shape[3])
    if past.size + new.size > LARGE:
        ctx.check_allocation(shape, past.dtype)
        if past.size > LARGE_PART and new.shape[:2] == past.shape[:2] and new.shape[3] == past.shape[3]:
            present = ctx.xp.empty(shape, past.dtype)
            assign(ctx, present[:, :, :held], past)
            assign(ctx, present[:, :, held:], new)
            return present
    # New heads are often a view of columns, and without `out` the result would lie in memory as that does.
    return ctx.xp.concatenate((past, new), axis=2, out=ctx.xp.empty(shape, past.dtype))


def expect_entries(mask: Array | None, k: Array, name: str, location: Location) -> None:
    """Check that a mask that is added to scores has one entry along its last axis, or one for each key.

    Args:
        mask: The mask; None if there is none.
        k: Keys ``(batch, groups, keys, size)``.
        name: Name of the mask in the error.
        location: Place of the node.

    Raises:
        InvalidArgument: It has another number of entries.
    """
    if mask is not None and mask.ndim and mask.shape[-1] not in (1, k.shape[2]):
        raise shape_error(f"The {name} does not have an entry for each key.", location, [mask.shape, k.shape])


def attend(
    ctx: KernelContext,
    q: Array,
    k: Array,
    v: Array,
    rule: Rule,
    *,
    mask: Array | tuple[Array, ...] | None = None,
    offsets: tuple[int, ...] | int = 0,
    lengths: tuple[int, ...] | None = None,
    sinks: Array | None = None,
    packed: bool = False,
) -> tuple[Array, Array | None]:
    """Scaled dot-product attention.

    float16 and bfloat16 are computed in float32 and rounded once, at the end; `Rule.softmax_type` and
    `Rule.step_type` add roundings. Keys and values of a group of query heads are read in place, never repeated. Masked
    keys take no part, whatever their score; a query that sees no key gives a row of zeros, in the result and in the
    probabilities.

    Args:
        ctx: Context of the node; its pool gets the blocks.
        q: Queries ``(batch, heads, rows, size)``, any strides; positive multiple of the key heads.
        k: Keys ``(batch, key heads, keys, size)``, any strides.
        v: Values ``(batch, key heads, keys, value size)``, any strides.
        rule: Scale, window, cap, precision and the stage to return.
        mask: Broadcasts to ``(batch, heads, rows, keys)``. Boolean: False hides a key. Numbers: added to the scores,
            -inf hides. Its last axis may also be shorter than the keys, which hides the rest. Several masks are
            applied one after the other, so that their common shape need not exist.
        offsets: Position of the first query, that is the number of keys before it; one for all or one per batch
            entry, on the host.
        lengths: Keys that exist in each batch entry, on the host; None is all of them.
        sinks: One logit per query head ``(heads,)`` that takes part in the softmax's sum and has no value.
        packed: Return ``(batch, rows, heads · value size)`` instead of ``(batch, heads, rows, value size)``.

    Returns:
        The result in the type of `q`, new and contiguous, and the matrix of `Rule.stage` ``(batch, heads, rows, keys)``
        in the same type, or None. Of the stages, "biased" has -inf at hidden keys.

    Raises:
        InvalidArgument: The shapes do not fit.
        LimitError: The result or the matrix asked for would pass the session's limits.
    """
    xp = ctx.xp
    given = () if mask is None else mask if isinstance(mask, tuple) else (mask,)
    if lengths is None and sinks is None and isinstance(offsets, int) and fits(rule, q, k, v, given, offsets):
        return plain_attention(ctx, rule.scale, q, k, v, given, packed), None
    masks = [one.reshape((1,)) if one.ndim == 0 else one for one in given]
    check_operands(ctx, q, k, v)
    _check_limits(ctx, q, k, masks, lengths, offsets, sinks)
    batch, heads, rows, size = q.shape
    key_heads, keys, value_size = k.shape[1], k.shape[2], v.shape[3]
    shape = (batch, rows, heads, value_size) if packed else (batch, heads, rows, value_size)
    if batch * heads * rows * value_size > LARGE:
        ctx.check_allocation(shape, q.dtype)
    y = xp.empty(shape, q.dtype)
    kept = None
    if rule.stage is not None:
        ctx.check_allocation((batch, heads, rows, keys), q.dtype)
        kept = xp.empty((batch, heads, rows, keys), q.dtype)
    group = heads // key_heads if key_heads else 1
    grouped = (batch, key_heads, group, rows)
    limit = keys
    for index, one in enumerate(masks):
        dims = (1,) * (4 - one.ndim) + tuple(one.shape)
        if dims[3] not in (1, keys):
            limit = min(limit, dims[3])
        split = (key_heads, group) if dims[1] == heads else (1, 1)
        masks[index] = one.reshape((dims[0], *split, *dims[2:]))
    problem = _Problem(
        ctx=ctx,
        q=q.reshape((*grouped, size)),
        k=k,
        v=v,
        y=(y.swapaxes(1, 2) if packed else y).reshape((*grouped, value_size)),
        kept=None if kept is None else kept.reshape((*grouped, keys)),
        masks=tuple(masks),
        sinks=None if sinks is None else sinks.reshape((1, key_heads, group, 1, 1)),
        rule=rule,
        seen=Visibility(
            offsets=(offsets,) * batch if isinstance(offsets, int) else offsets,
            lengths=(limit,) * batch if lengths is None else tuple(max(0, min(n, limit)) for n in lengths),
            left=rule.left,
            right=rule.right,
        ),
    )
    if batch * heads * rows:
        problem.solve()
    return (y.reshape((batch, rows, heads * value_size)) if packed else y), kept


def check_operands(ctx: KernelContext, q: Array, k: Array, v: Array) -> None:
    """Check that queries, keys and values belong together.

    Raises:
        InvalidArgument: They do not.
    """
    fits = (
        q.ndim == k.ndim == v.ndim == 4
        and q.shape[0] == k.shape[0] == v.shape[0]
        and q.shape[3] == k.shape[3]
        and k.shape[1:3] == v.shape[1:3]
    )
    if not fits:
        raise shape_error(
            "Query, key and value do not belong together.", ctx.node.location, [q.shape, k.shape, v.shape]
        )
    if (q.shape[1] % k.shape[1] if k.shape[1] else q.shape[1]) != 0:
        raise shape_error(
            f"{q.shape[1]} query heads cannot share {k.shape[1]} key heads.",
            ctx.node.location,
            [q.shape, k.shape, v.shape],
        )


def _check_limits(
    ctx: KernelContext,
    q: Array,
    k: Array,
    masks: Sequence[Array],
    lengths: tuple[int, ...] | None,
    offsets: tuple[int, ...] | int,
    sinks: Array | None,
) -> None:
    """Check what restricts or joins the scores against them."""
    where = ctx.node.location
    scores = (*q.shape[:3], k.shape[2])
    for mask in masks:
        wanted = scores[4 - mask.ndim :] if mask.ndim <= 4 else ()
        spreads = [got in (1, dim) for got, dim in zip(mask.shape[:-1], wanted[:-1], strict=False)]
        if not 1 <= mask.ndim <= 4 or not all(spreads) or mask.shape[-1] > max(scores[3], 1):
            raise shape_error(f"The mask does not broadcast to {list(scores)}.", where, [mask.shape])
    for name, values in (("lengths", lengths), ("offsets", offsets)):
        if isinstance(values, tuple) and len(values) != q.shape[0]:
            raise shape_error(f"{len(values)} {name} do not fit a batch of {q.shape[0]}.", where, [q.shape])
    if sinks is not None and tuple(sinks.shape) != (q.shape[1],):
        raise shape_error(f"The sinks are not one per query head ({q.shape[1]} heads).", where, [sinks.shape])


_Place: TypeAlias = tuple[range, range]
"""Batch entries and key heads of a block."""


@dataclass(slots=True)  # not frozen: it lives for one call, and freezing makes its creation several times as dear
class _Problem:
    """One call: views with the axes (batch, key head, query head of the group, row, ...) and what to do with them."""

    ctx: KernelContext
    q: Array
    k: Array
    v: Array
    y: Array
    kept: Array | None
    masks: tuple[Array, ...]
    sinks: Array | None
    rule: Rule
    seen: Visibility

    def solve(self) -> None:
        """Cut into blocks and compute each; a part of them on each thread of the pool."""
        batch, heads, group, rows = self.q.shape[:4]
        row_scores = max(1, group * self.k.shape[2])
        step = min(rows, max(min(-(-_ROWS // group), LARGE_PART // row_scores), _SCORES // row_scores, 1))
        # Operands of more than the elements of a part are multiplied by one call that no limit of time interrupts.
        elements = max(self.k.shape[2] * max(self.k.shape[3], self.v.shape[3]), group * rows * self.q.shape[4])
        own = max(row_scores * rows, elements * _SCORES // LARGE_PART)
        if is_narrow(self.k.dtype):  # keys that are widened first belong into the cache too
            own = max(own, self.k.shape[2] * self.k.shape[3])
        head_step = min(heads, max(1, _SCORES // own))
        batch_step = min(batch, max(1, _SCORES // (own * heads)))
        places: list[_Place] = [
            (range(entry, min(entry + batch_step, batch)), range(head, min(head + head_step, heads)))
            for entry in range(0, batch, batch_step)
            for head in range(0, heads, head_step)
        ]
        cuts = -(-rows // step)

        def part(start: int, stop: int) -> None:
            current, k, v = -1, None, None
            for index in range(start, stop):
                where, cut = divmod(index, cuts)
                if where != current:
                    current, k, v = where, self._operand(self.k, places[where]), self._operand(self.v, places[where])
                    if self.rule.step_type is not None:
                        k = self._rounded(k * self._root())
                self._block(places[where], range(cut * step, min((cut + 1) * step, rows)), k, v)

        self.ctx.parallel_for(len(places) * cuts, 1, part)

    def _operand(self, x: Array, place: _Place) -> Array:
        """Keys or values of a block as its products read them: wide, and with rows that BLAS can read."""
        xp = self.ctx.xp
        entries, heads = place
        x = _wide(xp, x[entries.start : entries.stop, heads.start : heads.stop])
        return x if x.strides[-1] == x.itemsize else xp.ascontiguousarray(x)

    def _block(self, place: _Place, rows: range, k: Array, v: Array) -> None:
        xp, rule = self.ctx.xp, self.rule
        entries, heads = place
        at = (
            slice(entries.start, entries.stop),
            slice(heads.start, heads.stop),
            slice(None),
            slice(rows.start, rows.stop),
        )
        keys = self.seen.keys(entries, rows) if self.kept is None else (0, k.shape[2])
        if keys[0] == keys[1]:
            self.y[at] = 0
            return
        q = _wide(xp, self.q[at])
        lead, size, count = q.shape[:4], q.shape[4], keys[1] - keys[0]
        matrices = (lead[0], lead[1], lead[2] * lead[3])
        cap = rule.softcap
        fused = cap and rule.stage != "raw" and rule.step_type is None
        if rule.step_type is not None:
            q = self._rounded(q * self._root())
        else:
            q = xp.multiply(q, rule.scale / cap if fused else rule.scale)
        product = xp.matmul(q.reshape((*matrices, size)), k[:, :, keys[0] : keys[1]].swapaxes(2, 3))
        scores = self._rounded(product).reshape((*lead, count))
        if rule.stage == "raw":
            self._keep(at, scores)
        if cap:
            if not fused:
                scores = self._rounded(scores / cap)
            xp.tanh(scores, out=scores)
            scores = self._rounded(self._rounded(scores) * cap)
        if rule.stage == "capped":
            self._keep(at, scores)
        top = self._masked(scores, place, rows, keys)
        if rule.stage == "biased":
            self._keep(at, scores)
        self._weighted(at, scores, top, v[:, :, keys[0] : keys[1]])

    def _rounded(self, x: Array) -> Array:
        """`x` as the steps of the rule round it."""
        return x if self.rule.step_type is None else _through(self.ctx.xp, x, self.rule.step_type)

    def _root(self) -> Array:
        """The factor on queries and on keys where each step is rounded, which is the root of the scale."""
        return self._rounded(self.ctx.xp.full((1,), math.sqrt(self.rule.scale), "float32"))

    def _keep(self, at: Any, matrix: Array) -> None:
        if self.kept is not None:
            self.kept[at] = matrix

    def _masked(self, scores: Array, place: _Place, rows: range, keys: tuple[int, int]) -> Array:
        """Apply mask and limits in place; gives the greatest score of each row."""
        xp = self.ctx.xp
        added: list[tuple[Array, Array]] = []
        for mask in self.masks:
            part = _mask_part(mask, place, rows, keys)
            reached = scores if part.shape[4] == 1 else scores[..., : part.shape[4]]
            if part.dtype == xp.bool_:
                xp.copyto(reached, -xp.inf, where=xp.logical_not(part))
            else:
                xp.add(reached, part.astype(scores.dtype, copy=False), out=reached)
                if self.rule.step_type is not None:
                    reached[...] = self._rounded(reached)
                added.append((reached, part))
        self.seen.hide(xp, scores, place[0], rows, keys)
        top = scores.max(4, None, True)
        if added and xp.any(xp.isnan(top)).item():
            # A score of inf or NaN plus -inf is NaN, and would make its row NaN although its key takes no part.
            for reached, part in added:
                xp.copyto(reached, -xp.inf, where=xp.equal(part, -xp.inf))
            top = scores.max(4, None, True)
        lost = xp.equal(top, -xp.inf)
        if xp.any(lost).item():
            # Zeros are for rows that see no key. One whose scores overflowed has no weights: they are NaN.
            top = xp.where(xp.logical_and(lost, self._sees(scores, place, rows, keys)), xp.nan, top)
        return top

    def _sees(self, scores: Array, place: _Place, rows: range, keys: tuple[int, int]) -> Array:
        """Return whether a row of scores sees a key at all."""
        xp = self.ctx.xp
        seen = xp.zeros_like(scores)
        for mask in self.masks:
            part = _mask_part(mask, place, rows, keys)
            reached = seen if part.shape[4] == 1 else seen[..., : part.shape[4]]
            hidden = xp.logical_not(part) if part.dtype == xp.bool_ else xp.equal(part, -xp.inf)
            xp.copyto(reached, -xp.inf, where=hidden)
        self.seen.hide(xp, seen, place[0], rows, keys)
        return xp.equal(seen.max(4, None, True), 0)

    def _weighted(self, at: Any, scores: Array, top: Array, v: Array) -> None:
        """Softmax of the scores, in place, times the values, into the result."""
        xp, rule = self.ctx.xp, self.rule
        kind = rule.step_type if rule.softmax_type is None else rule.softmax_type
        wide = scores.dtype
        narrow = kind is not None and is_narrow(kind)
        if kind is not None and kind != wide:
            # The maximum of rounded scores is the rounded maximum.
            scores, top = _through(xp, scores, kind), _through(xp, top, kind)
        # Where a row sees no key the greatest score is -inf, and -inf - -inf would be NaN.
        xp.maximum(top, xp.finfo(scores.dtype).min, out=top)
        sinks = None if self.sinks is None else self.sinks[:, at[1]].astype(scores.dtype)
        if sinks is not None:
            top = xp.maximum(top, sinks)
        scores -= top
        if narrow:
            scores = _through(xp, scores, kind)
        xp.exp(scores, out=scores)
        if narrow:
            scores = _through(xp, scores, kind)
        total = scores.sum(4, None, None, True)
        if sinks is not None:
            total += xp.exp(sinks - top)
        total += xp.equal(total, 0)  # 0 / 1 for rows that see no key
        early = rule.stage == "probabilities" or rule.step_type is not None or (kind is not None and kind != wide)
        if early:
            scores /= _through(xp, total, kind) if narrow else total
            if kind is not None:
                scores = self._rounded(_through(xp, scores, kind).astype(wide, copy=False))
            if rule.stage == "probabilities":
                self._keep(at, scores)
        y = self._mixed(scores, v)
        if not early and not xp.all(xp.isfinite(y)).item():
            # Sums of values that are nearly as large as they can be overflow, unless their weights add up to 1.
            scores /= total
            y = self._mixed(scores, v)
        elif not early:
            y /= total
        self.y[at] = y

    def _mixed(self, weights: Array, v: Array) -> Array:
        """Values times weights."""
        lead, count = weights.shape[:4], weights.shape[4]
        flat = weights.reshape((lead[0], lead[1], lead[2] * lead[3], count))
        return self.ctx.xp.matmul(flat, v).reshape((*lead, v.shape[3]))


def _mask_part(mask: Array, place: _Place, rows: range, keys: tuple[int, int]) -> Array:
    """The mask of a block; its last axis is 1, or ends with the mask where that is shorter than the keys."""
    chosen = (place[0], place[1], None, rows, range(*keys))
    return mask[
        tuple(
            slice(None) if one is None or dim == 1 else slice(one.start, one.stop)
            for one, dim in zip(chosen, mask.shape, strict=True)
        )
    ]


def _wide(xp: Any, x: Array) -> Array:
    """`widened`, faster."""
    return from_half(xp, x) if x.dtype == xp.float16 else widened(xp, x)


def _through(xp: Any, x: Array, dtype: Any) -> Array:
    """`x` rounded to `dtype`, in a type that can be computed with."""
    if dtype == xp.float16 and x.dtype == xp.float32:
        return through_half(xp, x)
    x = x.astype(dtype)
    return x.astype(xp.float32) if is_narrow(x.dtype) else x
