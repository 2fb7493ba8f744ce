"""FlexAttention-1 of ai.onnx.preview: attention whose scores and probabilities the model's own graphs may change.

Without such graphs it is `core`'s attention. With them, the graphs see the whole matrix of scores or of probabilities,
so it is made; ONNX defines what they get by type and shape, and this checks what they give. It is independent of what
the graphs compute.
"""

from __future__ import annotations

import math
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef, Subgraph, SubgraphCallable
from ort_py.dtypes import data_type_of
from ort_py.errors import InvalidArgument
from ort_py_array.attention.attention import softmax_type
from ort_py_array.attention.core import Rule, attend, check_operands
from ort_py_array.precision import rounded, widened

__all__ = ["KERNELS", "flex_attention"]

_ELEMENTS = 131072
"""Scores whose softmax is made at once, as in `core`."""


def flex_attention(ctx: KernelContext) -> KernelCallable:
    """FlexAttention-1: ``prob_mod(softmax(score_mod(q kᵀ · scale))) v`` over ``(batch, heads, length, size)``.

    The graphs get and give ``(batch, query heads, queries, keys)`` in the type of `softmax_precision`, by default
    float32 and float64 for float64; a row that `score_mod` makes -inf throughout is NaN, as it is to Softmax.

    Raises:
        InvalidArgument: Shapes that do not belong together, a `softmax_precision` of no floating-point type, or a graph
            whose result has another shape or type than what it got.
        LimitError: The result, or with a graph the matrix, would pass the session's limits.
    """
    xp, attributes = ctx.xp, ctx.node.attributes
    given = attributes.get("scale")
    kind = softmax_type(ctx)
    score_mod, prob_mod = ctx.subgraph("score_mod"), ctx.subgraph("prob_mod")

    def run(q: Array, k: Array, v: Array) -> Array:
        scale = 1.0 / math.sqrt(q.shape[-1] or 1) if given is None else given
        if score_mod is None and prob_mod is None:
            return attend(ctx, q, k, v, Rule(scale=scale, softmax_type=kind))[0]
        check_operands(ctx, q, k, v)
        precision = kind or xp.dtype(xp.float64 if q.dtype == xp.float64 else xp.float32)
        matrix = _scores(ctx, q, k, scale, precision)
        if score_mod is not None:
            matrix = _modified(ctx, "score_mod", score_mod, matrix)
        if matrix.size:
            matrix = _softmax(ctx, matrix)
        if prob_mod is not None:
            matrix = _modified(ctx, "prob_mod", prob_mod, matrix)
        return _weighted(ctx, matrix, v, q.dtype)

    return run


def _scores(ctx: KernelContext, q: Array, k: Array, scale: float, precision: Any) -> Array:
    """``(batch, query heads, queries, keys)`` in the precision asked for; key heads are read in place."""
    xp = ctx.xp
    batch, heads, rows, size = q.shape
    ctx.check_allocation((batch, heads, rows, k.shape[2]), precision)
    group = heads // (k.shape[1] or 1)
    grouped = xp.multiply(widened(xp, q), scale).reshape((batch, k.shape[1], group * rows, size))
    product = xp.matmul(grouped, widened(xp, k).swapaxes(2, 3))
    return rounded(product, precision).reshape((batch, heads, rows, k.shape[2]))


def _modified(ctx: KernelContext, name: str, graph: SubgraphCallable, matrix: Array) -> Array:
    """The result of one of the node's graphs for a matrix.

    Raises:
        InvalidArgument: It is not one tensor of the same shape and type.
    """
    results = graph(matrix)
    result = results[0] if len(results) == 1 else None
    if result is None or result.shape != matrix.shape or result.dtype != matrix.dtype:
        found = [f"{data_type_of(one.dtype).onnx_name} {list(one.shape)}" for one in results]
        raise InvalidArgument(
            f"{name} gave {' and '.join(found) or 'nothing'} for {data_type_of(matrix.dtype).onnx_name} "
            f"{list(matrix.shape)}.",
            where=ctx.node.location,
            why="a modifier gives one tensor of the shape and type that it gets",
            fix=f"Change the graph '{name}', or softmax_precision where the type differs.",
        )
    return result


def _softmax(ctx: KernelContext, matrix: Array) -> Array:
    """Softmax over the keys, in blocks of rows; a new array, as a graph may have kept its own."""
    xp = ctx.xp
    y = xp.empty(matrix.shape, matrix.dtype)
    keys = matrix.shape[3]
    rows, results = matrix.reshape((-1, keys)), y.reshape((-1, keys))
    step = max(1, _ELEMENTS // keys)

    def part(start: int, stop: int) -> None:
        for first in range(start, stop, step):
            at = slice(first, min(first + step, stop))
            wide = widened(xp, rows[at])
            block = xp.subtract(wide, wide.max(1, None, True))
            xp.exp(block, out=block)
            block /= block.sum(1, None, None, True)
            results[at] = block

    ctx.parallel_for(rows.shape[0], step, part)
    return y


def _weighted(ctx: KernelContext, matrix: Array, v: Array, dtype: Any) -> Array:
    """Probabilities times values, summed in the wider type of the two."""
    xp = ctx.xp
    batch, heads, rows, keys = matrix.shape
    ctx.check_allocation((batch, heads, rows, v.shape[3]), dtype)
    grouped = widened(xp, matrix).reshape((batch, v.shape[1], heads // (v.shape[1] or 1) * rows, keys))
    return rounded(xp.matmul(grouped, widened(xp, v)), dtype).reshape((batch, heads, rows, v.shape[3]))


KERNELS: list[KernelDef] = [
    KernelDef(
        "FlexAttention",
        flex_attention,
        domain="ai.onnx.preview",
        since=1,
        strided=True,
        subgraphs=(Subgraph("score_mod"), Subgraph("prob_mod")),
        implementation=f"{__name__}:flex_attention",
    )
]
