"""Weights in blocks as panels of columns: one form for two kinds of products.

Products of float32 want columns of weights in panels, all rows of one behind each other. Bytes that lie in the same
order become float32 in a fifth of the time that any other order takes, and products of digits read them as they are, in
one and a half times the time that the library's own order of bytes takes. So a session that does both holds one form.

Before it `block_quantized` decides which product is made and cuts numbers into digits; what follows is its own again.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from ort_py_onednn.binding import primitives
from ort_py_onednn.binding.constants import Argument, Element
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.primitive import Primitive, Scaling, Unimplemented
from ort_py_onednn.execution.plan import Buffer, Place
from ort_py_onednn.lowering.planner import Planner, Value

__all__ = ["combined", "dequantized", "sums"]

Array: TypeAlias = np.ndarray[Any, Any]

_USUAL = 64
"""Rows for which products are asked how they want their weights: all plans are to find the same form."""


def dequantized(planner: Planner, weights: Value, scales: Value) -> Value:
    """Weights as float32 (K, N), in memory of the run, where a product of many rows wants them.

    Args:
        planner: The planner.
        weights: Constant (blocks, size, N) int8.
        scales: Constant (blocks, 1, N).
    """
    count, size, columns = weights.dims
    form, width = _wanted(planner, (count * size, columns))
    parts = columns // width
    integers, factors = _held(weights, scales, width, (0, columns))
    # Three dimensions: with scales along the first two of four oneDNN 3.2 computes something else.
    dims = (parts * count, size, width)
    integers = planner.view(integers, Desc.plain(dims, Element.S8))
    made = _scaling(planner, integers.desc, Desc.plain(dims))
    found = planner.new(Desc.plain(dims))
    planner.emit(
        made,
        {
            Argument.SRC: integers,
            Argument.scales(Argument.SRC): factors,
            Argument.DST: found,
        },
    )
    return planner.view(found, form)


def sums(
    planner: Planner,
    digits: Value,
    weights: Value,
    scales: Value,
    part: tuple[int, int],
) -> Value | None:
    """Products of each block, with its scales, for a part of the columns.

    Args:
        planner: The planner.
        digits: (groups, blocks of a group · digits · rows, K of a group) int8.
        weights: Constant (blocks, size, N) int8.
        scales: Constant (blocks, 1, N).
        part: The first column and how many.

    Returns:
        (panels, blocks, digits · rows, columns of a panel); None where oneDNN has only slow code, or panels do not
        divide the part.
    """
    count, size, columns = weights.dims
    _, width = _wanted(planner, (count * size, columns))
    groups, rows, depth = digits.dims
    if part[1] % width:
        return None
    panels = part[1] // width
    source, held = (
        Desc.plain((1, groups, rows, depth), Element.S8),
        Desc.plain((panels, groups, depth, width), Element.S8),
    )
    target = Desc.plain((panels, groups, rows, width))
    try:
        made = planner.make_heavy(
            lambda: primitives.matmul(source, held, None, target),
            float(math.prod(target.dims) * depth),
        )
    except Unimplemented:
        return None
    if made.is_reference:
        return None
    integers, factors = _held(weights, scales, width, part)
    whole = planner.new(target)
    values = {
        Argument.SRC: planner.view(digits, source),
        Argument.WEIGHTS: planner.view(integers, held),
    }
    planner.emit(made, {**values, Argument.DST: whole})
    rows = rows * groups // count
    seen = Desc.plain((panels * count, rows, width))
    # A reorder with scales takes three quarters of the time of a product with a tensor that broadcasts.
    scaled = _scaling(planner, seen, seen)
    found = planner.new(seen)
    values = {
        Argument.SRC: planner.view(whole, seen),
        Argument.scales(Argument.SRC): factors,
    }
    planner.emit(scaled, {**values, Argument.DST: found})
    return planner.view(found, Desc.plain((panels, count, rows, width)))


def combined(planner: Planner, found: Value, factors: Value, rows: int) -> Value:
    """Combine the results of `sums`, each times its factor: (rows, 1, columns).

    Args:
        planner: The planner.
        found: The sums.
        factors: (rows, 1, blocks · digits).
        rows: Of the result.
    """
    panels, count, high, width = found.dims
    terms, columns = factors.dims[-1], panels * width
    left, seen = Desc.plain((1, 1, terms)), Desc.plain((panels, terms, width))
    target = Desc.plain((panels, 1, width))
    if rows > 1:
        left = Desc.plain((1, rows, 1, terms))
        seen = Desc.strided((panels, rows, terms, width), (count * high * width, width, rows * width, 1))
        target = Desc.strided((panels, rows, 1, width), (width, columns, columns, 1))
    made = planner.make_heavy(
        lambda: primitives.matmul(left, seen, None, target),
        float(rows * terms * columns),
    )
    whole = planner.new(Desc.plain((rows, 1, columns)))
    values = {
        Argument.SRC: planner.view(factors, left),
        Argument.WEIGHTS: planner.view(found, seen),
    }
    planner.emit(made, {**values, Argument.DST: planner.view(whole, target)})
    return whole


def _scaling(planner: Planner, source: Desc, target: Desc) -> Primitive:
    """A copy with a factor for each first and last index of three."""
    scaling = Scaling({Argument.SRC: (0b101, source.dims[0] * source.dims[2])})
    return planner.make(lambda: primitives.reorder(source, target, (), scaling), target)


def _held(weights: Value, scales: Value, width: int, part: tuple[int, int]) -> tuple[Value, Value]:
    """Panels of a part of the columns: integers (panels · blocks, size, width), and factors, a vector."""
    count, size, columns = weights.dims
    assert weights.weight is not None, "weights are constants"
    assert scales.weight is not None, "scales are constants"
    dims, steps = (
        (columns // width, count, size, width),
        (width, size * columns, columns, 1),
    )
    cut = Desc.strided(dims, steps, Element.S8)
    integers = weights.weight.in_layout(Desc.plain(dims, Element.S8), cut).data
    narrow = (columns // width, count, 1, width)
    factors = scales.weight.in_layout(Desc.plain(narrow), Desc.strided(narrow, (width, columns, columns, 1))).data
    first, number = (place // width for place in part)
    return (
        _piece(
            integers,
            first,
            Desc.plain((number * count, size, width), Element.S8),
            number,
        ),
        _piece(factors, first, Desc.plain((number * count * width,)), number),
    )


def _piece(data: Array, first: int, desc: Desc, number: int) -> Value:
    """Some panels of a constant."""
    step = desc.nbytes // number
    piece = data[first * step :][: desc.nbytes]
    return Value(desc, Buffer(Place.CONSTANT, desc.nbytes, data=piece), desc.dims)


def _wanted(planner: Planner, dims: tuple[int, int]) -> tuple[Desc, int]:
    """The layout of weights that a product of many rows wants and how many columns lie together there: all, where that
    is not of such a kind."""
    depth, columns = dims
    target, any_way = Desc.plain((_USUAL, columns)), Desc.any(dims)
    source = Desc.plain((_USUAL, depth))
    work = float(_USUAL * depth * columns)
    form = planner.make_heavy(lambda: primitives.matmul(source, any_way, None, target), work).arguments[
        Argument.WEIGHTS
    ]
    if form.key is not None and form.is_dense and form.key[2] == dims:
        blocks, places = form.key[3]
        if places == (0, 1) and form.strides == (
            blocks[0] * blocks[1],
            depth * blocks[1],
        ):
            return form, blocks[1]
    return Desc.plain(dims), columns
