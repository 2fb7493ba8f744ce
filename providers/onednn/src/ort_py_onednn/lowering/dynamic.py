"""DynamicQuantizeLinear: a scale and a zero point found in a run, by code of our own or primitives that feed one
another.

What they find stays where it is: a product takes scale and zero point as arguments when it runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ort_py_onednn.binding import primitives
from ort_py_onednn.binding.constants import F32, Algorithm, Argument, Binary, Element, Eltwise
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.dynamic_quantization import DynamicQuantization, has_dynamic_quantization
from ort_py_onednn.binding.primitive import Function, Operand, PostOp, Primitive
from ort_py_onednn.graph.functions import linear
from ort_py_onednn.graph.operation import Operation
from ort_py_onednn.lowering.planner import Planner, Value

__all__ = ["dynamic_quantize", "quantized_rows"]

_MOST = 255

_SHARED = 1 << 15
"""Elements from which on several threads take less time than one call."""


def dynamic_quantize(planner: Planner, operation: Operation) -> None:
    """ONNX DynamicQuantizeLinear: x → integers (uint8), scale, zero point; the range always holds 0."""
    source = planner.value(operation.inputs[0])
    source = planner.plain(planner.converted(source, F32))
    size = math.prod(source.dims)
    if has_dynamic_quantization(planner.library, size) and (size < _SHARED or planner.threads == 1):
        found, numbers = quantized_rows(planner, planner.reshaped(source, (1, size)))
        scale, zero = (planner.piece(numbers, place, Desc.plain((1,))) for place in range(2))
        made = planner.reshaped(found, source.dims), scale, planner.converted(zero, Element.U8)
    else:
        made = _by_primitives(planner, source)
    for name, value, shape in zip(operation.outputs, made, (source.shape, (), ()), strict=False):
        if name:
            planner.bind(name, Value(value.desc, value.buffer, shape))


def quantized_rows(planner: Planner, source: Value, tiny: float = 0.0) -> tuple[Value, Value]:
    """Bytes of rows of plain numbers, each with a scale and zero point of its own; and all scales with all zero points
    behind them, (2, rows). In one call, for which there has to be code.

    Args:
        tiny: The least scale; with 0, a range of nothing has the scale 1.
    """
    rows, size = source.dims
    bytes_, numbers = planner.new(Desc.plain((rows, size), Element.U8)), planner.new(Desc.plain((2, rows)))
    own = planner.make(lambda: DynamicQuantization(planner.library, rows, size, tiny), Desc.plain((1,)))
    planner.emit(own, {Argument.SRC: source, Argument.DST: bytes_, Argument.DST_1: numbers})
    return bytes_, numbers


def _by_primitives(planner: Planner, source: Value) -> tuple[Value, Value, Value]:
    """The same by primitives that feed one another, and may share their work among threads."""
    high = _extreme(planner, source, Algorithm.REDUCTION_MAX, (0.0, math.inf))
    low = _extreme(planner, source, Algorithm.REDUCTION_MIN, (-math.inf, 0.0))
    width = planner.combine(Binary.SUB, high, low)
    scale = planner.combine(Binary.DIV, width, planner.fixed(np.full(1, _MOST, np.float32)))
    # A range of nothing has the scale 1. The constant stands first, for a result may be written over the first operand.
    none = planner.combine(Binary.EQ, planner.fixed(np.zeros(1, np.float32)), scale)
    scale = planner.combine(Binary.ADD, scale, none)
    steps = [linear(-1.0), Function(Eltwise.ROUND), Function(Eltwise.CLIP_V2, 0.0, _MOST)]
    zero = planner.combine(Binary.DIV, low, scale, steps)
    return _quantized(planner, source, scale, zero), scale, planner.converted(zero, Element.U8)


def _extreme(planner: Planner, source: Value, algorithm: int, bounds: tuple[float, float]) -> Value:
    flat = planner.reshaped(source, (1, math.prod(source.dims)))
    desc, target = flat.desc, Desc.plain((1, 1))
    bound = Function(Eltwise.CLIP_V2, *bounds)
    if desc.dims == target.dims:  # there are no reductions of one number
        found = planner.new(target)
        made = planner.make(lambda: primitives.eltwise(bound, desc, target), target)
        planner.emit(made, {Argument.SRC: flat, Argument.DST: found})
        return planner.reshaped(found, (1,))

    def build(posts: Sequence[PostOp]) -> Primitive:
        return primitives.reduction(algorithm, desc, target, posts)

    def values(_: Primitive) -> Mapping[int, Value]:
        return {Argument.SRC: flat}

    found = planner.with_posts(build, values, target, (1, 1), [bound])
    return planner.reshaped(found, (1,))


def _quantized(planner: Planner, source: Value, scale: Value, zero: Value) -> Value:
    """round(x / scale) + zero in one primitive."""
    one = Desc.plain((1,) * len(source.dims))
    target = Desc.plain(source.dims, Element.U8)
    posts = (Function(Eltwise.ROUND), Operand(Binary.ADD, one))
    desc = source.desc
    primitive = planner.make(lambda: primitives.binary(Binary.DIV, desc, one, target, posts), desc)
    found = planner.new(target, source.shape)
    given = {
        Argument.SRC: source,
        Argument.SRC_1: planner.view(scale, one),
        Argument.post_op(1): planner.view(zero, one),
        Argument.DST: found,
    }
    planner.emit(primitive, given)
    return found
