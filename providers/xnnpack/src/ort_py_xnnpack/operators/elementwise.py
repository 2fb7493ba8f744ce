"""Functions of single elements, with operands that are repeated along axes.

`Max` and `Min` lose NaN on x86-64, as bounds of float16 do, so what they read is watched. `Sigmoid` is NaN where
its argument is huge, so that is clamped before.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ort_py.contracts import NodeSpec, ValueSpec
from ort_py_xnnpack.binding.constants import (
    ADD,
    DIVIDE,
    INFINITY,
    MAXIMUM,
    MINIMUM,
    MULTIPLY,
    PRELU,
    SUBTRACT,
    Unary,
)
from ort_py_xnnpack.graph.grids import BYTES
from ort_py_xnnpack.graph.widening import is_half
from ort_py_xnnpack.operators.operator import FLOATS, Check, Constants, Lower, Operator, attribute, constant

if TYPE_CHECKING:
    from ort_py_xnnpack.execution.builder import Builder, Order

__all__ = ["OPERATORS", "bounds"]

_SATURATED = 110.0
"""Argument from which a sigmoid is 1 or, with the opposite sign, 0."""


def _function(kind: Unary, first: float = 0.0, second: float = 0.0) -> Lower:
    def lower(builder: Builder, node: NodeSpec) -> None:
        _unary(builder, node, kind, first, second)

    return lower


def _unary(builder: Builder, node: NodeSpec, kind: Unary, first: float = 0.0, second: float = 0.0) -> None:
    x = node.inputs[0]
    order = builder.order(x)
    source = builder.read(x, order)
    if kind is Unary.CLAMP and is_half(x):
        builder.watch(source)
    builder.unary(kind, source, builder.write(node.outputs[0], builder.shape(x), order), first, second)


def _finite(name: str, default: float, *, positive: bool = False) -> Check:
    """A check that an attribute is a number that XNNPACK takes."""

    def check(node: NodeSpec, graph: Constants) -> str | None:
        number = float(attribute(node, name, default))
        if not math.isfinite(number) or (positive and number <= 0):
            return f"its {name} is {number}"
        return None

    return check


def _leaky(builder: Builder, node: NodeSpec) -> None:
    _unary(builder, node, Unary.LEAKY_RELU, float(attribute(node, "alpha", 0.01)))


def _elu(builder: Builder, node: NodeSpec) -> None:
    _unary(builder, node, Unary.ELU, float(attribute(node, "alpha", 1.0)))


def _gelu(builder: Builder, node: NodeSpec) -> None:
    near = attribute(node, "approximate", "none") == "tanh"
    _unary(builder, node, Unary.APPROXIMATE_GELU if near else Unary.GELU)


def _sigmoid(builder: Builder, node: NodeSpec) -> None:
    x = node.inputs[0]
    order, shape = builder.order(x), builder.shape(x)
    source = builder.read(x, order)
    if not is_half(x):  # of which none is that large
        bounded = builder.between(tuple(shape[axis] for axis in order))
        builder.unary(Unary.CLAMP, source, bounded, -_SATURATED, _SATURATED)
        source = bounded
    builder.unary(Unary.SIGMOID, source, builder.write(node.outputs[0], shape, order))


def _hard_sigmoid(builder: Builder, node: NodeSpec) -> None:
    x = node.inputs[0]
    order, shape = builder.order(x), builder.shape(x)
    stored = tuple(shape[axis] for axis in order)
    scaled, moved = builder.between(stored), builder.between(stored)
    slope, start = float(attribute(node, "alpha", 0.2)), float(attribute(node, "beta", 0.5))
    builder.binary(MULTIPLY, builder.read(x, order), builder.number(np.full(1, slope, np.float32)), scaled)
    builder.binary(ADD, scaled, builder.number(np.full(1, start, np.float32)), moved)
    builder.unary(Unary.CLAMP, moved, builder.write(node.outputs[0], shape, order), 0.0, 1.0)


def bounds(node: NodeSpec, graph: Constants) -> tuple[float, float] | str:
    """The smallest and the largest number that a Clip gives, or why it has none."""
    found = []
    for place, name, default in ((1, "min", -INFINITY), (2, "max", INFINITY)):
        number = constant(node, graph, place)
        found.append(float(attribute(node, name, default) if number is None else np.asarray(number).reshape(-1)[0]))
    if not found[0] < found[1]:
        return "its bounds leave no number between them"
    return found[0], found[1]


def _check_clip(node: NodeSpec, graph: Constants) -> str | None:
    found = bounds(node, graph)
    return found if isinstance(found, str) else None


def _clip(builder: Builder, node: NodeSpec) -> None:
    found = bounds(node, builder.graph)
    assert not isinstance(found, str)
    _unary(builder, node, Unary.CLAMP, *found)


def _same(builder: Builder, node: NodeSpec) -> None:
    builder.alias(node.outputs[0], node.inputs[0])


def _common_order(builder: Builder, values: list[ValueSpec | None], count: int) -> Order:
    """The order of the result, in which all operands that have all of its axes are read."""
    full = [one for one in values if not builder.is_constant(one) and len(builder.shape(one)) == count]
    fewer = any(not builder.is_constant(one) and 1 < len(builder.shape(one)) < count for one in values)
    return tuple(range(count)) if fewer or not full else builder.order(*full)


def _operand(builder: Builder, value: ValueSpec | None, order: Order) -> int:
    """An operand in an order of the result's axes; missing axes come first."""
    shape = builder.shape(value)
    if len(shape) == len(order):
        return builder.read(value, order)
    if builder.is_constant(value):
        array = builder.constant(value)
        moved = array.reshape((1,) * (len(order) - array.ndim) + array.shape).transpose(order)
        return builder.number(moved, builder.grid_of(value))
    number = builder.read(value)
    if order == tuple(range(len(order))) or not shape:
        return number
    wide = tuple(shape[0] if axis == len(order) - 1 else 1 for axis in order)
    target = builder.between(wide, builder.grid(number))
    builder.reshape(number, target, wide)
    return target


def _binary(kind: int, *, watched: bool = False) -> Lower:
    def lower(builder: Builder, node: NodeSpec) -> None:
        values = list(node.inputs)
        if len(values) == 1:
            _same(builder, node)
            return
        shape = np.broadcast_shapes(*(builder.shape(value) for value in values))
        order = _common_order(builder, values, len(shape))
        numbers = [_operand(builder, value, order) for value in values]
        if watched:
            for number in numbers:
                builder.watch(number)
        total, sizes = numbers[0], builder.shape(values[0])
        for value, number in zip(values[1:-1], numbers[1:-1], strict=True):
            sizes = np.broadcast_shapes(sizes, builder.shape(value))
            wide = (1,) * (len(order) - len(sizes)) + sizes
            between = builder.between(tuple(wide[axis] for axis in order))
            builder.binary(kind, total, number, between)
            total = between
        builder.binary(kind, total, numbers[-1], builder.write(node.outputs[0], shape, order))

    return lower


OPERATORS = {
    "Abs": Operator(_function(Unary.ABS), half=True),
    "Add": Operator(_binary(ADD), since=7, half=True),
    "Clip": Operator(_clip, _check_clip, looked_at=frozenset({1, 2}), half=True),
    "Div": Operator(_binary(DIVIDE), since=7, half=True),
    "Elu": Operator(_elu, _finite("alpha", 1.0, positive=True)),
    "Gelu": Operator(_gelu),
    "HardSigmoid": Operator(_hard_sigmoid),
    "HardSwish": Operator(_function(Unary.HARD_SWISH), half=True),
    "Identity": Operator(_same, takes=FLOATS | BYTES, gives=FLOATS | BYTES, half=True),
    "LeakyRelu": Operator(_leaky, _finite("alpha", 0.01), half=True),
    "Max": Operator(_binary(MAXIMUM, watched=True), since=8, half=True),
    "Min": Operator(_binary(MINIMUM, watched=True), since=8, half=True),
    "Mul": Operator(_binary(MULTIPLY), since=7, half=True),
    "Neg": Operator(_function(Unary.NEGATE), half=True),
    "PRelu": Operator(_binary(PRELU), since=7, half=True),
    "Relu": Operator(_function(Unary.CLAMP, 0.0, INFINITY), half=True),
    "Round": Operator(_function(Unary.ROUND), half=True),
    "Sigmoid": Operator(_sigmoid, half=True),
    "Sub": Operator(_binary(SUBTRACT), since=7, half=True),
    "Sum": Operator(_binary(ADD), since=8),
    "Tanh": Operator(_function(Unary.TANH), half=True),
}
