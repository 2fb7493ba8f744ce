"""Products of numbers with int8 weights that have a scale for each column: as exact as float32, on bytes.

Numbers are cut into digits of 8 bits, relative to the largest of their row: three digits hold the 24 bits of a float32
but for its exponent. Products of digits and weights are exact integers, which are put together times what each digit is
worth. So weights are read as bytes, a quarter of float32's; and three products of bytes take less time than one of
float32. `block_quantized` does the like for weights that have a scale for each block.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ort_py_onednn.binding import primitives
from ort_py_onednn.binding.constants import F32, Algorithm, Argument, Binary, Element, Eltwise
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.primitive import Function, Operand, PostOp, Scaling
from ort_py_onednn.graph.functions import linear
from ort_py_onednn.graph.operation import Operation, Post
from ort_py_onednn.lowering.planner import Planner, Value
from ort_py_onednn.lowering.products import flattened

__all__ = ["BASE", "EXACT", "LARGEST", "SMALLEST", "digit_product"]

BASE = 254
"""Of digits: what rounding leaves, at most a half, times the base is at most the largest digit."""

LARGEST = 127
SMALLEST = 2.0**-119
"""Stands for the largest of zeroes, and of smaller numbers: what their digits are worth is a normal number still."""

EXACT = 3
"""Digits that hold a float32."""

_HALF = 2
"""Digits for numbers of which half the bits are asked for: 15, where bfloat16 has 8 and float16 11."""


def digit_product(planner: Planner, operation: Operation) -> None:
    """A (…, K), weights int8 (K, N), or (N, K) with the attribute transB, scales float32 (1 or N)."""
    source = planner.value(operation.inputs[0])
    weights, scales = (planner.value(name) for name in operation.inputs[1:3])
    turned = bool(operation.attributes.get("transB", 0))
    depth, columns = weights.dims[::-1] if turned else weights.dims
    rows = math.prod(source.shape[:-1])
    number = EXACT if planner.factor_type == F32 else _HALF
    name = f"{operation.inputs[0]}:{number} digits"
    if not planner.has(name):
        flat = planner.reshaped(planner.plain(planner.converted(source, F32)), (rows, depth))
        digits, units = _digits(planner, flat, number)
        planner.alias(name, digits, operation.inputs[0] or "")
        planner.alias(f"{name}' worth", units, operation.inputs[0] or "")
    digits, units = planner.value(name), planner.value(f"{name}' worth")
    strides = (1, depth) if turned else (columns, 1)
    weights = Value(Desc.strided((depth, columns), strides, Element.S8), None, (depth, columns), weights.weight)
    sums = _sums(planner, digits, weights, scales)
    found = _together(planner, sums, number, (rows, columns))
    posts: Sequence[Post] = operation.posts
    shape = (*source.shape[:-1], columns)
    now, later = flattened(planner, posts, (rows, columns), shape) if posts else ([], [])
    # What each row's digits are worth is its last factor; the rest of the chain goes into the same primitive.
    found = planner.combine(Binary.MUL, found, units, now)
    planner.bind(operation.outputs[0], planner.apply(planner.reshaped(found, shape), later))


def _digits(planner: Planner, source: Value, number: int) -> tuple[Value, Value]:
    """Digits (digits · rows, K) int8, those of one place together, and what the first is worth (rows, 1)."""
    rows, depth = source.dims
    desc, narrow = source.desc, Desc.plain((rows, 1))
    sizes = planner.new(desc)
    nothing = planner.fixed(np.zeros((1, 1), np.float32))
    # Clipping makes infinity of what is not a number: its row then has no finite result either.
    absolute = (Function(Eltwise.CLIP_V2, -math.inf, math.inf), Function(Eltwise.ABS))
    made = planner.make(lambda: primitives.binary(Binary.ADD, desc, nothing.desc, desc, absolute), desc)
    planner.emit(made, {Argument.SRC: source, Argument.SRC_1: nothing, Argument.DST: sizes})
    units = planner.new(narrow)
    posts = (Function(Eltwise.CLIP_V2, SMALLEST, math.inf), linear(1 / LARGEST))
    made = planner.make(lambda: primitives.reduction(Algorithm.REDUCTION_MAX, desc, narrow, posts), desc)
    planner.emit(made, {Argument.SRC: sizes, Argument.DST: units})
    whole = planner.new(Desc.plain((number * rows, depth), Element.S8))
    digit = Desc.plain((rows, depth), Element.S8)
    pieces = [planner.piece(whole, place * rows * depth, digit) for place in range(number)]
    chain: list[PostOp] = []
    given = {Argument.SRC: source, Argument.SRC_1: units}
    for piece in pieces:
        steps = tuple(chain)
        made = planner.make(lambda: primitives.binary(Binary.DIV, desc, narrow, digit, steps), desc)  # noqa: B023
        planner.emit(made, {**given, Argument.DST: piece})
        # The next digit is what rounding left of this one, times the base: exact in float32.
        given[Argument.post_op(len(chain))] = piece
        chain += [Operand(Binary.SUB, digit), linear(BASE)]
    return whole, units


def _sums(planner: Planner, digits: Value, weights: Value, scales: Value) -> Value:
    """Products of all digits: (digits · rows, N)."""
    depth, columns = weights.dims
    target = Desc.plain((digits.dims[0], columns))
    count = scales.dims[-1]
    side = Argument.WEIGHTS
    scaling = Scaling({side: (2 if count > 1 else 0, count)})
    held = Desc.any((depth, columns), Element.S8)
    work = float(math.prod(target.dims) * depth)
    made = planner.make_heavy(lambda: primitives.matmul(digits.desc, held, None, target, (), scaling), work)
    threads = planner.count
    packed = planner.in_layout(weights, made.arguments[Argument.WEIGHTS])
    planner.buffer_of(scales)
    found = planner.new(target)
    planner.count = threads
    given = {Argument.SRC: digits, side: packed, Argument.scales(side): scales, Argument.DST: found}
    planner.emit(made, given)
    return found


def _together(planner: Planner, sums: Value, number: int, dims: tuple[int, int]) -> Value:
    """The sum of all digits' products, each a base less than the one before."""
    desc = Desc.plain(dims)
    pieces = [planner.piece(sums, place * math.prod(dims), desc) for place in range(number)]
    less = planner.fixed(np.full((1, 1), 1 / BASE, np.float32))
    chain: list[PostOp] = []
    given = {Argument.SRC: pieces[-1], Argument.SRC_1: less}
    for place, piece in enumerate(reversed(pieces[:-1])):
        chain += [linear(1 / BASE)] if place else []
        given[Argument.post_op(len(chain))] = piece
        chain.append(Operand(Binary.ADD, desc))
    made = planner.make(lambda: primitives.binary(Binary.MUL, desc, less.desc, desc, tuple(chain)), desc)
    given[Argument.DST] = planner.new(desc)
    planner.emit(made, given)
    return given[Argument.DST]
