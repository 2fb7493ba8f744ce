"""Resize and Upsample of spatial sizes: one primitive where oneDNN takes the pixels that ONNX wants, a part of what it
makes where that repeats them too often, else copies of rows and columns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ort_py_onednn.binding import primitives
from ort_py_onednn.binding.constants import Algorithm, Argument
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.primitive import Primitive, Unimplemented
from ort_py_onednn.graph.operation import Operation
from ort_py_onednn.graph.resampling import Places, nearest_places, onednn_places, repeated_places
from ort_py_onednn.lowering.parts import part, picked, ranges
from ort_py_onednn.lowering.planner import Planner, Value

__all__ = ["resize"]

_MOST_COPIES = 2048
"""Rows and columns up to which each may be a copy of its own: the plan of so many takes about a second to make, and the
time grows faster than their number."""


def resize(planner: Planner, operation: Operation) -> None:
    """ONNX Resize and Upsample: nearest, and linear between centres of pixels."""
    source = planner.value(operation.inputs[0])
    scales, sizes = _scales_and_sizes(planner, operation)
    if sizes is not None:
        dims = tuple(int(size) for size in sizes)
    else:
        assert scales is not None
        dims = tuple(int(dim * float(scale)) for dim, scale in zip(source.shape, scales, strict=True))
    if dims[:2] != source.shape[:2]:
        raise Unimplemented(f"Resize of {source.shape} to {dims}: only spatial sizes can change")
    factors = list(scales) if scales is not None else _quotients(source.shape, dims)
    if operation.attributes.get("mode", "nearest") == "nearest":
        places = {
            axis: _places(operation, source.shape[axis], dims[axis], factors[axis]) for axis in range(2, len(dims))
        }
        found = _nearest(planner, source, dims, places)
    else:
        # Where nothing changes, neighbours have the weight 0: infinite ones would make NaN.
        found = source if source.shape == dims else _resampled(planner, source, dims, Algorithm.RESAMPLING_LINEAR)
    if found is source:
        found = planner.view(source, source.desc, source.shape)
    planner.bind(operation.outputs[0], planner.apply(found, operation.posts))


def _nearest(planner: Planner, source: Value, dims: tuple[int, ...], places: Mapping[int, Places]) -> Value:
    """The elements of each axis that are taken; sizes may stay though others are, for a scale is not their quotient."""
    if all(np.array_equal(chosen, np.arange(source.shape[axis])) for axis, chosen in places.items()):
        return source
    if all(np.array_equal(chosen, onednn_places(source.shape[axis], dims[axis])) for axis, chosen in places.items()):
        return _resampled(planner, source, dims, Algorithm.RESAMPLING_NEAREST)
    larger = _part_of_larger(planner, source, dims, places)
    if larger is not None:
        return larger
    copies = sum(len(ranges(chosen.tolist())) for chosen in places.values())
    if copies > _MOST_COPIES:
        raise Unimplemented(f"Resize of {source.shape} to {dims}: it takes {copies} copies of rows and columns")
    found = source
    for axis, chosen in places.items():
        found = picked(planner, found, axis, chosen.tolist())
    return found


def _part_of_larger(
    planner: Planner, source: Value, dims: tuple[int, ...], places: Mapping[int, Places]
) -> Value | None:
    """Pixels that are repeated equally often, but for those at the borders: all of them are, and a part is moved. None
    for others, and where oneDNN has no fast code."""
    found = [repeated_places(source.shape[axis], chosen) for axis, chosen in places.items()]
    ranges = [one for one in found if one is not None]
    if len(ranges) < len(found) or not source.desc.is_dense:
        return None
    sizes = (*dims[:2], *(size * times for size, (times, _) in zip(source.shape[2:], ranges, strict=True)))
    if any(
        not np.array_equal(onednn_places(size, large), np.repeat(np.arange(size), large // size))
        for size, large in zip(source.shape[2:], sizes[2:], strict=True)
    ):
        return None
    made = _primitive(planner, [source.desc], sizes, Algorithm.RESAMPLING_NEAREST)
    if made is None or made.is_reference:
        return None
    whole = _emitted(planner, made, source, sizes)
    piece = part(planner, whole, (0, 0, *(start for _, start in ranges)), dims)
    last = whole.desc.is_channels_last
    return planner.in_layout(piece, (Desc.channels_last if last else Desc.plain)(dims, source.dtype))


def _quotients(shape: Sequence[int], dims: Sequence[int]) -> list[float]:
    return [large / small if small else 1.0 for large, small in zip(dims, shape, strict=True)]


def _places(operation: Operation, size: int, target: int, scale: float) -> Places:
    if operation.kind == "Upsample" or operation.since < 11:
        return nearest_places("asymmetric", "simple", size, target, scale)
    attributes = operation.attributes
    coordinates = attributes.get("coordinate_transformation_mode", "half_pixel")
    return nearest_places(coordinates, attributes.get("nearest_mode", "round_prefer_floor"), size, target, scale)


def _resampled(planner: Planner, source: Value, dims: tuple[int, ...], algorithm: int) -> Value:
    descs = [source.desc] if source.desc.is_dense else []
    if not source.desc.is_plain or not descs:
        descs.append(Desc.plain(source.dims, source.dtype))
    made = _primitive(planner, descs, dims, algorithm)
    if made is None:
        raise Unimplemented(f"Resize of {source.shape} to {dims}")
    return _emitted(planner, made, source, dims)


def _primitive(planner: Planner, descs: Sequence[Desc], dims: tuple[int, ...], algorithm: int) -> Primitive | None:
    """The primitive for the first layout for which there is fast code, else for the last of those with any."""
    made = None
    for desc in descs:
        factors = _quotients(desc.dims[2:], dims[2:])
        try:
            made = planner.make_heavy(
                lambda: primitives.resampling(algorithm, desc, Desc.any(dims, desc.dtype), factors),  # noqa: B023
                4.0 * math.prod(dims),
            )
        except Unimplemented:
            continue
        if not made.is_reference:
            break
    return made


def _emitted(planner: Planner, made: Primitive, source: Value, dims: tuple[int, ...]) -> Value:
    count = planner.count
    given = planner.in_layout(source, made.arguments[Argument.SRC])
    planner.count = count
    found = planner.new(made.arguments[Argument.DST], dims)
    planner.emit(made, {Argument.SRC: given, Argument.DST: found})
    return found


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
