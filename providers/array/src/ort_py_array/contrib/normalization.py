"""Layer normalisation of sums: SkipLayerNormalization, EmbedLayerNormalization and their simplified relatives.

Statistics of narrow floats are formed in float32 and results are rounded once. The rows are handled in
`row_normalization`; ONNX's own normalisations are in the library's module of the same name.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext, kernel
from ort_py.dtypes import DataType, numpy_dtype
from ort_py.errors import InvalidArgument
from ort_py_array.checks import index_error, normalized_axis, shape_error
from ort_py_array.contrib.row_normalization import RowMaker, Rows, normalize_rows
from ort_py_array.contrib.schemas.notation import DOMAIN
from ort_py_array.parts import converted
from ort_py_array.precision import is_narrow, widened
from ort_py_array.row_norms import row_kernel, sum_kernel

__all__ = [
    "embed_layer_normalization",
    "simplified_layer_normalization",
    "skip_layer_normalization",
    "skip_simplified_layer_normalization",
]


def _wants(ctx: KernelContext, output: int) -> bool:
    return output < len(ctx.node.outputs) and ctx.node.outputs[output] is not None


@kernel(
    "SkipLayerNormalization",
    domain=DOMAIN,
    since=1,
    outputs=None,
    out=True,
    bind=partial(sum_kernel, centred=True),
)
def skip_layer_normalization(
    ctx: KernelContext,
    x: Array,
    skip: Array,
    gamma: Array,
    beta: Array | None = None,
    bias: Array | None = None,
    *,
    epsilon: float = 1e-12,
    out: Array | tuple[Array, ...] | None = None,
) -> tuple[Array | None, ...]:
    """com.microsoft.SkipLayerNormalization-1: layer normalisation of ``x + skip + bias`` over the last axis.

    `x` is ``(batch, length, hidden)`` or ``(tokens, hidden)``; `skip` has its shape, or lacks or has 1 as its batch.
    Returns the result, float32 mean and inverse deviation of each row, and the sum.

    Raises:
        InvalidArgument: The shapes do not fit.
    """
    return _skip(ctx, x, skip, gamma, beta, bias, epsilon, out, simplified=False)


@kernel(
    "SkipSimplifiedLayerNormalization",
    domain=DOMAIN,
    since=1,
    outputs=None,
    out=True,
    bind=partial(sum_kernel, centred=False),
)
def skip_simplified_layer_normalization(
    ctx: KernelContext,
    x: Array,
    skip: Array,
    gamma: Array,
    bias: Array | None = None,
    *,
    epsilon: float = 1e-12,
    out: Array | tuple[Array, ...] | None = None,
) -> tuple[Array | None, ...]:
    """com.microsoft.SkipSimplifiedLayerNormalization-1: as `skip_layer_normalization`, by the root mean square."""
    return _skip(ctx, x, skip, gamma, None, bias, epsilon, out, simplified=True)


def _skip(
    ctx: KernelContext,
    x: Array,
    skip: Array,
    gamma: Array,
    beta: Array | None,
    bias: Array | None,
    epsilon: float,
    out: Array | tuple[Array, ...] | None,
    *,
    simplified: bool,
) -> tuple[Array | None, ...]:
    xp = ctx.xp
    outs = () if out is None else out if isinstance(out, tuple) else (out,)
    shape = tuple(x.shape)
    if x.ndim not in (2, 3):
        raise shape_error(f"The input has rank {x.ndim} instead of 2 or 3.", ctx.node.location, [shape])
    if tuple(skip.shape) not in (shape, (1, *shape[1:]), shape[-2:]):
        raise shape_error("The skipped tensor does not broadcast to the input.", ctx.node.location, [shape, skip.shape])
    width = shape[-1]
    if bias is not None and tuple(bias.shape) != (width,):
        raise shape_error(f"The bias needs {width} entries.", ctx.node.location, [shape, bias.shape])
    count = prod(shape[:-1])
    rows, others = x.reshape((count, width)), skip.reshape((prod(skip.shape[:-1]), width))
    period, summand = others.shape[0], None if bias is None else widened(xp, bias)

    def make(start: int, stop: int) -> Array:
        chosen = others[start:stop] if period == count else xp.take(others, xp.arange(start, stop) % period, axis=0)
        total = xp.add(widened(xp, rows[start:stop]), widened(xp, chosen))
        return total if summand is None else xp.add(total, summand, out=total)

    statistic = (*shape[:-1], 1)
    forms = ((shape, x.dtype), (statistic, xp.float32), (statistic, xp.float32), (shape, x.dtype))
    made = outs or tuple(
        xp.empty(form, dtype) if _wants(ctx, output) else None for output, (form, dtype) in enumerate(forms)
    )
    made = made[: len(ctx.node.outputs)]
    y, mean, inverse, total = (
        None if array is None else array.reshape((count, form[-1]))
        for array, (form, _) in zip((*made, *(None,) * (4 - len(made))), forms, strict=True)
    )
    assert y is not None
    normalize_rows(ctx, Rows(y, total, mean, inverse), make, gamma, beta, epsilon, simplified=simplified)
    return made


@kernel("SimplifiedLayerNormalization", since=1, outputs=None, out=True, bind=partial(row_kernel, centred=False))
def simplified_layer_normalization(
    ctx: KernelContext,
    x: Array,
    scale: Array,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    out: Array | tuple[Array, ...] | None = None,
) -> tuple[Array | None, ...]:
    """SimplifiedLayerNormalization-1 (of ONNX's domain, yet not ONNX's): ``x / sqrt(mean(x²) + epsilon) · scale``.

    Over the axes from `axis` on. The result has the scale's type; the second output is the inverse root mean square in
    the type `stash_type`.

    Raises:
        InvalidArgument: The axis does not exist, the scale has another size, or `stash_type` is not a wide float.
    """
    xp = ctx.xp
    if stash_type not in (DataType.FLOAT, DataType.DOUBLE):
        raise InvalidArgument(
            f"stash_type is {stash_type}.", where=ctx.node.location, fix="Use 1 (float) or 11 (double)."
        )
    first = normalized_axis(axis, x.ndim, ctx.node.location)
    count, width = prod(x.shape[:first]), prod(x.shape[first:])
    rows = x.reshape((count, width))
    dtype = xp.float64 if stash_type == DataType.DOUBLE or x.dtype == xp.float64 else xp.float32

    def make(start: int, stop: int) -> Array:
        some = rows[start:stop]
        return some if some.dtype == dtype else converted(ctx, some, dtype)

    outs = () if out is None else out if isinstance(out, tuple) else (out,)
    statistic = (*x.shape[:first], *(1,) * (x.ndim - first))
    made = outs or (
        xp.empty(x.shape, scale.dtype),
        *((xp.empty(statistic, numpy_dtype(stash_type)),) if _wants(ctx, 1) else ()),
    )
    inverse = made[1].reshape((count, 1)) if len(made) > 1 else None
    normalize_rows(
        ctx, Rows(made[0].reshape((count, width)), inverse=inverse), make, scale, None, epsilon, simplified=True
    )
    return made


@kernel("EmbedLayerNormalization", domain=DOMAIN, since=1, outputs=3)
def embed_layer_normalization(
    ctx: KernelContext,
    input_ids: Array,
    segment_ids: Array | None,
    word_embedding: Array,
    position_embedding: Array,
    segment_embedding: Array | None,
    gamma: Array,
    beta: Array,
    mask: Array | None = None,
    position_ids: Array | None = None,
    *,
    epsilon: float = 1e-12,
    mask_index_type: int | None = None,
) -> tuple[Array | None, ...]:
    """com.microsoft.EmbedLayerNormalization-1: layer normalisation of the sum of two or three embeddings.

    `input_ids` are ``(batch, length)``; positions count from 0 if there are no `position_ids`. Returns the result
    ``(batch, length, hidden)``, the number of ones in each row of the mask (0 without a mask), and the sum.

    Raises:
        InvalidArgument: The shapes do not fit, or an index is out of range.
    """
    del mask_index_type  # says whether the second output is there, which the node's outputs say too
    xp, where = ctx.xp, ctx.node.location
    if input_ids.ndim != 2:
        raise shape_error("input_ids must have the shape (batch, length).", where, [input_ids.shape])
    batch, length = input_ids.shape
    for name, table in (("word", word_embedding), ("position", position_embedding), ("segment", segment_embedding)):
        if table is not None and (table.ndim != 2 or table.shape[-1] != word_embedding.shape[-1]):
            raise shape_error(
                f"The {name} embedding must be a matrix as wide as the words'.",
                where,
                [table.shape, word_embedding.shape],
            )
    for name, ids, also in (
        ("segment_ids", segment_ids, batch),
        ("mask", mask, batch),
        ("position_ids", position_ids, 1),
    ):
        if ids is not None and tuple(ids.shape) not in ((batch, length), (also, length)):
            raise shape_error(f"{name} does not fit input_ids.", where, [ids.shape, input_ids.shape])
    if (segment_ids is None) != (segment_embedding is None):
        raise InvalidArgument(
            "There are segment_ids without a segment_embedding, or the other way round.",
            where=where,
            fix="Give both or none.",
        )
    positions = xp.arange(length).reshape((1, length)) if position_ids is None else position_ids
    looked_up = [(input_ids, word_embedding), (positions, position_embedding)]
    if segment_ids is not None and segment_embedding is not None:
        looked_up.append((segment_ids, segment_embedding))
    for ids, table in looked_up:
        _check_ids(ctx, ids, table.shape[0])
    width = word_embedding.shape[1]
    ctx.check_allocation((batch, length, width), word_embedding.dtype)
    results = Rows(
        xp.empty((batch * length, width), word_embedding.dtype),
        xp.empty((batch * length, width), word_embedding.dtype) if _wants(ctx, 2) else None,
    )
    normalize_rows(ctx, results, _sum_of_rows(xp, looked_up, length), gamma, beta, epsilon)
    counts = None
    if _wants(ctx, 1):
        ones = xp.zeros((batch,), xp.int32) if mask is None else xp.count_nonzero(xp.equal(mask, 1), axis=1)
        counts = ones.astype(xp.int32)
    shape = (batch, length, width)
    return results.y.reshape(shape), counts, None if results.total is None else results.total.reshape(shape)


def _sum_of_rows(xp: Any, looked_up: list[tuple[Array, Array]], length: int) -> RowMaker:
    flat = [(ids.reshape(-1), table, ids.shape[0] == 1) for ids, table in looked_up]

    def make(start: int, stop: int) -> Array:
        total = None
        for ids, table, repeated in flat:
            chosen = xp.take(ids, xp.arange(start, stop) % length) if repeated else ids[start:stop]
            rows = xp.take(table, chosen, axis=0)
            if total is None:
                total = rows.astype(xp.float32) if is_narrow(rows.dtype) else rows
            else:
                xp.add(total, rows, out=total)
        return total

    return make


def _check_ids(ctx: KernelContext, ids: Array, size: int) -> None:
    """Like `check_indices`, but nothing counts from the end."""
    if ids.size == 0:
        return
    low, high = ctx.xp.min(ids).item(), ctx.xp.max(ids).item()
    if low < 0:
        raise InvalidArgument(
            f"Index {low} is out of range for an embedding of {size} rows.",
            where=ctx.node.location,
            fix="Indices of embeddings must not be negative.",
        )
    if high >= size:
        raise index_error(high, size, ctx.node.location)
