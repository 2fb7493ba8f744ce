"""Attention of several heads: two products and a softmax over views of queries, keys and values."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ort_py.lazy_dataclass import dataclass
from ort_py_onednn.binding import primitives
from ort_py_onednn.binding.constants import F32, Argument, Binary, Element, Eltwise
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.primitive import Function, Operand, PostOp, Primitive, Unimplemented
from ort_py_onednn.graph.functions import linear
from ort_py_onednn.graph.operation import Operation
from ort_py_onednn.lowering.attention_masks import Masks
from ort_py_onednn.lowering.blocked_attention import in_blocks
from ort_py_onednn.lowering.normalization import softmax_of_rows
from ort_py_onednn.lowering.past_attention import past_attention
from ort_py_onednn.lowering.planner import Planner, Value, broadcast_dims

__all__ = ["attention", "multi_head"]

_LOWEST = float(np.finfo(np.float32).min)


@dataclass(frozen=True, slots=True)
class _Heads:
    """The heads of an attention.

    Attributes:
        query, key, value: ``(batch, heads, rows, size)``, views; there may be fewer heads of keys and values.
        functions: What becomes of scores before anything is added: they are scaled.
        biases: Added to scores.
        may_hide: Whether a bias may be -infinity in a whole row, which then gives zeroes.
        seen: 1 where a row sees a column, 0 where it does not; None where none is hidden but by a bias.
    """

    query: Value
    key: Value
    value: Value
    functions: Sequence[Function]
    biases: Sequence[Value] = ()
    may_hide: bool = False
    seen: Value | None = None


def multi_head(planner: Planner, operation: Operation) -> None:
    """com.microsoft MultiHeadAttention of queries of three dimensions, keys and values of these or split into heads
    already, with a bias that is added."""
    if any(operation.outputs[1:]) or any(operation.inputs[6:]):
        past_attention(planner, operation)
        return
    heads = operation.attributes["num_heads"]
    query, key, value = (_split(planner, planner.value(name), heads) for name in operation.inputs[:3])
    scale = operation.attributes.get("scale", 0.0) or 1 / math.sqrt(query.dims[3])
    bias = operation.inputs[5] if len(operation.inputs) > 5 else None
    biases = [planner.ranked(planner.value(bias), 4)] if bias else []
    found = _attend(planner, _Heads(query, key, value, [linear(scale)], biases, bool(biases)), packed=True)
    planner.bind(operation.outputs[0], planner.apply(found, operation.posts))


def attention(planner: Planner, operation: Operation) -> None:
    """ONNX Attention: ``softmax(cap(q kᵀ · scale) + mask) v``; a mask may be of bool, and then rows that
    see nothing give zeroes."""
    if any(operation.outputs[1:]) or any(operation.inputs[4:]):
        past_attention(planner, operation)
        return
    attributes = operation.attributes
    source = planner.value(operation.inputs[0])
    packed = len(source.dims) == 3
    counts = [attributes.get(name, 0) for name in ("q_num_heads", "kv_num_heads", "kv_num_heads")]
    query, key, value = (
        _split(planner, planner.value(name), count) for name, count in zip(operation.inputs[:3], counts, strict=True)
    )
    scale = attributes.get("scale")
    scale = 1 / math.sqrt(query.dims[3]) if scale is None else scale
    cap = attributes.get("softcap", 0.0)
    functions = [linear(scale / cap), Function(Eltwise.TANH), linear(cap)] if cap else [linear(scale)]
    biases: list[Value] = []
    seen: Value | None = None
    floating = False
    mask = operation.inputs[3] if len(operation.inputs) > 3 else None
    if mask and planner.value(mask).dtype == Element.U8:
        seen, bias = _hidden(planner, mask)
        biases.append(bias)
    elif mask:
        floating = True
        biases.append(planner.ranked(planner.value(mask), 4))
    if attributes.get("is_causal", 0):
        biases.append(_causal(planner, query.dims[2], key.dims[2]))
    found = _attend(planner, _Heads(query, key, value, functions, biases, floating, seen), packed=packed)
    planner.bind(operation.outputs[0], planner.apply(found, operation.posts))


def _attend(planner: Planner, heads: _Heads, *, packed: bool) -> Value:
    """The result, ``(batch, rows, heads · size)`` where `packed`, else as the queries are."""
    batch, count, rows, _ = heads.query.dims
    groups, columns, each = heads.key.dims[1], heads.key.dims[2], heads.value.dims[3]
    dtype = planner.factor_type
    query = heads.query
    if dtype == F32 and (planner.dtype or dtype) == F32:
        masks = Masks(heads.biases, heads.seen, heads.may_hide)
        done = in_blocks(planner, query, heads.key, heads.value, heads.functions, masks)
        if done is not None:
            return _joined(planner, done, packed=packed)
    if groups < count:
        # The heads that read the same keys are rows of one product.
        query = planner.reshaped(planner.plain(query), (batch, groups, count // groups * rows, query.dims[3]))
    key = _turned(planner, heads.key)
    # Scores keep all their bits: what is added to an exponent multiplies the result.
    wanted = Desc.plain((batch, groups, query.dims[2], columns), F32)
    one = heads.biases[0] if groups == count and len(heads.biases) == 1 else None
    scores = _product(planner, query, key, wanted, heads.functions, one)
    shape = (batch, count, rows, columns)
    scores = planner.reshaped(planner.plain(scores), shape)
    for bias in heads.biases if one is None else ():
        scores = _combined(planner, Binary.ADD, scores, bias)
    work = 4.0 * math.prod(shape)
    desc = scores.desc
    # Half-precision weights would be rounded before the result is, which then differs in more than its last bit.
    kind = F32 if dtype == Element.F16 else dtype
    values = planner.converted(heads.value, kind)
    # NaN that a row does not see may not reach it, but here it does: a run with NaN is repeated without this provider.
    hides = bool(heads.biases) or heads.seen is not None
    own = softmax_of_rows(planner, scores, hides=hides) if kind == F32 else None
    weights = own or planner.new(Desc.plain(shape, kind))
    if own is None:
        softmax = planner.make_heavy(lambda: primitives.softmax(desc, weights.desc, 3), work)
        planner.emit(softmax, {Argument.SRC: scores, Argument.DST: weights}, in_place=Argument.SRC)
    if heads.may_hide:
        weights = _without_unknown(planner, weights)
    if heads.seen is not None:
        weights = _combined(planner, Binary.MUL, weights, heads.seen)
    written = planner.dtype or dtype
    if groups < count:
        weights = planner.reshaped(weights, (batch, groups, count // groups * rows, columns))
        target = Desc.plain((batch, groups, count // groups * rows, each), written)
    elif packed:
        # Written with the heads of a row side by side, so that joining them moves nothing.
        wide = count * each
        target = Desc.strided((batch, count, rows, each), (rows * wide, each, wide, 1), written)
    else:
        target = Desc.plain((batch, count, rows, each), written)
    found = _product(planner, weights, values, target, (), None)
    if groups < count:
        found = planner.reshaped(planner.plain(found), (batch, count, rows, each))
    elif packed and found.desc.same(target):
        whole = (batch, rows, count * each)
        return planner.view(found, Desc.plain(whole, found.dtype), whole)
    return _joined(planner, found, packed=packed)


def _joined(planner: Planner, found: Value, *, packed: bool) -> Value:
    """Heads side by side in a row where `packed`."""
    if not packed:
        return planner.plain(found)
    batch, count, rows, each = found.dims
    turned = found.desc.permuted((0, 2, 1, 3))
    assert turned is not None, "strides can always be exchanged"
    return planner.reshaped(planner.view(found, turned), (batch, rows, count * each))


def _without_unknown(planner: Planner, weights: Value) -> Value:
    """Zeroes for not-a-number, which the softmax of a row that is hidden wholly is: weights are never negative, and
    oneDNN's Relu knows not-a-number for none that is greater than zero."""
    desc = weights.desc
    found = planner.new(desc)
    relu = planner.make(lambda: primitives.eltwise(Function(Eltwise.RELU), desc, desc), desc)
    planner.emit(relu, {Argument.SRC: weights, Argument.DST: found}, in_place=Argument.SRC)
    return found


def _split(planner: Planner, value: Value, heads: int) -> Value:
    """Heads beside each other in a row, or split already, as ``(batch, heads, rows, size)``: a view."""
    plain = planner.plain(planner.converted(value, planner.factor_type))
    if len(value.dims) == 4:
        return plain
    batch, rows, hidden = value.dims
    return _permuted(planner, planner.reshaped(plain, (batch, rows, heads, hidden // heads)), (0, 2, 1, 3))


def _turned(planner: Planner, value: Value) -> Value:
    return _permuted(planner, value, (0, 1, 3, 2))


def _permuted(planner: Planner, value: Value, order: Sequence[int]) -> Value:
    desc = value.desc.permuted(order)
    assert desc is not None, "strides can always be exchanged"
    return planner.view(value, desc)


def _hidden(planner: Planner, mask: str) -> tuple[Value, Value]:
    """A mask of bool as the numbers 1 and 0, and as what is added to scores; the layers of a model share both.

    Added is the lowest number, not -infinity: a row that sees nothing would become not-a-number.
    """
    name = f"{mask}:bias"
    seen = planner.plain(planner.converted(planner.ranked(planner.value(mask), 4), F32))
    if not planner.has(name):
        desc = seen.desc
        bias = planner.new(desc)
        hide = linear(-_LOWEST, _LOWEST)
        planner.emit(
            planner.make(lambda: primitives.eltwise(hide, desc, desc), desc),
            {Argument.SRC: seen, Argument.DST: bias},
        )
        planner.alias(name, bias, mask)
        planner.alias(f"{mask}:seen", seen, mask)
    return planner.value(f"{mask}:seen"), planner.value(name)


def _causal(planner: Planner, rows: int, columns: int) -> Value:
    """The mask that hides the columns after a row's own."""
    name = f":causal {rows} {columns}"
    if not planner.has(name):
        numbers = np.triu(np.full((1, 1, rows, columns), -np.inf, np.float32), 1)
        planner.alias(name, planner.fixed(numbers), name)
    return planner.value(name)


def _combined(planner: Planner, algorithm: int, first: Value, second: Value) -> Value:
    """A function of two values in the type of the first."""
    before, planner.dtype = planner.dtype, first.dtype
    found = planner.combine(algorithm, first, second)
    planner.dtype = before
    return found


def _product(
    planner: Planner, left: Value, right: Value, result: Desc, functions: Sequence[Function], bias: Value | None
) -> Value:
    bias = None if bias is None else planner.plain(bias)
    posts: list[PostOp] = [one for one in functions if one != linear(1.0)]
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
    if primitive.is_reference and bias is not None:
        return _combined(planner, Binary.ADD, _product(planner, left, right, result, functions, None), bias)
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
