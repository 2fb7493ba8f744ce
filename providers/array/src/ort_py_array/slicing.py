"""Slice: a view of ranges of some axes, with steps of either sign.

ONNX cuts starts and ends to the axis as Python's slices do, so a node is turned into an index of slices; where starts,
ends, axes and steps are constants, once. The one difference: where a step is negative, ONNX moves a start from before
the first element to it, and Python takes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.errors import InvalidArgument, Location
from ort_py_array.checks import MOST_AXES, constant_input, host_ints, normalized_axes

_Ints = tuple[int, ...]
_WHOLE = slice(None)


def _slices(starts: _Ints, ends: _Ints, axes: _Ints, steps: _Ints, where: Location) -> dict[int, slice]:
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise InvalidArgument(
            f"Slice has {len(starts)} starts, {len(ends)} ends, {len(axes)} axes and {len(steps)} steps.",
            where=where,
            fix="There must be as many of each.",
        )
    if 0 in steps:
        raise InvalidArgument(f"Slice has a step of 0 in {steps}.", where=where, fix="Steps are positive or negative.")
    if len(set(axes)) != len(axes):
        raise InvalidArgument(
            f"Slice names an axis twice in {axes}.", where=where, fix="Name each axis once, or slice twice."
        )
    return {axis: slice(*limits) for axis, *limits in zip(axes, starts, ends, steps, strict=True)}


def _index(slices: dict[int, slice], shape: Sequence[int] | None, where: Location) -> tuple[Any, ...] | None:
    """Index that takes the slices; None where it takes the shape to know and `shape` is None."""
    axes = tuple(slices)
    if shape is not None:
        rank = len(shape)
        normalized_axes(axes, rank, where)
        slices = {axis + rank if axis < 0 else axis: _within(part, shape[axis]) for axis, part in slices.items()}
        axes = tuple(slices)
    elif any(_within(part, 1) is not part for part in slices.values()):
        return None
    elif any(not -MOST_AXES <= axis < MOST_AXES for axis in axes):
        return None  # the index would have an entry for each axis in front
    if all(axis >= 0 for axis in axes):
        return tuple(slices.get(axis, _WHOLE) for axis in range(max(axes, default=-1) + 1))
    if all(axis < 0 for axis in axes):
        return (Ellipsis, *(slices.get(axis, _WHOLE) for axis in range(min(axes), 0)))
    return None


def _within(part: slice, size: int) -> slice:
    """The slice itself, or one that begins at the first element where ONNX moves its start there."""
    if part.step < 0 and part.start < -size < 0:
        return slice(0, part.stop, part.step)
    return part


def _constant_slices(ctx: KernelContext) -> dict[int, slice] | None:
    attributes, where = ctx.node.attributes, ctx.node.location
    if "starts" in attributes:  # version 1
        starts, ends = tuple(attributes["starts"]), tuple(attributes["ends"])
        axes = tuple(attributes.get("axes", range(len(starts))))
        return _slices(starts, ends, axes, (1,) * len(starts), where)
    found: list[_Ints | None] = []
    for position in range(1, 5):
        present = position < len(ctx.node.inputs) and ctx.node.inputs[position] is not None
        values = constant_input(ctx, position)
        if present and values is None:
            return None
        found.append(host_ints(values))
    return _completed(found, where)


def _completed(parts: list[_Ints | None], where: Location) -> dict[int, slice]:
    starts, ends, axes, steps = (*parts, None, None)[:4]
    starts = starts or ()
    axes = tuple(range(len(starts))) if axes is None else axes
    return _slices(starts, ends or (), axes, (1,) * len(starts) if steps is None else steps, where)


def _one_axis(x: Array, parts: Sequence[Array | None]) -> Array | None:
    """The commonest form, a step forward along one axis counted from the front, without the general way's work.

    Returns:
        None for any other form, and where there is no such axis.
    """
    starts, ends, axes, steps = (*parts, None, None)[:4]
    if starts is None or ends is None or axes is None or not starts.ndim == ends.ndim == axes.ndim == 1:
        return None
    if not starts.size == ends.size == axes.size == 1 or not (steps is None or (steps.ndim == 1 and steps.size == 1)):
        return None
    axis, step = axes.item(), 1 if steps is None else steps.item()
    if step <= 0 or not 0 <= axis < x.ndim:
        return None
    return x[(*(_WHOLE,) * axis, slice(starts.item(), ends.item(), step))]


def slice_ranges(ctx: KernelContext) -> KernelCallable:
    """Slice-1..13: data and, as attributes (1) or host inputs (10 on), starts, ends, optional axes and steps.

    Raises:
        InvalidArgument: An axis is out of range or given twice, a step is 0, or the lengths differ.
    """
    where = ctx.node.location
    known = _constant_slices(ctx)

    def run(x: Array, *parts: Array | None) -> Array:
        slices = known
        if slices is None:
            found = _one_axis(x, parts)
            if found is not None:
                return found
            slices = _completed([host_ints(part) for part in parts], where)
        index = _index(slices, x.shape, where)
        return x[index] if index else x

    index = None if known is None else _index(known, None, where)
    if not index:
        return run

    def run_known(x: Array, *_parts: Array | None) -> Array:
        try:
            return x[index]
        except IndexError:
            return run(x)  # for its message

    return run_known


_VIEW: dict[str, Any] = {
    "views": ((0, 0),),
    "strided": True,
    "implementation": f"{__name__}:slice_ranges",
}

KERNELS: list[KernelDef] = [
    KernelDef("Slice", slice_ranges, since=1, **_VIEW),
    KernelDef("Slice", slice_ranges, since=10, until=13, host_inputs=frozenset({1, 2, 3, 4}), **_VIEW),
]
