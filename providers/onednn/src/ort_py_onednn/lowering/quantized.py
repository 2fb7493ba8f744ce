"""Products of integers, and the conversions between integers and numbers that no product takes in.

A product's integers are added up exactly in 32 bits; its scales, zero points and bias are arguments of the primitive,
and the rounding to the next integer is its last step. Where its primitive cannot do all that is done with its result,
it writes real numbers, which are rounded by a conversion behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ort_py_onednn.binding import primitives
from ort_py_onednn.binding.constants import F32, INTEGERS, Argument, Binary, Element, Eltwise
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.primitive import Function, Scaling, Unimplemented
from ort_py_onednn.graph.functions import linear
from ort_py_onednn.graph.operation import Combine, Operation, Post, Result
from ort_py_onednn.lowering import convolution as convolutions
from ort_py_onednn.lowering import products
from ort_py_onednn.lowering.numbers import Numbers
from ort_py_onednn.lowering.planner import Planner, Value

__all__ = ["converted", "convolution", "dequantize", "last_steps", "product", "quantize", "written"]


def dequantize(planner: Planner, operation: Operation) -> None:
    """Integers with one scale to numbers."""
    source = planner.value(operation.inputs[0])
    attributes = operation.attributes
    found = converted(planner, source, F32, Argument.SRC, attributes["scale"], attributes["zero"])
    planner.bind(operation.outputs[0], planner.apply(found, operation.posts))


def quantize(planner: Planner, operation: Operation) -> None:
    """Numbers to integers with one scale."""
    source = planner.value(operation.inputs[0])
    result = operation.result
    assert result is not None
    # Divided by the scale itself, and rounded before the zero point is added, as the definition has it.
    source = planner.plain(planner.converted(source, F32)) if source.desc.is_blocked else planner.converted(source, F32)
    desc = source.desc
    target = desc.of(result.element)
    if target is None:
        source = planner.plain(source)
        desc, target = source.desc, Desc.plain(source.dims, result.element)
    goal = target
    one = Desc.plain((1,) * len(desc.dims))
    posts = (Function(Eltwise.ROUND), linear(1.0, result.zero))
    primitive = planner.make(lambda: primitives.binary(Binary.DIV, desc, one, goal, posts), desc)
    found = planner.new(goal, source.shape)
    scale = planner.fixed(np.full(one.dims, operation.attributes["scale"], np.float32))
    planner.emit(primitive, {Argument.SRC: source, Argument.SRC_1: scale, Argument.DST: found})
    planner.bind(operation.outputs[0], found)


def converted(planner: Planner, source: Value, dtype: Element, side: int, scale: float, zero: int) -> Value:
    """One reorder to another type; the scale and zero point belong to its source or its destination."""
    if source.weight is not None and source.buffer is None:
        planner.buffer_of(source)
    desc = source.desc
    target = desc.of(dtype)
    if target is None:
        source = planner.plain(source)
        desc, target = source.desc, Desc.plain(source.dims, dtype)
    found = planner.new(target, source.shape)
    written(planner, source, found, side, scale, zero)
    return found


def written(
    planner: Planner, source: Value, found: Value, side: int = Argument.DST, scale: float = 1.0, zero: int = 0
) -> None:
    """Write a value in another type; without a scale, of 1 as it may be, the library takes slow code for bytes."""
    desc, target = source.desc, found.desc
    scaling = Scaling({side: (0, 1)}, {side: (0, 1)} if zero else {})
    primitive = planner.make(lambda: primitives.reorder(desc, target, (), scaling), desc)
    given = {Argument.SRC: source, Argument.DST: found}
    given[Argument.scales(side)] = planner.fixed(np.array([scale], np.float32))
    if zero:
        given[Argument.zero_points(side)] = planner.fixed(np.array([zero], np.int32))
    planner.emit(primitive, given)


def last_steps(result: Result) -> list[Post]:
    """Operations before a number becomes an integer."""
    if not result.zero:
        return []
    even = linear(1.0, result.zero)
    return [Function(Eltwise.ROUND), even] if result.zero % 2 else [even]


def convolution(planner: Planner, operation: Operation) -> None:
    """Convolution of integers: X, W (int8), bias, scale of the sums, zero point of X."""
    group = operation.attributes.get("group", 1)
    _lowered(planner, operation, convolutions.convolution, 1 if group == 1 else 3)


def product(planner: Planner, operation: Operation) -> None:
    """Product of matrices of integers: A, B (int8), bias, scale of the sums, zero points of A and B."""
    bias = operation.inputs[2]
    posts: list[Post] = [] if bias is None else [Combine(Binary.ADD, bias)]
    whole = replace(operation, inputs=(*operation.inputs[:2], None, *operation.inputs[3:]))
    whole.posts = [*posts, *operation.posts]
    lowering = products.gemm if "transB" in operation.attributes else products.matmul
    _lowered(planner, whole, lowering, 2)


def _lowered(
    planner: Planner, operation: Operation, lowering: Callable[[Planner, Operation, Numbers], None], mask: int
) -> None:
    """Lower a product with what its integers stand for; `mask` says along which dimensions of the weights scales go."""
    source, weights = (planner.value(name) for name in operation.inputs[:2])
    scales: dict[int, tuple[int, int]] = {}
    zeros: dict[int, tuple[int, int]] = {}
    given: dict[int, Value] = {}
    names = (*operation.inputs[3:], None, None, None, None)[:4]
    for name, side in ((names[0], Argument.WEIGHTS), (names[3], Argument.SRC)):
        if name is not None:
            value = planner.value(name)
            count = value.dims[0]
            scales[side] = (mask if count > 1 else 0, count)
            given[Argument.scales(side)] = value
    for name, side in ((names[1], Argument.SRC), (names[2], Argument.WEIGHTS)):
        if name is not None:
            zeros[side] = (0, 1)
            given[Argument.zero_points(side)] = _whole(planner, planner.value(name))
    result = operation.result
    numbers = Numbers(source.dtype, weights.dtype, F32, Scaling(scales, zeros), given)
    if result is None:
        lowering(planner, operation, numbers)
        return
    posts = [*operation.posts, *last_steps(result)]
    try:
        lowering(planner, replace(operation, posts=posts), replace(numbers, result=result.element))
    except Unimplemented:
        lowering(planner, replace(operation, posts=posts), numbers)
        name = operation.outputs[0]
        found = planner.value(name)
        planner.bind(name, converted(planner, found, result.element, Argument.DST, 1.0, 0))
    assert planner.value(operation.outputs[0]).dtype in INTEGERS


def _whole(planner: Planner, value: Value) -> Value:
    """A zero point as a primitive wants it."""
    return planner.in_layout(planner.reshaped(value, (1,)), Desc.plain((1,), Element.S32))
