"""Conversions between float32 and integers of 8 bits, and between float16 and float32.

A DequantizeLinear is described where a node wants its floating-point numbers; nodes that compute with integers read
what it reads. XNNPACK multiplies with the reciprocal where a QuantizeLinear divides, which gives other integers where a
quotient lies at a half. So, unless the scale is a power of two, numbers are divided, rounded and multiplied before. A
function of single elements between the two conversions becomes a table of 256 entries in XNNPACK.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ort_py.contracts import NodeSpec
from ort_py_xnnpack.binding.constants import DIVIDE, MULTIPLY, Unary
from ort_py_xnnpack.graph.grids import BYTES
from ort_py_xnnpack.operators.operator import FLOATS, HALVES, Constants, Operator

if TYPE_CHECKING:
    from ort_py_xnnpack.execution.builder import Builder

__all__ = ["OPERATORS"]


def _dequantize(builder: Builder, node: NodeSpec) -> None:
    if not builder.is_constant(node.inputs[0]):
        builder.stands_for(node.outputs[0], node.inputs[0])


def _quantize(builder: Builder, node: NodeSpec) -> None:
    x, y = node.inputs[0], node.outputs[0]
    order = builder.order(x)
    source, shape, grid = builder.read(x, order), builder.shape(x), builder.grid_of(y)
    assert grid is not None
    builder.watch(source)  # NaN has no integer
    if math.frexp(grid.scale)[0] != 0.5:
        scale = np.full(1, grid.scale, np.float32)
        quotient, whole, multiple = (builder.between(tuple(shape[axis] for axis in order)) for _ in range(3))
        builder.binary(DIVIDE, source, builder.number(scale), quotient)
        builder.unary(Unary.ROUND, quotient, whole)
        builder.binary(MULTIPLY, whole, builder.number(scale), multiple)
        source = multiple
    builder.unary(Unary.CONVERT, source, builder.write(y, shape, order))


def _check_cast(node: NodeSpec, graph: Constants) -> str | None:
    given = node.inputs[0]
    return "it casts a constant" if given is None or graph.is_known(given.name) else None


def _cast(builder: Builder, node: NodeSpec) -> None:
    x, y = node.inputs[0], node.outputs[0]
    assert x is not None
    assert y is not None
    if x.data_type is y.data_type:
        builder.alias(y, x)
        return
    order = builder.order(x)
    builder.unary(Unary.CONVERT, builder.read(x, order), builder.write(y, builder.shape(x), order))


OPERATORS = {
    "Cast": Operator(_cast, _check_cast, takes=FLOATS | HALVES, gives=FLOATS | HALVES),
    "DequantizeLinear": Operator(_dequantize, looked_at=frozenset({1, 2}), takes=BYTES),
    "QuantizeLinear": Operator(_quantize, looked_at=frozenset({1, 2}), gives=BYTES),
}
