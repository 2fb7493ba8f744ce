"""ConvTranspose whose windows lie side by side, as the last layers of a segmentation have it: a product of matrices.

Each pixel becomes a tile of its own, so nothing is added up but channels, and oneDNN's way of a convolution against its
stride takes two to four times as long for few channels. Pixels lie with their channels innermost:

    (N·H, 1, W, C) · (1, tile rows, C, tile columns · M) → (N·H, tile rows, W, tile columns · M)

is the picture as it is wanted. Where the last dimension has a few numbers only, tiles are made whole, and then moved.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ort_py_onednn.binding import primitives
from ort_py_onednn.binding.constants import F32, Argument
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.primitive import PostOp, Primitive
from ort_py_onednn.graph.operation import Operation
from ort_py_onednn.lowering.numbers import floating
from ort_py_onednn.lowering.planner import Planner, Value

__all__ = ["tiled"]

_MOST = 32
"""Channels of the result up to which the product is faster: 1.6 times at 24, 1.0 at 64."""

_FEW = 16
"""Numbers of a row of a tile below which a tile is made whole: a register of AVX-512 is the least that is computed."""


def tiled(planner: Planner, operation: Operation) -> Value | None:
    """The result of a ConvTranspose of one group over two dimensions whose strides are its kernel, without padding;
    None where another way is as fast."""
    source, weight = planner.value(operation.inputs[0]), planner.value(operation.inputs[1])
    bias = planner.value(operation.inputs[2]) if len(operation.inputs) > 2 and operation.inputs[2] else None
    inputs, outputs, high, wide = weight.dims
    if outputs > _MOST or not source.desc.is_channels_last or operation.posts_read():
        return None
    if weight.weight is None or (bias is not None and bias.weight is None):
        return None
    batch, _, rows, columns = source.dims
    numbers = floating(planner)
    pixels = planner.in_layout(source, Desc.channels_last(source.dims, numbers.source))
    whole = wide * outputs < _FEW
    if whole:
        left: tuple[int, ...] = (batch * rows * columns, inputs)
        right: tuple[int, ...] = (inputs, high * wide * outputs)
        made: tuple[int, ...] = (left[0], right[1])
        steps = (right[1], 1, wide * outputs, outputs)
    else:
        left = (batch * rows, 1, columns, inputs)
        right = (1, high, inputs, wide * outputs)
        made = (batch * rows, high, columns, wide * outputs)
        steps = (wide * outputs, 1, inputs * wide * outputs, outputs)
    factors = planner.in_layout(weight, Desc.strided(weight.dims, steps, numbers.weights))
    given = {
        Argument.SRC: planner.view(pixels, Desc.plain(left, numbers.source)),
        Argument.WEIGHTS: planner.view(factors, Desc.plain(right, numbers.weights)),
    }
    if bias is not None:
        vector = _repeated(planner, bias, made[-1] // outputs)
        given[Argument.BIAS] = planner.reshaped(vector, (1,) * (len(made) - 1) + vector.dims)
    result = Desc.plain(made, numbers.result)

    def build(posts: Sequence[PostOp]) -> Primitive:
        third = given[Argument.BIAS].desc if bias is not None else None
        return primitives.matmul(given[Argument.SRC].desc, given[Argument.WEIGHTS].desc, third, result, posts)

    def values(_: Primitive) -> Mapping[int, Value]:
        return given

    found = planner.with_posts(build, values, result, made, operation.posts, float(math.prod(made) * inputs))
    shape = (batch, outputs, rows * high, columns * wide)
    if whole:
        found = _spread_out(planner, found, (batch * rows, columns, high, wide * outputs))
    return planner.view(found, Desc.channels_last(shape, found.dtype), shape)


def _repeated(planner: Planner, bias: Value, times: int) -> Value:
    data = planner.buffer_of(planner.plain(planner.converted(bias, F32))).data
    assert data is not None, "a constant has its bytes"
    return planner.fixed(np.tile(data.view(np.float32)[: bias.dims[0]], times))


def _spread_out(planner: Planner, tiles: Value, dims: tuple[int, int, int, int]) -> Value:
    """Whole tiles (rows, columns, rows of a tile, the rest) as rows of the picture."""
    _, columns, high, rest = dims
    source = planner.view(planner.plain(tiles), Desc.plain(dims, tiles.dtype))
    target = planner.new(Desc.strided(dims, (columns * high * rest, rest, columns * rest, 1), tiles.dtype))
    primitive = planner.make(lambda: primitives.reorder(source.desc, target.desc), target.desc)
    planner.emit(primitive, {Argument.SRC: source, Argument.DST: target})
    return target
