"""Weights of 8 bits that Cast, Sub and Mul widen become DequantizeLinear, and rows of a table are widened once picked.

Some exporters write the definition out. Folded, such weights take four times their bytes, and their integers are no
longer visible. Runs before constants are folded, in sessions with a provider that uses the integers (see
`IExecutionProvider.dequantizes_constants`); `dequantized_weights` computes the rest once. Only for the second factor of
a matrix product, where reading fewer bytes pays, and for large tables of which Gather picks a few rows in each run. The
numbers are the same to the last bit.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TypeAlias

import numpy as np

from ort_py.contracts import Array, GraphEditor, Level, NodeSpec, NodeTemplate, RewriteRule, TransformContext, ValueSpec
from ort_py.dtypes import DataType, numpy_dtype

_WHOLE = (DataType.INT8, DataType.UINT8)
_PRODUCTS = ("MatMul", "Gemm")
_AXES = 13
"""Version of Cast in models whose DequantizeLinear may have a scale for each entry of an axis."""

_LARGE = 1 << 18
"""Elements of a table from which on its rows are widened in each run."""

_Vector: TypeAlias = tuple[Array, int]
"""Numbers, and the axis they go along."""


class RecogniseWidenedWeights(RewriteRule):
    """Cast of constant bytes, perhaps Sub of a zero point, Mul by a scale: DequantizeLinear."""

    name = "WidenedWeights"
    level = Level.BASIC
    op_types = frozenset({"Cast"})

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        held, widened = node.inputs[0], node.outputs[0]
        if held is None or widened is None or not held.constant or node.domain or node.since_version < _AXES:
            return False
        if held.data_type not in _WHOLE or held.shape is None or widened.data_type is not DataType.FLOAT:
            return False
        shape = tuple(int(size) for size in held.shape if isinstance(size, int))
        chain, zeros, scales = [node], None, None
        for op_type in ("Sub", "Mul"):
            made = chain[-1].outputs[0]
            found = _only_reader(graph, made, op_type)
            if found is None or made is None:
                continue
            other = _other(found, made)
            if other is None or not other.constant:
                return False
            if op_type == "Sub":
                zeros = other
            else:
                scales = other
            chain.append(found)
        made = chain[-1].outputs[0]
        if scales is None or made is None:
            return False
        if not _multiplies(graph, made):
            return prod(shape) >= _LARGE and _pick_rows(graph, chain, held, [zeros, scales], shape)
        scale = _vector(graph.constant(scales), shape)
        if isinstance(scale, str):
            return f"the scale of '{held.name}' {scale}"
        zero = None if zeros is None else _zero(graph.constant(zeros), shape, scale, held.data_type)
        if isinstance(zero, str):
            return f"the zero point of '{held.name}' {zero}"
        inputs = [held.name, graph.add_constant(f"{made.name}/scale", scale[0])]
        if zero is not None:
            inputs.append(graph.add_constant(f"{made.name}/zero_point", zero))
        graph.replace_nodes(chain, [NodeTemplate("DequantizeLinear", tuple(inputs), (made.name,), {"axis": scale[1]})])
        return True


def _only_reader(graph: GraphEditor, value: ValueSpec | None, op_type: str) -> NodeSpec | None:
    """The one node that reads a value, where it is of an operator, and for Sub where the value is what is reduced."""
    if value is None or graph.uses(value) != 1 or graph.is_output(value):
        return None
    readers = graph.readers(value)
    if len(readers) != 1 or readers[0].domain or readers[0].op_type != op_type:
        return None
    first = readers[0].inputs[0]
    return readers[0] if op_type == "Mul" or (first is not None and first.name == value.name) else None


def _other(node: NodeSpec, value: ValueSpec) -> ValueSpec | None:
    return next((one for one in node.inputs if one is None or one.name != value.name), None)


def _multiplies(graph: GraphEditor, value: ValueSpec) -> bool:
    """Return whether a value is read only as the second factor of products."""
    readers = graph.readers(value)
    if not readers or graph.is_output(value) or graph.uses(value) != len(readers):
        return False
    return all(
        not one.domain
        and one.op_type in _PRODUCTS
        and (second := one.inputs[1]) is not None
        and second.name == value.name
        for one in readers
    )


def _pick_rows(
    graph: GraphEditor, chain: list[NodeSpec], held: ValueSpec, others: list[ValueSpec | None], shape: tuple[int, ...]
) -> bool:
    """Let Gather pick rows of integers, and widen what it picks; False where more than rows of the table are read.

    Args:
        chain: The nodes that widen the table.
        others: The constants that the nodes behind the Cast read, None where there is no such node.
    """
    table = chain[-1].outputs[0]
    readers = () if table is None or graph.is_output(table) else graph.readers(table)
    picks = [one for one in readers if one.op_type == "Gather" and not one.domain and not one.attributes.get("axis", 0)]
    if table is None or not picks or len(picks) < graph.uses(table):
        return False  # Gather reads its table once, unless it is its own indices, which are integers
    numbers: list[tuple[str, Array]] = []
    for other in filter(None, others):
        found = _vector(graph.constant(other), shape)
        if isinstance(found, str) or (found[0].size > 1 and found[1] != 0):
            return False
        numbers.append((other.name, found[0]))
    read = [  # a scalar adds no axes to what is picked
        (name, False) if array.size > 1 else (graph.add_constant(f"{name}/number", array.reshape(())), True)
        for name, array in numbers
    ]
    for pick in picks:
        graph.replace_nodes([pick], _widened(graph, pick, chain, held, read))
    graph.replace_nodes(chain, ())
    return True


def _widened(
    graph: GraphEditor, pick: NodeSpec, chain: list[NodeSpec], held: ValueSpec, numbers: list[tuple[str, bool]]
) -> list[NodeTemplate]:
    """Nodes that pick rows of integers, and widen them; `numbers` are constants, each with whether it is one number."""
    result, indices = ("" if value is None else value.name for value in (pick.outputs[0], pick.inputs[1]))
    made: list[NodeTemplate] = []

    def add(op_type: str, *inputs: str, to: int | None = None) -> str:
        name = graph.free_name(f"{result}/{op_type} {len(made)}")
        made.append(NodeTemplate(op_type, inputs, (name,), None if to is None else {"to": to}))
        return name

    value = add("Cast", add("Gather", held.name, indices), to=DataType.FLOAT.value)
    for node, (name, single) in zip(chain[1:], numbers, strict=True):
        value = add(node.op_type, value, name if single else add("Gather", name, indices))
    made[-1] = replace(made[-1], outputs=(result,))
    return made


def _vector(array: Array | None, shape: tuple[int, ...]) -> _Vector | str:
    """A scale as DequantizeLinear wants it, or why it cannot be had."""
    if array is None or array.dtype != np.float32 or array.ndim > len(shape):
        return "is not a float32 constant that only broadcasts"
    axes = [axis for axis, size in enumerate((1,) * (len(shape) - array.ndim) + array.shape) if size != 1]
    if not axes:
        return np.ascontiguousarray(array).reshape(()), 1
    if len(axes) > 1 or array.size != shape[axes[0]]:
        return "changes along more than one axis"
    return np.ascontiguousarray(array).reshape(-1), axes[0]


def _zero(array: Array | None, shape: tuple[int, ...], scale: _Vector, kind: DataType) -> Array | str:
    """A zero point of the integers' own type, shaped as the scale."""
    found = _vector(array, shape)
    if isinstance(found, str):
        return found
    numbers, axis = found
    if numbers.size > 1 and (numbers.size != scale[0].size or axis != scale[1]):
        return "does not go along the axis of the scale"
    limits = np.iinfo(numpy_dtype(kind))
    if not np.array_equal(numbers, np.rint(numbers)) or numbers.min() < limits.min or numbers.max() > limits.max:
        return f"does not fit {kind.onnx_name}"
    return np.array(np.broadcast_to(numbers, scale[0].shape).astype(numpy_dtype(kind)))
