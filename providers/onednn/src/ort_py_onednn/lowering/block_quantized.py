"""MatMulNBits: products with int8 weights that have a scale a block of rows.

Numbers are cut into digits of 8 bits, relative to the largest of their block: three digits hold the 24 bits of a
float32 but for its exponent. The products of digits and weights are exact integers; scales and the weights of digits
are applied to sums of blocks. So weights are read as bytes, and one row takes a fraction of the time of a float32
product. Many rows are taken in turns, and many columns in parts, such that sums of blocks stay in the cache: so digits
are as fast as float32 for any number of rows where blocks have 128 rows or one digit is enough. For many rows and
blocks of 64 they take up to a quarter longer; all the same, weights are held once.

Three digits of shorter blocks make so many sums that float32 is twice as fast for many rows. Weights are then made
float32 ahead, in the order in which a product wants them. Where rows are not known when a region is compiled, digits
read the form that float32 is made of (`block_panels`), so that it is the only one: one row takes 1.1 to 1.4 times as
long as from the library's own form, which regions of few rows have.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ort_py_onednn.binding import primitives
from ort_py_onednn.binding.constants import (
    F32,
    Algorithm,
    Argument,
    Binary,
    Element,
    Eltwise,
)
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.features import has_exact_integers
from ort_py_onednn.binding.primitive import Function, Operand, PostOp, Primitive, Unimplemented
from ort_py_onednn.execution.plan import Buffer, Place
from ort_py_onednn.graph.functions import linear
from ort_py_onednn.graph.operation import Combine, Operation, Post
from ort_py_onednn.lowering import block_panels, products
from ort_py_onednn.lowering.few_bits import few_bits_product
from ort_py_onednn.lowering.parts import copy_into
from ort_py_onednn.lowering.planner import Planner, Value
from ort_py_onednn.lowering.quantized import written

__all__ = ["block_product"]

_FEW = 5
"""Of short blocks: rows up to which three digits are faster than float32, as a divisor of a block's size."""

_ALWAYS = 64
"""Rows of a block from which three digits are multiplied for any number of rows."""

_COARSE = 32
"""The same for one digit of 8 bits."""

_NEAR = 1 << 23
"""Bytes of the sums of blocks that are made before they are added up, which the cache then still has."""

_PART = 1 << 17
"""Bytes of the sums of one row of digits, from which weights are cut into parts of columns."""

_NARROW = 256
"""Columns that a part has at least."""

_PANEL = 64
"""Columns that lie together in the library's own layout."""

_BASE = 254
"""Of digits: what rounding leaves, at most a half, times the base is at most the largest digit."""

_LARGEST = 127
_SMALLEST = 2.0**-119
"""Stands for the largest of a block of zeroes, and of smaller numbers: what their digits are worth is a normal number
still."""

_LONG = 64
"""Rows of a block from which weights are faster in blocks of the library's own."""


def block_product(planner: Planner, operation: Operation) -> None:
    """com.microsoft MatMulNBits: A (…, K), weights (blocks, size, N) int8, scales (blocks, 1, N), bias (N)."""
    source = planner.value(operation.inputs[0])
    source = planner.plain(planner.converted(source, F32))
    weights, scales = (planner.value(name) for name in operation.inputs[1:3])
    _, size, columns = weights.dims
    bias = operation.inputs[3]
    posts: list[Post] = list(operation.posts)
    if bias is not None:
        posts.insert(0, Combine(Binary.ADD, bias))
    shape = (*source.shape[:-1], columns)
    rows = math.prod(source.shape[:-1])
    if not rows:
        raise Unimplemented("there are no rows")
    if (found := few_bits_product(planner, operation, source, posts)) is not None:
        planner.bind(operation.outputs[0], found)
        return
    coarse = bool(operation.attributes["coarse"])
    if rows > _most(size, coarse) or not has_exact_integers():
        real = block_panels.dequantized(planner, weights, scales)
        name = f"{operation.name}:weights"
        planner.alias(name, real, operation.inputs[0] or "")
        inputs = (operation.inputs[0], name)
        products.matmul(planner, replace(operation, kind="MatMul", inputs=inputs, posts=posts))
        return
    shared = _most(size, coarse) < math.inf and not planner.alone
    found = planner.reshaped(
        _digit_product(planner, source, weights, scales, 1 if coarse else 3, shared=shared),
        shape,
    )
    planner.bind(operation.outputs[0], planner.apply(found, posts))


def _most(size: int, coarse: bool) -> float:
    """Rows up to which digits are multiplied with blocks of a size."""
    if size >= (_COARSE if coarse else _ALWAYS):
        return math.inf
    return size // _FEW


def _digit_product(
    planner: Planner,
    source: Value,
    weights: Value,
    scales: Value,
    number: int,
    *,
    shared: bool,
) -> Value:
    """The product (rows, N) of a plain source with blocks of weights: rows in turns, and columns in parts, such that
    sums of blocks are still in the cache when they are added up. Weights that are shared with products of float32 are
    read as those have them, where there is code for it."""
    count, size, columns = weights.dims
    rows = math.prod(source.dims[:-1])
    left, factors = _scaled(planner, source, (rows, count, size), number)
    width = _width(count, columns)
    turn = max(1, min(rows, _NEAR // (count * number * width * F32.nbytes)))
    turn = -(-rows // -(-rows // turn))
    found = planner.new(Desc.plain((rows, 1, columns)))
    times, rest = divmod(rows, turn)
    for start, now, again in ((0, turn, times), (rows - rest, rest, 1)):
        if not now:
            continue
        # The turns of one size are one step of the plan, however many they are.
        form = _form_of_digits(now, count, size, number)
        every = planner.new(Desc.plain((again, math.prod(form.dims)), Element.S8))
        inner, outer = Desc.plain((now * count, size)), Desc.plain((now, 1, count * number))
        with planner.repeating(again) as moves:
            those = planner.moving(moves, left, start * count * size, inner, now * count * size)
            made = planner.moving(moves, every, 0, form, math.prod(form.dims))
            _digits(planner, those, made, (now, count, size), number)
        for column in range(0, columns, width):
            with planner.repeating(again) as moves:
                digits = planner.moving(moves, every, 0, form, math.prod(form.dims))
                worth = planner.moving(moves, factors, start * count * number, outer, now * count * number)
                sums = block_panels.sums(planner, digits, weights, scales, (column, width)) if shared else None
                if sums is None:
                    part = _combined(planner, _sums(planner, digits, weights, scales, (column, width)), worth, now)
                else:
                    part = block_panels.combined(planner, sums, worth, now)
                if part.dims == found.dims:
                    return part
                rows_of_part = Desc.strided((now, 1, width), (columns, columns, 1))
                into = planner.moving(moves, found, start * columns + column, rows_of_part, now * columns)
                copy_into(planner, planner.view(part, Desc.plain(into.dims)), into)
    return found


def _width(count: int, columns: int) -> int:
    """Columns of a part: all, where sums of one row are few."""
    most = _PART // (count * F32.nbytes)
    fitting = [width for width in range(_NARROW, min(most, columns) + 1, _PANEL) if columns % width == 0]
    return columns if columns <= most else max(fitting, default=columns)


def _scaled(planner: Planner, source: Value, dims: tuple[int, int, int], number: int) -> tuple[Value, Value]:
    """Numbers relative to a 127th of the largest of their block, (rows · blocks, size), and what each of their digits
    is worth: (rows, 1, blocks · digits)."""
    rows, count, size = dims
    flat = planner.reshaped(source, (rows * count, size))
    desc, narrow = flat.desc, Desc.plain((rows * count, 1))
    absolute = planner.new(desc)
    function = Function(Eltwise.ABS)
    planner.emit(
        planner.make(lambda: primitives.eltwise(function, desc, desc), desc),
        {Argument.SRC: flat, Argument.DST: absolute},
    )

    def build(posts: Sequence[PostOp]) -> Primitive:
        return primitives.reduction(Algorithm.REDUCTION_MAX, desc, narrow, posts)

    def values(_: Primitive) -> Mapping[int, Value]:
        return {Argument.SRC: absolute}

    posts = [Function(Eltwise.CLIP_V2, _SMALLEST, math.inf), linear(1 / _LARGEST)]
    units = planner.with_posts(build, values, narrow, narrow.dims, posts)
    left = planner.new(desc)
    planner.emit(
        planner.make(lambda: primitives.binary(Binary.DIV, desc, narrow, desc), desc),
        {Argument.SRC: flat, Argument.SRC_1: units, Argument.DST: left},
    )
    worth = planner.fixed(np.array([[float(_BASE) ** -place for place in range(number)]], np.float32))
    factors = _products_of(planner, units, worth, (rows * count, number))
    return left, planner.view(factors, Desc.plain((rows, 1, count * number)))


def _form_of_digits(rows: int, count: int, size: int, number: int) -> Desc:
    """(groups, blocks of a group · digits · rows, K of a group) int8."""
    together = _together(count, size)
    return Desc.plain((count // together, together * number * rows, together * size), Element.S8)


def _digits(planner: Planner, left: Value, whole: Value, dims: tuple[int, int, int], number: int) -> None:
    """Digits of relative numbers to where they are wanted; see `_form_of_digits`."""
    rows, count, size = dims
    together = _together(count, size)
    seen = Desc.strided((count // together, rows, together * size), (together * size, count * size, 1))
    if together > 1:
        planner.zero(whole)
    for place in range(number):
        for one in range(together):
            # A block's digits stand in rows of their own, with zeroes for the other blocks of its group.
            dims, first = (count // together, rows, size), one * size
            part = whole.desc.part(dims, (0, (one * number + place) * rows, first))
            above = seen.part(dims, (0, 0, first))
            assert part is not None, "any part of a plain layout can be described"
            assert above is not None, "any part of strides can be described"
            written(planner, planner.view(left, above), Value(part, whole.buffer, dims))
        if place < number - 1:
            left = _rest(planner, left)


def _rest(planner: Planner, value: Value) -> Value:
    """The rounding remainder of numbers, times the base: exact, and the next digit when rounded."""
    desc = value.desc
    rounded, found = planner.new(desc), planner.new(desc)
    function, posts = Function(Eltwise.ROUND), (linear(_BASE),)
    planner.emit(
        planner.make(lambda: primitives.eltwise(function, desc, desc), desc),
        {Argument.SRC: value, Argument.DST: rounded},
    )
    planner.emit(
        planner.make(lambda: primitives.binary(Binary.SUB, desc, desc, desc, posts), desc),
        {Argument.SRC: value, Argument.SRC_1: rounded, Argument.DST: found},
        in_place=Argument.SRC,
    )
    return found


def _products_of(planner: Planner, column: Value, row: Value, dims: tuple[int, int]) -> Value:
    """The outer product of a column and a row."""
    found = planner.new(Desc.plain(dims))
    primitive = planner.make(lambda: primitives.matmul(column.desc, row.desc, None, found.desc), found.desc)
    planner.emit(primitive, {Argument.SRC: column, Argument.WEIGHTS: row, Argument.DST: found})
    return found


def _together(count: int, size: int) -> int:
    """Number of short blocks to merge for a product, which is slow for few columns."""
    found = max(1, _LONG // size)
    return found if count % found == 0 else 1


def _sums(
    planner: Planner,
    digits: Value,
    weights: Value,
    scales: Value,
    part: tuple[int, int],
) -> Value:
    """Products of each block, with its scales, for a part of the columns: (blocks, digits · rows, width)."""
    count, _, columns = weights.dims
    first, width = part
    groups, rows, depth = digits.dims
    narrow = Desc.plain((count, 1, width))
    primitive, bare = _product(planner, digits.desc, width, None if groups < count else narrow)
    threads = planner.count
    seen = Desc.plain((groups, depth, columns), Element.S8)
    held = _part(weights, seen, primitive.arguments[Argument.WEIGHTS], first, bare)
    factors = _part(scales, scales.desc, narrow, first, narrow)
    found = planner.new(primitive.arguments[Argument.DST])
    given = {Argument.SRC: digits, Argument.WEIGHTS: held, Argument.DST: found}
    if groups == count:
        given[Argument.post_op(0)] = factors
    planner.count = threads
    planner.emit(primitive, given)
    if groups == count:
        return found
    spread = planner.view(found, Desc.plain((count, rows * groups // count, width)))
    multiplied = planner.make(
        lambda: primitives.binary(Binary.MUL, spread.desc, narrow, spread.desc),
        spread.desc,
    )
    scaled = planner.new(spread.desc)
    given = {Argument.SRC: spread, Argument.SRC_1: factors, Argument.DST: scaled}
    planner.emit(multiplied, given, in_place=Argument.SRC)
    return scaled


def _part(value: Value, seen: Desc, form: Desc, first: int, bare: Desc | None) -> Value:
    """A constant's columns from one on in a layout; it is packed once, all its parts at a time."""
    assert value.weight is not None, "weights and scales are constants"
    packed = value.weight.in_parts(form, seen, bare)[first // form.dims[-1]]
    return Value(form, Buffer(Place.CONSTANT, packed.data.nbytes, data=packed.data), form.dims)


def _product(planner: Planner, digits: Desc, columns: int, scales: Desc | None) -> tuple[Primitive, Desc | None]:
    """The product of digits, and the layout of its weights without the sums that it wants behind them, as a product of
    bytes without a sign has it."""
    groups, rows, depth = digits.dims
    target = Desc.plain((groups, rows, columns))
    held = Desc.any((groups, depth, columns), Element.S8)
    if depth < _LONG:
        held = Desc.plain(held.dims, Element.S8)
    posts = () if scales is None else (Operand(Binary.MUL, scales),)
    work = float(math.prod(target.dims) * depth)
    if rows == 1 and depth >= _LONG:
        # For one row oneDNN 3.13 prefers a form of its own where there is AMX: a word and a prompt share one.
        several, bare = _product(planner, Desc.plain((groups, 2, depth), digits.dtype), columns, scales)
        form = several.arguments[Argument.WEIGHTS]
        return planner.make_heavy(lambda: primitives.matmul(digits, form, None, target, posts), work), bare
    unsigned = Desc.plain(digits.dims, Element.U8)
    other = planner.make_heavy(lambda: primitives.matmul(unsigned, held, None, target), work)
    made = planner.make_heavy(lambda: primitives.matmul(digits, held, None, target, posts), work)
    form, bare = made.arguments[Argument.WEIGHTS], other.arguments[Argument.WEIGHTS]
    # All but what stands behind the elements: dimensions, steps, padding and blocks.
    alike = form.key is not None and bare.key is not None and form.key[:5] == bare.key[:5]
    return made, bare if alike and bare.is_dense else None


def _combined(planner: Planner, sums: Value, factors: Value, rows: int) -> Value:
    """Sums of blocks and digits, each times what it is worth: (rows, 1, N)."""
    terms = factors.dims[-1]
    columns = sums.dims[-1]
    seen = Desc.strided((rows, terms, columns), (columns, rows * columns, 1))
    target = Desc.plain((rows, 1, columns))
    given = Value(seen, sums.buffer, seen.dims)
    if rows == 1:
        # Of two dimensions, for which the library has faster code.
        seen, target = Desc.plain((terms, columns)), Desc.plain((1, columns))
        given = Value(seen, sums.buffer, seen.dims)
        factors = planner.reshaped(factors, (1, terms))
    primitive = planner.make_heavy(
        lambda: primitives.matmul(factors.desc, seen, None, target),
        float(rows * terms * columns),
    )
    found = planner.new(target)
    planner.emit(primitive, {Argument.SRC: factors, Argument.WEIGHTS: given, Argument.DST: found})
    return planner.view(found, Desc.plain((rows, 1, columns)))
