"""Attention of several heads: two products and a softmax over views of queries, keys and values."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ort_py_onednn.binding import primitives
from ort_py_onednn.binding.constants import F32, Argument, Binary
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.primitive import Operand, PostOp, Primitive, Unimplemented
from ort_py_onednn.graph.functions import linear
from ort_py_onednn.graph.operation import Operation
from ort_py_onednn.lowering.planner import Planner, Value, broadcast_dims

__all__ = ["multi_head"]


def multi_head(planner: Planner, operation: Operation) -> None:
    """com.microsoft MultiHeadAttention of queries of three dimensions, keys and values of these or split into heads
    already, with a bias that is added."""
    query, key, value = (planner.value(name) for name in operation.inputs[:3])
    heads = operation.attributes["num_heads"]
    dtype = planner.factor_type
    batch, rows, hidden = query.dims
    columns = key.dims[-2]
    wide = value.dims[2] if len(value.dims) == 3 else heads * value.dims[3]
    scale = operation.attributes.get("scale", 0.0) or 1 / math.sqrt(hidden // heads)
    bias = operation.inputs[5] if len(operation.inputs) > 5 else None
    scores = _product(
        planner,
        _heads(planner, query, heads, (0, 2, 1, 3)),
        _heads(planner, key, heads, (0, 2, 3, 1)),
        # Scores keep all their bits: what is added to an exponent multiplies the result.
        Desc.plain((batch, heads, rows, columns), F32),
        scale,
        planner.ranked(planner.value(bias), 4) if bias else None,
    )
    work = 4.0 * math.prod(scores.dims)
    desc = scores.desc
    weights = scores if dtype == F32 else planner.new(Desc.plain(scores.dims, dtype))
    softmax = planner.make_heavy(lambda: primitives.softmax(desc, weights.desc, 3), work)
    planner.emit(softmax, {Argument.SRC: scores, Argument.DST: weights})
    # Written with the heads of a row side by side, so that joining them moves nothing.
    each = wide // heads
    joined = Desc.strided((batch, heads, rows, each), (rows * wide, each, wide, 1), planner.dtype or dtype)
    found = _product(planner, weights, _heads(planner, value, heads, (0, 2, 1, 3)), joined, 1.0, None)
    shape = (batch, rows, wide)
    if found.desc.same(joined):
        result = planner.view(found, Desc.plain(shape, found.dtype), shape)
    else:
        turned = found.desc.permuted((0, 2, 1, 3))
        assert turned is not None, "strides can always be exchanged"
        result = planner.reshaped(planner.view(found, turned), shape)
    planner.bind(operation.outputs[0], planner.apply(result, operation.posts))


def _heads(planner: Planner, value: Value, heads: int, order: Sequence[int]) -> Value:
    plain = planner.plain(planner.converted(value, planner.factor_type))
    if len(value.dims) == 4:
        split, order = plain, [(0, 2, 1, 3)[axis] for axis in order]
    else:
        batch, rows, hidden = value.dims
        split = planner.reshaped(plain, (batch, rows, heads, hidden // heads))
    desc = split.desc.permuted(order)
    assert desc is not None, "strides can always be exchanged"
    return planner.view(split, desc)


def _product(planner: Planner, left: Value, right: Value, result: Desc, scale: float, bias: Value | None) -> Value:
    bias = None if bias is None else planner.plain(bias)
    posts: list[PostOp] = [] if scale == 1.0 else [linear(scale)]
    if bias is not None:
        assert broadcast_dims(bias.dims, result.dims) == result.dims
        posts.append(Operand(Binary.ADD, bias.desc))
    plain = (
        Desc.plain(left.dims, left.dtype),
        Desc.plain(right.dims, right.dtype),
        Desc.plain(result.dims, result.dtype),
    )
    ways = [
        (left.desc, right.desc, result),
        (left.desc, plain[1], result),
        (plain[0], plain[1], result),
        (plain[0], plain[1], plain[2]),
    ]

    def build() -> Primitive:
        best: Primitive | None = None
        for source, weights, target in ways:
            try:
                found = primitives.matmul(source, weights, None, target, posts)
            except Unimplemented:
                continue
            if not found.is_reference:
                return found
            best = best or found
        if best is None:
            raise Unimplemented(f"a product of {left.dims} and {right.dims}")
        return best

    primitive = planner.make_heavy(build, float(math.prod(result.dims) * left.dims[-1]))
    count = planner.count
    given: dict[int, Value] = {
        Argument.SRC: planner.in_layout(left, primitive.arguments[Argument.SRC]),
        Argument.WEIGHTS: planner.in_layout(right, primitive.arguments[Argument.WEIGHTS]),
    }
    if bias is not None:
        given[Argument.post_op(len(posts) - 1)] = bias
    found = planner.new(primitive.arguments[Argument.DST])
    planner.count = count
    planner.emit(primitive, given | {Argument.DST: found})
    return found
