"""Parts of tensors: rectangles, every n-th element, pieces put side by side; views where the layout allows it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ort_py_onednn.binding import primitives
from ort_py_onednn.binding.constants import Argument
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.lowering.planner import Planner, Value

__all__ = ["copy_into", "joined", "part", "picked", "ranges", "slab", "spread", "stepped"]


def part(planner: Planner, source: Value, begin: Sequence[int], sizes: Sequence[int]) -> Value:
    """A rectangle: a view where the layout allows it."""
    desc = source.desc.part(sizes, begin) if source.desc.key is not None else None
    if desc is None:
        source = planner.plain(source)
        desc = source.desc.part(sizes, begin)
        assert desc is not None, "any part of a plain layout can be described"
    return planner.view(source, desc, tuple(sizes))


def slab(planner: Planner, source: Value, axis: int, start: int, size: int) -> Value:
    """A range along one axis."""
    begin = [start if place == axis else 0 for place in range(len(source.shape))]
    return part(planner, source, begin, _with(source.shape, axis, size))


def stepped(planner: Planner, source: Value, axis: int, start: int, step: int, count: int) -> Value:
    """``count`` elements along an axis, ``step`` apart, from ``start`` on."""
    if step == 1 or count <= 1:
        return slab(planner, source, axis, start, count)
    source = planner.plain(source)
    shape = source.shape
    first = min(start, shape[axis] - count * step)
    if first >= 0:
        found = _first_of_groups(planner, slab(planner, source, axis, first, count * step), axis, step, start - first)
        if found is not None:
            return found
    # What is there of the groups is copied to where there is room for all of them, from the beginning of a buffer on.
    there = min(count * step, shape[axis] - start)
    room = planner.new(Desc.plain(_with(shape, axis, count * step), source.dtype), _with(shape, axis, count * step))
    copy_into(planner, slab(planner, source, axis, start, there), slab(planner, room, axis, 0, there))
    found = _first_of_groups(planner, room, axis, step, 0)
    assert found is not None, "dense groups can be told apart"
    return found


def _first_of_groups(planner: Planner, groups: Value, axis: int, step: int, place: int) -> Value | None:
    """Return the element at a place of each group of ``step`` along an axis: a view, or None where there is none."""
    shape = groups.shape
    count = shape[axis] // step
    split = groups.desc.reshaped((*shape[:axis], count, step, *shape[axis + 1 :]))
    if split is None:
        return None
    begin = [0] * (len(shape) + 1)
    begin[axis + 1] = place
    one = split.part((*shape[:axis], count, 1, *shape[axis + 1 :]), begin)
    sizes = _with(shape, axis, count)
    desc = None if one is None else one.reshaped(sizes)
    return None if desc is None else planner.view(groups, desc, sizes)


def spread(planner: Planner, source: Value, shape: Sequence[int]) -> Value:
    """A value repeated along dimensions of 1 and new leading ones: read with strides of nothing, and copied."""
    shape = tuple(shape)
    source = planner.plain(source)
    missing = len(shape) - len(source.shape)
    if not shape or tuple(source.shape) == shape:
        return planner.view(source, source.desc, source.shape)
    sizes = (1,) * missing + tuple(source.shape)
    strides = (0,) * missing + (source.desc.strides if source.shape else ())
    steps = [0 if size == 1 else stride for size, stride in zip(sizes, strides, strict=True)]
    found = planner.new(Desc.plain(shape, source.dtype), shape)
    copy_into(planner, planner.view(source, Desc.strided(shape, steps, source.dtype), shape), found)
    return found


def joined(planner: Planner, pieces: Sequence[Value], axis: int) -> Value:
    """Values side by side in a new place, each moved there by itself."""
    shape = _with(pieces[0].shape, axis, sum(piece.shape[axis] for piece in pieces))
    found = planner.new(Desc.plain(shape, pieces[0].dtype), shape)
    start = 0
    for piece in pieces:
        if piece.shape[axis]:
            copy_into(planner, piece, slab(planner, found, axis, start, piece.shape[axis]))
        start += piece.shape[axis]
    return found


def picked(planner: Planner, source: Value, axis: int, places: Sequence[int]) -> Value:
    """The elements at some places along an axis: ranges as they are, one that comes again and again spread."""
    if list(places) == list(range(source.shape[axis])):
        return source
    pieces: list[Value] = []
    for first, end, step in ranges(places):
        if step:
            pieces.append(stepped(planner, source, axis, places[first], step, end - first))
        else:
            one = slab(planner, source, axis, places[first], 1)
            pieces.append(spread(planner, one, _with(source.shape, axis, end - first)))
    return pieces[0] if len(pieces) == 1 else joined(planner, pieces, axis)


def ranges(places: Sequence[int]) -> list[tuple[int, int, int]]:
    """Cut places into ranges that are copied at once.

    Returns:
        For each its first place, the one behind its last, and the step from element to element. That is 0 where one
        comes again and again, and more than 1 only where there is a single range.
    """
    steps = {second - first for first, second in pairwise(places)}
    if len(places) == 1 or (len(steps) == 1 and min(steps) > 0):
        return [(0, len(places), min(steps, default=1))]
    found: list[tuple[int, int, int]] = []
    first = 0
    while first < len(places):
        end = first + 1
        step = places[end] - places[first] if end < len(places) else -1
        while step in {0, 1} and end < len(places) and places[end] - places[end - 1] == step:
            end += 1
        found.append((first, end, min(abs(step), 1)))
        first = end
    return found


def copy_into(planner: Planner, source: Value, target: Value) -> None:
    """Append the step that copies a value to where another lies."""
    given = planner.view(source, source.desc, source.shape)
    primitive = planner.make(lambda: primitives.reorder(given.desc, target.desc), target.desc)
    planner.emit(primitive, {Argument.SRC: given, Argument.DST: target})


def _with(shape: Sequence[int], axis: int, size: int) -> tuple[int, ...]:
    return tuple(size if place == axis else dim for place, dim in enumerate(shape))
