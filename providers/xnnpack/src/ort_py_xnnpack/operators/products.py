"""Matrix products: with constant weights, which are packed, and of two operands that a run computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ort_py.contracts import NodeSpec, ValueSpec
from ort_py_xnnpack.binding.constants import ADD, INFINITY, NO_VALUE, Flag
from ort_py_xnnpack.operators.operator import Constants, Operator, attribute, constant, rank

if TYPE_CHECKING:
    from ort_py_xnnpack.execution.builder import Builder
    from ort_py_xnnpack.operators.integers import Integers

__all__ = ["OPERATORS", "lower_integers"]


def _check_matmul(node: NodeSpec, graph: Constants) -> str | None:
    if rank(node) < 2 or rank(node, 1) < 2:
        return "one of its operands is a vector"
    if constant(node, graph, 0) is not None:
        return "its first operand is a constant"
    return None


def _matmul(builder: Builder, node: NodeSpec) -> None:
    first, second = node.inputs[0], node.inputs[1]
    left, right = builder.shape(first), builder.shape(second)
    batch = np.broadcast_shapes(left[:-2], right[:-2])
    shape = (*batch, left[-2], right[-1])
    if builder.is_constant(second) and len(right) == 2:
        filters = builder.weight(second, "columns", np.asarray)
        source = builder.read(first)
        target = builder.write(node.outputs[0], shape)
        flags = int(Flag.TRANSPOSED_WEIGHTS)
        builder.define("fully_connected", -INFINITY, INFINITY, source, filters, NO_VALUE, target, flags)
        return
    count = max(len(left), len(right), 3)
    operands = [_of_rank(builder, value, count) for value in (first, second)]
    if len(shape) == count:
        builder.define("batch_matrix_multiply", *operands, builder.write(node.outputs[0], shape), 0)
        return
    wide = builder.between((1, *shape))
    builder.define("batch_matrix_multiply", *operands, wide, 0)
    builder.reshape(wide, builder.write(node.outputs[0], shape), shape)


def lower_integers(builder: Builder, found: Integers) -> None:
    """Describe a MatMul or Gemm that computes with integers."""
    node, held = found.node, found.weights
    assert held is not None
    x = node.inputs[0]
    across = node.op_type == "Gemm" and bool(attribute(node, "transB", 0))
    columns = held.scales.size
    filters, added = builder.channels(held, "rows", np.asarray if across else np.transpose, 0)
    target = builder.write(node.outputs[0], (*builder.shape(x)[:-1], columns))
    builder.define("fully_connected", *found.limits, builder.read(x), filters, added, target, 0)


def _of_rank(builder: Builder, value: ValueSpec | None, count: int) -> int:
    shape = builder.shape(value)
    number = builder.read(value)
    if len(shape) == count:
        return number
    wide = (1,) * (count - len(shape)) + shape
    target = builder.between(wide)
    builder.reshape(number, target, wide)
    return target


def _check_gemm(node: NodeSpec, graph: Constants) -> str | None:
    if attribute(node, "transA", 0):
        return "its first operand is transposed"
    if attribute(node, "alpha", 1.0) != 1.0 or attribute(node, "beta", 1.0) != 1.0:
        return "it has factors"
    if constant(node, graph, 0) is not None:
        return "its first operand is a constant"
    return None


def _gemm(builder: Builder, node: NodeSpec) -> None:
    first, second = node.inputs[0], node.inputs[1]
    third = node.inputs[2] if len(node.inputs) > 2 else None
    across = bool(attribute(node, "transB", 0))
    rows = builder.shape(first)[0]
    columns = builder.shape(second)[0 if across else 1]
    filters = builder.weight(second, "rows" if across else "columns", np.asarray)
    source = builder.read(first)
    added, late = NO_VALUE, third
    if third is not None and builder.is_constant(third) and builder.constant(third).shape in {(columns,), (1, columns)}:
        added, late = builder.weight(third, "bias", lambda array: array.reshape(-1)), None
    product = builder.write(node.outputs[0], (rows, columns)) if late is None else builder.between((rows, columns))
    flags = 0 if across else int(Flag.TRANSPOSED_WEIGHTS)
    builder.define("fully_connected", -INFINITY, INFINITY, source, filters, added, product, flags)
    if late is not None:
        builder.binary(ADD, product, builder.read(late), builder.write(node.outputs[0], (rows, columns)))


OPERATORS = {
    "Gemm": Operator(_gemm, _check_gemm, looked_at=frozenset({1}), heavy=True, since=7),
    "MatMul": Operator(_matmul, _check_matmul, heavy=True),
}
