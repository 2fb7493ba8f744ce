"""Operators that move elements and compute nothing: shapes, slices, joins, padding.

A `Transpose` only gives other names to the axes of what is stored; elements move where somebody needs another order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ort_py.contracts import NodeSpec
from ort_py_xnnpack.graph.grids import BYTES
from ort_py_xnnpack.operators.operator import FLOATS, Constants, Operator, attribute, constant, rank, shape_of

if TYPE_CHECKING:
    from ort_py_xnnpack.execution.builder import Builder, Order, Shape

__all__ = ["OPERATORS"]


def _numbers(node: NodeSpec, graph: Constants, place: int, name: str = "") -> list[int] | None:
    """Integers that an input gives in newer versions and an attribute in older ones."""
    found = constant(node, graph, place)
    if found is not None:
        return [int(one) for one in np.asarray(found).reshape(-1)]
    given = node.attributes.get(name)
    return None if given is None else [int(one) for one in given]


def _reshaped(builder: Builder, node: NodeSpec, shape: Shape) -> None:
    source = builder.read(node.inputs[0])
    builder.reshape(source, builder.write(node.outputs[0], shape), shape)


def _reshape(builder: Builder, node: NodeSpec) -> None:
    before = builder.shape(node.inputs[0])
    wanted = _numbers(node, builder.graph, 1, "shape") or []
    if not attribute(node, "allowzero", 0):
        wanted = [before[axis] if dim == 0 else dim for axis, dim in enumerate(wanted)]
    known = math.prod(dim for dim in wanted if dim != -1)
    _reshaped(builder, node, tuple(math.prod(before) // known if dim == -1 else dim for dim in wanted))


def _flatten(builder: Builder, node: NodeSpec) -> None:
    shape = builder.shape(node.inputs[0])
    axis = int(attribute(node, "axis", 1))
    axis += len(shape) if axis < 0 else 0
    _reshaped(builder, node, (math.prod(shape[:axis]), math.prod(shape[axis:])))


def _squeeze(builder: Builder, node: NodeSpec) -> None:
    shape = builder.shape(node.inputs[0])
    given = _numbers(node, builder.graph, 1, "axes")
    axes = (
        {axis % len(shape) for axis in given} if given is not None else {a for a, dim in enumerate(shape) if dim == 1}
    )
    _reshaped(builder, node, tuple(dim for axis, dim in enumerate(shape) if axis not in axes))


def _unsqueeze(builder: Builder, node: NodeSpec) -> None:
    shape = list(builder.shape(node.inputs[0]))
    given = _numbers(node, builder.graph, 1, "axes") or []
    for axis in sorted(one % (len(shape) + len(given)) for one in given):
        shape.insert(axis, 1)
    _reshaped(builder, node, tuple(shape))


def _check_shape(node: NodeSpec, graph: Constants) -> str | None:
    return "its data has no axes" if not rank(node) else None


def _transpose(builder: Builder, node: NodeSpec) -> None:
    x = node.inputs[0]
    count = len(builder.shape(x))
    axes = [int(one) for one in attribute(node, "perm", range(count - 1, -1, -1))]

    def renamed(order: Order) -> Order:
        return tuple(axes.index(axis) for axis in order)

    builder.alias(node.outputs[0], x, renamed)


def _concat(builder: Builder, node: NodeSpec) -> None:
    values = list(node.inputs)
    if len(values) == 1:
        builder.alias(node.outputs[0], values[0])
        return
    shape = builder.shape(values[0])
    axis = int(attribute(node, "axis", 1)) % len(shape)
    order = builder.order(*(value for value in values if not builder.is_constant(value)))
    numbers = [builder.read(value, order) for value in values]
    total = sum(builder.shape(value)[axis] for value in values)
    result = (*shape[:axis], total, *shape[axis + 1 :])
    target = builder.write(node.outputs[0], result, order)
    builder.define("concatenate", order.index(axis), len(numbers), numbers, target, 0)


def _cut(builder: Builder, node: NodeSpec, place: int, begins: Sequence[int], sizes: Sequence[int]) -> None:
    x = node.inputs[0]
    order = builder.order(x)
    source = builder.read(x, order)
    target = builder.write(node.outputs[place], tuple(sizes), order)
    first = [begins[axis] for axis in order]
    behind = [begins[axis] + sizes[axis] for axis in order]
    builder.define("static_slice_v3", len(order), first, behind, [1] * len(order), source, target, 0)


def _check_slice(node: NodeSpec, graph: Constants) -> str | None:
    steps = _numbers(node, graph, 4) or []
    if any(step != 1 for step in steps):
        return "it has steps"
    return _check_shape(node, graph)


def _slice(builder: Builder, node: NodeSpec) -> None:
    shape = builder.shape(node.inputs[0])
    starts = _numbers(node, builder.graph, 1, "starts") or []
    ends = _numbers(node, builder.graph, 2, "ends") or []
    axes = _numbers(node, builder.graph, 3, "axes") or list(range(len(starts)))
    begins, sizes = [0] * len(shape), list(shape)
    for axis, start, end in zip(axes, starts, ends, strict=True):
        first, behind, _ = slice(start, end).indices(shape[axis])
        begins[axis], sizes[axis] = first, max(behind - first, 0)
    _cut(builder, node, 0, begins, sizes)


def _split(builder: Builder, node: NodeSpec) -> None:
    shape = builder.shape(node.inputs[0])
    axis = int(attribute(node, "axis", 0)) % len(shape)
    parts = _numbers(node, builder.graph, 1, "split")
    if parts is None:
        count = int(attribute(node, "num_outputs", len(node.outputs)))
        each = -(-shape[axis] // count)
        parts = [each] * (count - 1) + [shape[axis] - each * (count - 1)]
    begin = 0
    for place, part in enumerate(parts):
        if node.outputs[place] is not None:
            begins = [begin if one == axis else 0 for one in range(len(shape))]
            _cut(builder, node, place, begins, (*shape[:axis], part, *shape[axis + 1 :]))
        begin += part


def _check_pad(node: NodeSpec, graph: Constants) -> str | None:
    if attribute(node, "mode", "constant") != "constant":
        return f"it pads in mode {attribute(node, 'mode', '')}"
    pads = _numbers(node, graph, 1, "pads") or []
    if any(one < 0 for one in pads):
        return "its padding is negative"
    number = constant(node, graph, 2)
    if number is not None and not np.isfinite(np.asarray(number)).all():
        return "it pads with a number that is not finite"
    return _check_shape(node, graph)


def _pad(builder: Builder, node: NodeSpec) -> None:
    x = node.inputs[0]
    shape = builder.shape(x)
    pads = _numbers(node, builder.graph, 1, "pads") or []
    axes = _numbers(node, builder.graph, 3) or list(range(len(shape)))
    given = constant(node, builder.graph, 2)
    number = float(attribute(node, "value", 0.0)) if given is None else float(np.asarray(given).reshape(-1)[0])
    before, after = [0] * len(shape), [0] * len(shape)
    for place, axis in enumerate(axes):
        before[axis], after[axis] = pads[place], pads[place + len(axes)]
    order = builder.order(x)
    source = builder.read(x, order)
    result = tuple(dim + first + second for dim, first, second in zip(shape, before, after, strict=True))
    target = builder.write(node.outputs[0], result, order)
    wide = [before[axis] for axis in order], [after[axis] for axis in order]
    builder.define("static_constant_pad_v2", len(order), *wide, number, source, target, 0)


def _moved(builder: Builder, node: NodeSpec, apart: Shape, axes: Order, shape: Shape) -> None:
    source = builder.read(node.inputs[0])
    grid = builder.grid(source)
    split, moved = builder.between(apart, grid), builder.between(tuple(apart[axis] for axis in axes), grid)
    builder.reshape(source, split, apart)
    builder.transpose(split, moved, axes)
    builder.reshape(moved, builder.write(node.outputs[0], shape), shape)


def _depth_to_space(builder: Builder, node: NodeSpec) -> None:
    batch, channels, rows, columns = builder.shape(node.inputs[0])
    block = int(node.attributes["blocksize"])
    left = channels // block**2
    result = batch, left, rows * block, columns * block
    if attribute(node, "mode", "DCR") == "CRD":
        _moved(builder, node, (batch, left, block, block, rows, columns), (0, 1, 4, 2, 5, 3), result)
    else:
        _moved(builder, node, (batch, block, block, left, rows, columns), (0, 3, 4, 1, 5, 2), result)


def _space_to_depth(builder: Builder, node: NodeSpec) -> None:
    batch, channels, rows, columns = builder.shape(node.inputs[0])
    block = int(node.attributes["blocksize"])
    apart = batch, channels, rows // block, block, columns // block, block
    result = batch, channels * block**2, rows // block, columns // block
    axes = (0, 1, 3, 5, 2, 4) if attribute(node, "mode", "DCR") == "CRD" else (0, 3, 5, 1, 2, 4)
    _moved(builder, node, apart, axes, result)


def _check_blocks(node: NodeSpec, graph: Constants) -> str | None:
    return None if len(shape_of(node)) == 4 else "its data has not two axes besides the channels"


_MOVED: dict[str, Any] = {"takes": FLOATS | BYTES, "gives": FLOATS | BYTES, "half": True}

OPERATORS = {
    "Concat": Operator(_concat, _check_shape, **_MOVED),
    "DepthToSpace": Operator(_depth_to_space, _check_blocks, **_MOVED),
    "Flatten": Operator(_flatten, _check_shape, **_MOVED),
    "Pad": Operator(_pad, _check_pad, looked_at=frozenset({1, 2, 3}), since=2, half=True),
    "Reshape": Operator(_reshape, _check_shape, looked_at=frozenset({1}), **_MOVED),
    "Slice": Operator(_slice, _check_slice, looked_at=frozenset({1, 2, 3, 4}), **_MOVED),
    "SpaceToDepth": Operator(_space_to_depth, _check_blocks, **_MOVED),
    "Split": Operator(_split, _check_shape, looked_at=frozenset({1}), **_MOVED),
    "Squeeze": Operator(_squeeze, _check_shape, looked_at=frozenset({1}), **_MOVED),
    "Transpose": Operator(_transpose, _check_shape, **_MOVED),
    "Unsqueeze": Operator(_unsqueeze, _check_shape, looked_at=frozenset({1}), **_MOVED),
}
