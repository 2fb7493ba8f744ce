"""Operators that only move or rename: most are another look at the same bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ort_py_onednn.binding import primitives
from ort_py_onednn.binding.constants import Argument
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.primitive import Unimplemented
from ort_py_onednn.graph.operation import Operation
from ort_py_onednn.lowering.parts import joined, part, stepped
from ort_py_onednn.lowering.planner import Planner

__all__ = ["concatenate", "flatten", "reshape", "slice_", "split", "squeeze", "transpose", "unsqueeze"]

_SHORT = 16
"""Elements of a piece below which joining pieces is slower than reordering each value."""


def reshape(planner: Planner, operation: Operation) -> None:
    """ONNX Reshape with a shape that is known; 0 keeps a dimension, -1 takes what is left."""
    source = planner.value(operation.inputs[0])
    wanted = [int(dim) for dim in planner.integers(operation.inputs[1])]
    if not operation.attributes.get("allowzero", 0):
        wanted = [source.shape[place] if dim == 0 else dim for place, dim in enumerate(wanted)]
    if -1 in wanted:
        rest = math.prod(dim for dim in wanted if dim != -1)
        wanted[wanted.index(-1)] = math.prod(source.shape) // rest if rest else 0
    planner.bind(operation.outputs[0], planner.reshaped(source, tuple(wanted)))


def flatten(planner: Planner, operation: Operation) -> None:
    """ONNX Flatten: to two dimensions."""
    source = planner.value(operation.inputs[0])
    axis = operation.attributes.get("axis", 1)
    axis += len(source.shape) if axis < 0 else 0
    shape = math.prod(source.shape[:axis]), math.prod(source.shape[axis:])
    planner.bind(operation.outputs[0], planner.reshaped(source, shape))


def _given_axes(planner: Planner, operation: Operation) -> tuple[int, ...] | None:
    if len(operation.inputs) > 1 and operation.inputs[1]:
        return tuple(int(axis) for axis in planner.integers(operation.inputs[1]))
    axes = operation.attributes.get("axes")
    return None if axes is None else tuple(axes)


def squeeze(planner: Planner, operation: Operation) -> None:
    """ONNX Squeeze."""
    source = planner.value(operation.inputs[0])
    axes = _given_axes(planner, operation)
    rank = len(source.shape)
    if axes is None or not (
        axes or len(operation.inputs) > 1
    ):  # an empty attribute names none, as if it were not there
        gone = {place for place, dim in enumerate(source.shape) if dim == 1}
    else:
        gone = {axis % rank for axis in axes}
    shape = tuple(dim for place, dim in enumerate(source.shape) if place not in gone)
    planner.bind(operation.outputs[0], planner.reshaped(source, shape))


def unsqueeze(planner: Planner, operation: Operation) -> None:
    """ONNX Unsqueeze."""
    source = planner.value(operation.inputs[0])
    axes = _given_axes(planner, operation) or ()
    rank = len(source.shape) + len(axes)
    new = {axis % rank for axis in axes}
    old = iter(source.shape)
    shape = tuple(1 if place in new else next(old) for place in range(rank))
    planner.bind(operation.outputs[0], planner.reshaped(source, shape))


def transpose(planner: Planner, operation: Operation) -> None:
    """ONNX Transpose: strides are exchanged, and data moved by the reader that cannot take them so."""
    source = planner.value(operation.inputs[0])
    rank = len(source.shape)
    order = operation.attributes.get("perm") or tuple(reversed(range(rank)))
    desc = source.desc.permuted(order) if rank else source.desc
    if desc is None:
        source = planner.plain(source)
        desc = source.desc.permuted(order)
        assert desc is not None, "strides can always be exchanged"
    planner.bind(operation.outputs[0], planner.view(source, desc, tuple(source.shape[place] for place in order)))


def concatenate(planner: Planner, operation: Operation) -> None:
    """ONNX Concat."""
    values = [planner.value(name) for name in operation.inputs if name]
    rank = len(values[0].shape)
    axis = operation.attributes["axis"] % rank
    shape = list(values[0].shape)
    shape[axis] = sum(value.shape[axis] for value in values)
    if not math.prod(shape):
        planner.bind(operation.outputs[0], planner.new(Desc.plain(shape, planner.result_type(*values)), shape))
        return
    values = [value for value in values if math.prod(value.shape)]
    if len(values) == 1:
        planner.bind(operation.outputs[0], planner.view(values[0], values[0].desc, values[0].shape))
        return
    dtype = planner.result_type(*values)
    values = [planner.converted(value, dtype) for value in values]
    if not any(value.desc.is_blocked or value.desc.is_channels_last for value in values):
        values = [planner.plain(value) for value in values]
        target = Desc.plain(shape, dtype)
    elif any(value.desc.is_channels_last for value in values):
        target = Desc.channels_last(shape, dtype)
    else:
        target = Desc.any(shape, dtype)
    if target.is_plain and max(math.prod(value.dims[axis:]) for value in values) < _SHORT:
        # Each value is moved by itself: faster than the library's joining of short pieces.
        planner.bind(operation.outputs[0], joined(planner, values, axis))
        return
    descs = [value.desc for value in values]
    for value in values:
        planner.buffer_of(value)
    try:
        primitive = planner.make(lambda: primitives.concatenation(descs, target, axis), Desc.plain(shape))
    except Unimplemented:
        values = [planner.plain(value) for value in values]
        descs = [value.desc for value in values]
        target = Desc.plain(shape, dtype)
        primitive = planner.make(lambda: primitives.concatenation(descs, target, axis), target)
    found = planner.new(primitive.arguments[Argument.DST], shape)
    given = {Argument.MULTIPLE_SRC + place: value for place, value in enumerate(values)}
    planner.emit(primitive, {**given, Argument.DST: found})
    planner.bind(operation.outputs[0], found)


def split(planner: Planner, operation: Operation) -> None:
    """ONNX Split: each result is a view."""
    source = planner.value(operation.inputs[0])
    axis = operation.attributes.get("axis", 0) % len(source.shape)
    total, count = source.shape[axis], len(operation.outputs)
    if len(operation.inputs) > 1 and operation.inputs[1]:
        sizes = [int(size) for size in planner.integers(operation.inputs[1])]
    elif operation.attributes.get("split"):
        sizes = list(operation.attributes["split"])
    else:
        each = -(-total // count)
        sizes = [min(each, max(0, total - each * place)) for place in range(count)]
    start = 0
    for name, size in zip(operation.outputs, sizes, strict=True):
        begin = [start if place == axis else 0 for place in range(len(source.shape))]
        dims = [size if place == axis else dim for place, dim in enumerate(source.shape)]
        if name:
            planner.bind(name, part(planner, source, begin, dims))
        start += size


def slice_(planner: Planner, operation: Operation) -> None:
    """ONNX Slice with known bounds and steps of 1 or more: a view where the layout allows it."""
    source = planner.value(operation.inputs[0])
    rank = len(source.shape)
    attributes = operation.attributes
    steps: Sequence[int] | None = None
    if operation.since >= 10:
        starts, ends = (planner.integers(operation.inputs[place]) for place in (1, 2))
        axes, steps = _given(planner, operation, 3), _given(planner, operation, 4)
    else:
        starts, ends, axes = attributes["starts"], attributes["ends"], attributes.get("axes")
    begin, sizes = [0] * rank, list(source.shape)
    apart: list[tuple[int, int, int, int]] = []
    for index, (axis, start, end) in enumerate(zip(range(rank) if axes is None else axes, starts, ends, strict=False)):
        place, dim = int(axis) % rank, source.shape[int(axis) % rank]
        first, last = (min(max(int(bound) + (dim if bound < 0 else 0), 0), dim) for bound in (start, end))
        step = 1 if steps is None else steps[index]
        if step == 1:
            begin[place], sizes[place] = first, max(0, last - first)
        else:
            apart.append((place, first, step, -(-max(0, last - first) // step)))
    found = part(planner, source, begin, sizes)
    for place, first, step, count in apart:
        found = stepped(planner, found, place, first, step, count)
    planner.bind(operation.outputs[0], found)


def _given(planner: Planner, operation: Operation, place: int) -> Sequence[int] | None:
    if len(operation.inputs) > place and operation.inputs[place]:
        return planner.integers(operation.inputs[place])
    return None
