"""QEmbedLayerNormalization of com.microsoft: sums of 8-bit word, position and segment embeddings, standardised.

Only the rows that are looked up are dequantised, block by block, in `row_normalization`. Comes beside the float form in
`normalization`.
"""

from __future__ import annotations

from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext, kernel
from ort_py.errors import InvalidArgument
from ort_py.light_tuple import NamedTuple
from ort_py_array.checks import shape_error
from ort_py_array.contrib.quantized_parameters import single
from ort_py_array.contrib.row_normalization import RowMaker, Rows, normalize_rows

__all__ = ["qembed_layer_normalization"]


class _Quantized(NamedTuple):
    """A tensor, its scale and its zero point."""

    values: Array
    scale: Array
    zero: Array

    def real(self, xp: Any, values: Array) -> Array:
        """Some of the values as float32."""
        y = values.astype(xp.float32)
        y -= self.zero
        y *= self.scale
        return y


@kernel("QEmbedLayerNormalization", domain="com.microsoft", since=1, outputs=2)
def qembed_layer_normalization(
    ctx: KernelContext,
    input_ids: Array,
    segment_ids: Array | None,
    word: Array,
    position: Array,
    segment: Array | None,
    gamma: Array,
    beta: Array,
    mask: Array | None,
    word_scale: Array,
    position_scale: Array,
    segment_scale: Array | None,
    gamma_scale: Array,
    beta_scale: Array,
    word_zero: Array,
    position_zero: Array,
    segment_zero: Array | None,
    gamma_zero: Array,
    beta_zero: Array,
    *,
    epsilon: float = 1e-12,
) -> tuple[Array, Array]:
    """com.microsoft.QEmbedLayerNormalization 1: identifiers ``(batch, sequence)`` → ``(batch, sequence, hidden)``.

    Embeddings, gamma and beta are int8 or uint8 with one scale and zero point each. Returns the float32 result and, as
    int32, how many ones the mask of each sequence has (0 without mask).

    Raises:
        InvalidArgument: Shapes do not fit, an identifier has no row, or only some of the segment inputs are given.
    """
    xp = ctx.xp
    where = ctx.node.location

    def quantized(values: Array, scale: Array, zero: Array, index: int) -> _Quantized:
        """`index` is that of the scale; the zero point comes five inputs later."""
        shift = single(ctx, index + 5, zero).astype(xp.float32)
        return _Quantized(values, single(ctx, index, scale), shift)

    if input_ids.ndim != 2:
        raise shape_error("input_ids must have the shape (batch, sequence).", where, [input_ids.shape])
    if mask is not None and mask.shape != input_ids.shape:
        raise shape_error("The mask needs the shape of input_ids.", where, [mask.shape, input_ids.shape])
    batch, length = input_ids.shape
    _check_positions(ctx, position, length)
    looked_up = [
        (input_ids.reshape(-1), quantized(word, word_scale, word_zero, 8)),
        (None, quantized(position, position_scale, position_zero, 9)),
    ]
    if segment_ids is None or segment is None or segment_scale is None or segment_zero is None:
        if any(part is not None for part in (segment_ids, segment, segment_scale, segment_zero)):
            raise InvalidArgument(
                "Only some of the segment inputs are given.",
                where=where,
                fix="Give segment_ids, segment_embedding, its scale and its zero point, or none of them.",
            )
    else:
        if segment_ids.shape != input_ids.shape:
            shapes = [segment_ids.shape, input_ids.shape]
            raise shape_error("segment_ids needs the shape of input_ids.", where, shapes)
        looked_up.append((segment_ids.reshape(-1), quantized(segment, segment_scale, segment_zero, 10)))
    for ids, table in looked_up:
        if table.values.ndim != 2 or table.values.shape[1] != word.shape[1]:
            shapes = [table.values.shape, word.shape]
            raise shape_error("An embedding must be a matrix as wide as the words'.", where, shapes)
        if ids is not None:
            _check_rows(ctx, ids, table.values.shape[0])
    width = word.shape[1]
    ctx.check_allocation((batch, length, width), xp.float32)
    results = Rows(xp.empty((batch * length, width), xp.float32))
    scale, shift = quantized(gamma, gamma_scale, gamma_zero, 11), quantized(beta, beta_scale, beta_zero, 12)
    normalize_rows(
        ctx,
        results,
        _sum_of_rows(xp, looked_up, length),
        scale.real(xp, gamma),
        shift.real(xp, beta),
        epsilon,
    )
    ones = xp.zeros((batch,), xp.int32) if mask is None else xp.count_nonzero(xp.equal(mask, 1), axis=1)
    return results.y.reshape(batch, length, width), ones.astype(xp.int32)


def _sum_of_rows(xp: Any, looked_up: list[tuple[Array | None, _Quantized]], length: int) -> RowMaker:
    def make(start: int, stop: int) -> Array:
        total = None
        for ids, table in looked_up:
            chosen = xp.arange(start, stop) % length if ids is None else ids[start:stop]
            rows = table.real(xp, xp.take(table.values, chosen, axis=0))
            total = rows if total is None else xp.add(total, rows, out=total)
        return total

    return make


def _check_positions(ctx: KernelContext, table: Array, length: int) -> None:
    if table.shape[0] < length:
        raise InvalidArgument(
            f"The sequences have {length} positions, but position_embedding has {table.shape[0]} rows.",
            where=ctx.node.location,
            fix="Feed shorter sequences.",
        )


def _check_rows(ctx: KernelContext, ids: Array, size: int) -> None:
    """Nothing counts from the end here. On a device this is one deliberate wait, as in `check_indices`."""
    if not ids.size:
        return
    low, high = ctx.xp.min(ids).item(), ctx.xp.max(ids).item()
    if low < 0 or high >= size:
        raise InvalidArgument(
            f"Identifier {low if low < 0 else high} is out of range for an embedding of {size} rows.",
            where=ctx.node.location,
            fix=f"Identifiers must be in [0, {size - 1}]." if size else "The embedding is empty.",
        )
