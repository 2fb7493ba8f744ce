"""Operators that only move or rename: most are another look at the same bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ort_py_onednn.binding import primitives
from ort_py_onednn.binding.constants import Algorithm, Argument
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.primitive import Unimplemented
from ort_py_onednn.graph.operation import Operation
from ort_py_onednn.lowering.planner import Planner, Value

__all__ = ["concatenate", "flatten", "pad", "reshape", "resize", "slice_", "split", "squeeze", "transpose", "unsqueeze"]

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
    gone = {axis % rank for axis in axes} if axes else {place for place, dim in enumerate(source.shape) if dim == 1}
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
    values = [value for value in values if math.prod(value.shape)] or values[:1]
    if len(values) == 1:
        planner.bind(operation.outputs[0], planner.view(values[0], values[0].desc, values[0].shape))
        return
    shape = list(values[0].shape)
    shape[axis] = sum(value.shape[axis] for value in values)
    if not any(value.desc.is_blocked or value.desc.is_channels_last for value in values):
        values = [planner.plain(value) for value in values]
        target = Desc.plain(shape)
    elif any(value.desc.is_channels_last for value in values):
        target = Desc.channels_last(shape)
    else:
        target = Desc.any(shape)
    if target.is_plain and max(math.prod(value.dims[axis:]) for value in values) < _SHORT:
        planner.bind(operation.outputs[0], _interleaved(planner, values, target, axis))
        return
    descs = [value.desc for value in values]
    for value in values:
        planner.buffer_of(value)
    try:
        primitive = planner.make(lambda: primitives.concatenation(descs, target, axis), Desc.plain(shape))
    except Unimplemented:
        values = [planner.plain(value) for value in values]
        descs = [value.desc for value in values]
        primitive = planner.make(lambda: primitives.concatenation(descs, Desc.plain(shape), axis), Desc.plain(shape))
    found = planner.new(primitive.arguments[Argument.DST], shape)
    given = {Argument.MULTIPLE_SRC + place: value for place, value in enumerate(values)}
    planner.emit(primitive, {**given, Argument.DST: found})
    planner.bind(operation.outputs[0], found)


def _interleaved(planner: Planner, values: Sequence[Value], target: Desc, axis: int) -> Value:
    """Each value moved to its places by a reorder: faster than the library's joining of short pieces."""
    found = planner.new(target)
    start = 0
    for value in values:
        begin = [start if place == axis else 0 for place in range(len(target.dims))]
        part = target.part(value.dims, begin)
        assert part is not None, "any part of a plain layout can be described"
        source = Value(value.desc, planner.buffer_of(value), value.shape)
        primitive = planner.make(lambda: primitives.reorder(source.desc, part), source.desc)  # noqa: B023 - called at once
        planner.emit(primitive, {Argument.SRC: source, Argument.DST: Value(part, found.buffer, value.shape)})
        start += value.dims[axis]
    return found


def _part(planner: Planner, source: Value, begin: Sequence[int], sizes: Sequence[int]) -> Value:
    """A rectangular part: a view where the layout allows it."""
    desc = source.desc.part(sizes, begin) if source.desc.key is not None else None
    if desc is None:
        source = planner.plain(source)
        desc = source.desc.part(sizes, begin)
        assert desc is not None, "any part of a plain layout can be described"
    return planner.view(source, desc, tuple(sizes))


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
            planner.bind(name, _part(planner, source, begin, dims))
        start += size


def slice_(planner: Planner, operation: Operation) -> None:
    """ONNX Slice with constant bounds and steps of 1: a view."""
    source = planner.value(operation.inputs[0])
    rank = len(source.shape)
    attributes = operation.attributes
    if operation.since >= 10:
        starts, ends = (planner.integers(operation.inputs[place]) for place in (1, 2))
        axes = _given(planner, operation, 3)
    else:
        starts, ends, axes = attributes["starts"], attributes["ends"], attributes.get("axes")
    begin, sizes = [0] * rank, list(source.shape)
    for axis, start, end in zip(range(rank) if axes is None else axes, starts, ends, strict=False):
        place, dim = int(axis) % rank, source.shape[int(axis) % rank]
        first, last = (min(max(int(bound) + (dim if bound < 0 else 0), 0), dim) for bound in (start, end))
        begin[place], sizes[place] = first, max(0, last - first)
    planner.bind(operation.outputs[0], _part(planner, source, begin, sizes))


def _given(planner: Planner, operation: Operation, place: int) -> Sequence[int] | None:
    if len(operation.inputs) > place and operation.inputs[place]:
        return planner.integers(operation.inputs[place])
    return None


def pad(planner: Planner, operation: Operation) -> None:
    """ONNX Pad with zeroes, known widths."""
    source = planner.value(operation.inputs[0])
    rank = len(source.shape)
    if operation.since >= 11:
        pads = [int(width) for width in planner.integers(operation.inputs[1])]
        axes = _given(planner, operation, 3)
    else:
        pads, axes = list(operation.attributes["pads"]), None
    places = list(range(rank)) if axes is None else [int(axis) % rank for axis in axes]
    begin, end = [0] * rank, [0] * rank
    for index, place in enumerate(places):
        begin[place], end[place] = pads[index], pads[len(places) + index]
    cut = [max(0, -width) for width in begin], [max(0, -width) for width in end]
    if any(cut[0]) or any(cut[1]):
        sizes = [dim - first - last for dim, first, last in zip(source.shape, *cut, strict=True)]
        source = _part(planner, source, cut[0], sizes)
    shape = tuple(max(0, b) + dim + max(0, e) for b, dim, e in zip(begin, source.shape, end, strict=True))
    if shape == source.shape:
        planner.bind(operation.outputs[0], planner.view(source, source.desc, source.shape))
        return
    whole = planner.new(Desc.plain(shape))
    inside = whole.desc.part(source.shape, [max(0, width) for width in begin])
    assert inside is not None, "any part of a plain layout can be described"
    planner.zero(whole)
    desc = source.desc
    primitive = planner.make(lambda: primitives.reorder(desc, inside), desc)
    planner.emit(primitive, {Argument.SRC: source, Argument.DST: Value(inside, whole.buffer, source.shape)})
    planner.bind(operation.outputs[0], planner.apply(whole, operation.posts))


def resize(planner: Planner, operation: Operation) -> None:
    """ONNX Resize and Upsample of spatial sizes: nearest by whole factors, linear between centres of pixels."""
    source = planner.value(operation.inputs[0])
    scales, sizes = _scales_and_sizes(planner, operation)
    if sizes is not None:
        dims = tuple(int(size) for size in sizes)
    else:
        assert scales is not None
        dims = tuple(int(dim * float(scale)) for dim, scale in zip(source.shape, scales, strict=True))
    nearest = operation.attributes.get("mode", "nearest") == "nearest"
    algorithm = Algorithm.RESAMPLING_NEAREST if nearest else Algorithm.RESAMPLING_LINEAR
    if nearest and any(large % small for large, small in zip(dims, source.shape, strict=True)):
        raise Unimplemented(f"nearest Resize of {source.shape} to {dims}: factors are no whole numbers")
    if dims[:2] != source.shape[:2]:
        raise Unimplemented(f"Resize of {source.shape} to {dims}: only spatial sizes can change")
    factors = [large / small for large, small in zip(dims[2:], source.shape[2:], strict=True)]
    descs = [source.desc] if source.desc.is_dense else []
    if not source.desc.is_plain or not descs:
        descs.append(Desc.plain(source.dims))
    made = None
    for desc in descs:
        try:
            made = planner.make_heavy(
                lambda: primitives.resampling(algorithm, desc, Desc.any(dims), factors),  # noqa: B023
                4.0 * math.prod(dims),
            )
        except Unimplemented:
            continue
        if not made.is_reference:
            break
    if made is None:
        raise Unimplemented(f"Resize of {source.shape} to {dims}")
    count = planner.count
    given = planner.in_layout(source, made.arguments[Argument.SRC])
    planner.count = count
    found = planner.new(made.arguments[Argument.DST], dims)
    planner.emit(made, {Argument.SRC: given, Argument.DST: found})
    planner.bind(operation.outputs[0], planner.apply(found, operation.posts))


def _scales_and_sizes(planner: Planner, operation: Operation) -> tuple[Sequence[float] | None, Sequence[int] | None]:
    names = operation.inputs
    if operation.kind == "Upsample":
        found = planner.numbers(names[1]) if operation.since >= 9 else operation.attributes["scales"]
        return found, None
    first = 1 if operation.since < 11 else 2
    scales = planner.numbers(names[first]) if len(names) > first and names[first] else ()
    if len(scales):
        return scales, None
    return None, planner.integers(names[3])
