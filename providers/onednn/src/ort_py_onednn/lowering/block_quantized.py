"""MatMulNBits: products with int8 weights that have a scale a block of rows.

For a few rows, numbers are cut into digits of 8 bits, relative to the largest of their block: three digits hold the 24
bits of a float32 but for its exponent. The products of digits and weights are exact integers; scales and the weights
of digits are applied to sums of blocks. So weights are read as bytes, and one row takes a fraction of the time of a
float32 product. For many rows weights are made float32 ahead, in the order in which a product wants them, which takes
as long as a product of few rows; so a model that does both has them twice, as bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ort_py_onednn.binding import primitives
from ort_py_onednn.binding.constants import F32, Algorithm, Argument, Binary, Element, Eltwise
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.primitive import Function, Operand, PostOp, Primitive, Scaling
from ort_py_onednn.graph.functions import linear
from ort_py_onednn.graph.operation import Combine, Operation, Post
from ort_py_onednn.lowering import products
from ort_py_onednn.lowering.planner import Planner, Value
from ort_py_onednn.lowering.quantized import written

__all__ = ["block_product"]

_FEW = 4
"""Rows up to which digits are faster."""

_COARSE = 64
"""Divisor of the square of a block's size: rows up to which one digit of 8 bits is faster than converting weights. The
sums of blocks are written and read again, and for short blocks there are more of them than fit into the cache."""

_BASE = 254
"""Of digits: what rounding leaves, at most a half, times the base is at most the largest digit."""

_LARGEST = 127
_SMALLEST = 1e-30
"""Stands for the largest of a block of zeroes, and of numbers so small that a float32 product loses them too."""

_LONG = 64
"""Rows of a block from which weights are faster in blocks of the library's own."""


def block_product(planner: Planner, operation: Operation) -> None:
    """com.microsoft MatMulNBits: A (…, K), weights (blocks, size, N) int8, scales (blocks, 1, N), bias (N)."""
    source = planner.value(operation.inputs[0])
    source = planner.plain(planner.converted(source, F32))
    weights, scales = (planner.value(name) for name in operation.inputs[1:3])
    count, size, columns = weights.dims
    bias = operation.inputs[3]
    posts: list[Post] = list(operation.posts)
    if bias is not None:
        posts.insert(0, Combine(Binary.ADD, bias))
    shape = (*source.shape[:-1], columns)
    rows = math.prod(source.shape[:-1])
    if rows > max(_FEW, size * size // _COARSE if operation.attributes["coarse"] else 0):
        real = _dequantized(planner, weights, scales, rows)
        name = f"{operation.name}:weights"
        planner.alias(name, real, operation.inputs[0] or "")
        inputs = (operation.inputs[0], name)
        products.matmul(planner, replace(operation, kind="MatMul", inputs=inputs, posts=posts))
        return
    digits, factors = _digits(planner, source, (rows, count, size), 1 if operation.attributes["coarse"] else 3)
    sums = _sums(planner, digits, weights, scales)
    found = _combined(planner, sums, factors, rows)
    found = planner.reshaped(found, shape)
    planner.bind(operation.outputs[0], planner.apply(found, posts))


def _digits(planner: Planner, source: Value, dims: tuple[int, int, int], number: int) -> tuple[Value, Value]:
    """Digits (blocks, digits · rows, size) int8, and what each is worth: (rows, blocks · digits)."""
    rows, count, size = dims
    flat = planner.view(source, Desc.plain((rows * count, size)))
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
    together = _together(count, size)
    whole = planner.new(Desc.plain((count // together, together * number * rows, together * size), Element.S8))
    seen = Desc.strided((count // together, rows, together * size), (together * size, count * size, 1))
    if together > 1:
        planner.zero(whole)
    left = planner.new(desc)
    planner.emit(
        planner.make(lambda: primitives.binary(Binary.DIV, desc, narrow, desc), desc),
        {Argument.SRC: flat, Argument.SRC_1: units, Argument.DST: left},
    )
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
            _rest(planner, left)
    worth = planner.fixed(np.array([[float(_BASE) ** -place for place in range(number)]], np.float32))
    factors = _products_of(planner, units, worth, (rows * count, number))
    return whole, planner.reshaped(factors, (rows, 1, count * number))


def _rest(planner: Planner, value: Value) -> None:
    """What rounding leaves of numbers, times the base, in their place: exact, and the next digit when rounded."""
    desc = value.desc
    rounded = planner.new(desc)
    function, posts = Function(Eltwise.ROUND), (linear(_BASE),)
    planner.emit(
        planner.make(lambda: primitives.eltwise(function, desc, desc), desc),
        {Argument.SRC: value, Argument.DST: rounded},
    )
    planner.emit(
        planner.make(lambda: primitives.binary(Binary.SUB, desc, desc, desc, posts), desc),
        {Argument.SRC: value, Argument.SRC_1: rounded, Argument.DST: value},
    )


def _products_of(planner: Planner, column: Value, row: Value, dims: tuple[int, int]) -> Value:
    """The outer product of a column and a row."""
    found = planner.new(Desc.plain(dims))
    primitive = planner.make(lambda: primitives.matmul(column.desc, row.desc, None, found.desc), found.desc)
    planner.emit(primitive, {Argument.SRC: column, Argument.WEIGHTS: row, Argument.DST: found})
    return found


def _together(count: int, size: int) -> int:
    """How many short blocks are one for the product, which is slow for few columns."""
    found = max(1, _LONG // size)
    return found if count % found == 0 else 1


def _sums(planner: Planner, digits: Value, weights: Value, scales: Value) -> Value:
    """Products of each block, with its scales: (blocks, digits · rows, N)."""
    count, _, columns = weights.dims
    groups, rows, depth = digits.dims
    primitive = _product(planner, digits.desc, columns, None if groups < count else scales.desc)
    threads = planner.count
    held = planner.reshaped(weights, (groups, depth, columns))
    given = {
        Argument.SRC: digits,
        Argument.WEIGHTS: planner.in_layout(held, primitive.arguments[Argument.WEIGHTS]),
        Argument.DST: planner.new(primitive.arguments[Argument.DST]),
    }
    planner.buffer_of(scales)
    if groups == count:
        given[Argument.post_op(0)] = scales
    planner.count = threads
    planner.emit(primitive, given)
    found = given[Argument.DST]
    if groups == count:
        return found
    spread = planner.view(found, Desc.plain((count, rows * groups // count, columns)))
    multiplied = planner.make(lambda: primitives.binary(Binary.MUL, spread.desc, scales.desc, spread.desc), spread.desc)
    planner.emit(multiplied, {Argument.SRC: spread, Argument.SRC_1: scales, Argument.DST: spread})
    return spread


def _product(planner: Planner, digits: Desc, columns: int, scales: Desc | None) -> Primitive:
    groups, rows, depth = digits.dims
    target = Desc.plain((groups, rows, columns))
    held = Desc.any((groups, depth, columns), Element.S8)
    if depth < _LONG:
        held = Desc.plain(held.dims, Element.S8)
    posts = () if scales is None else (Operand(Binary.MUL, scales),)
    work = float(math.prod(target.dims) * depth)
    return planner.make_heavy(lambda: primitives.matmul(digits, held, None, target, posts), work)


def _combined(planner: Planner, sums: Value, factors: Value, rows: int) -> Value:
    """Sums of blocks and digits, each times what it is worth: (rows, N)."""
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
        lambda: primitives.matmul(factors.desc, seen, None, target), float(rows * terms * columns)
    )
    found = planner.new(target)
    planner.emit(primitive, {Argument.SRC: factors, Argument.WEIGHTS: given, Argument.DST: found})
    return found


def _dequantized(planner: Planner, weights: Value, scales: Value, rows: int) -> Value:
    """Weights as float32 (K, N), in memory of the run, where a product of so many rows wants them."""
    count, size, columns = weights.dims
    depth = count * size
    form, width = _wanted(planner, rows, (depth, columns))
    parts = columns // width
    cut = Desc.strided((parts, count, size, width), (width, size * columns, columns, 1), Element.S8)
    held = planner.in_layout(Value(cut, None, cut.dims, weights.weight), Desc.plain(cut.dims, Element.S8))
    narrow = Desc.strided((parts, count, 1, width), (width, columns, columns, 1))
    factors = planner.in_layout(Value(narrow, None, narrow.dims, scales.weight), Desc.plain(narrow.dims))
    # Three dimensions: with scales along the first two of four oneDNN 3.2 computes something else.
    dims = (parts * count, size, width)
    integers, target = planner.view(held, Desc.plain(dims, Element.S8)), Desc.plain(dims)
    scaling = Scaling({Argument.SRC: (0b101, count * columns)})
    made = planner.make(lambda: primitives.reorder(integers.desc, target, (), scaling), target)
    found = planner.new(target)
    vector = planner.view(factors, Desc.plain((count * columns,)))
    planner.emit(made, {Argument.SRC: integers, Argument.scales(Argument.SRC): vector, Argument.DST: found})
    return planner.view(found, form)


def _wanted(planner: Planner, rows: int, dims: tuple[int, int]) -> tuple[Desc, int]:
    """The layout of weights that a product wants and how many columns lie together there: all, where that is not of
    such a kind."""
    depth, columns = dims
    target, any_way = Desc.plain((rows, columns)), Desc.any(dims)
    source = Desc.plain((rows, depth))
    work = float(rows * depth * columns)
    form = planner.make_heavy(lambda: primitives.matmul(source, any_way, None, target), work).arguments[
        Argument.WEIGHTS
    ]
    if form.key is not None and form.is_dense and form.key[2] == dims:
        blocks, places = form.key[3]
        if places == (0, 1) and form.strides == (blocks[0] * blocks[1], depth * blocks[1]):
            return form, blocks[1]
    return Desc.plain(dims), columns
