"""ONNX Pad: a copy into a larger tensor, and what stands around it."""

from __future__ import annotations

from collections.abc import Sequence

from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.primitive import Unimplemented
from ort_py_onednn.graph.functions import linear
from ort_py_onednn.graph.operation import Operation
from ort_py_onednn.lowering.parts import copy_into, part, picked
from ort_py_onednn.lowering.planner import Planner, Value

__all__ = ["pad"]


def pad(planner: Planner, operation: Operation) -> None:
    """ONNX Pad of known widths; negative ones cut."""
    source = planner.value(operation.inputs[0])
    begin, end = _widths(planner, operation, len(source.shape))
    cut = [max(0, -width) for width in begin], [max(0, -width) for width in end]
    if any(cut[0]) or any(cut[1]):
        sizes = [max(0, dim - first - last) for dim, first, last in zip(source.shape, *cut, strict=True)]
        source = part(planner, source, cut[0], sizes)
    begin, end = [max(0, width) for width in begin], [max(0, width) for width in end]
    mode = operation.attributes.get("mode", "constant")
    if not any(begin) and not any(end):
        found = planner.view(source, source.desc, source.shape)
    elif mode == "constant":
        found = _surrounded(planner, source, begin, end, _number(planner, operation))
    else:
        found = source
        for axis, (before, behind) in enumerate(zip(begin, end, strict=True)):
            if before or behind:
                found = _continued(planner, found, axis, before, behind, mode)
    planner.bind(operation.outputs[0], planner.apply(found, operation.posts))


def _widths(planner: Planner, operation: Operation, rank: int) -> tuple[list[int], list[int]]:
    if operation.since < 11:
        pads = list(operation.attributes["pads"])
        return pads[:rank], pads[rank:]
    pads = list(planner.integers(operation.inputs[1]))
    named = len(operation.inputs) > 3 and operation.inputs[3]
    axes = [axis % rank for axis in planner.integers(operation.inputs[3])] if named else list(range(rank))
    begin, end = [0] * rank, [0] * rank
    for index, axis in enumerate(axes):
        begin[axis], end[axis] = pads[index], pads[len(axes) + index]
    return begin, end


def _number(planner: Planner, operation: Operation) -> float:
    if operation.since < 11:
        return float(operation.attributes.get("value", 0.0))
    given = len(operation.inputs) > 2 and operation.inputs[2]
    return planner.numbers(operation.inputs[2])[0] if given else 0.0


def _surrounded(planner: Planner, source: Value, begin: Sequence[int], end: Sequence[int], number: float) -> Value:
    shape = tuple(before + dim + behind for before, dim, behind in zip(begin, source.shape, end, strict=True))
    whole = planner.new(Desc.plain(shape, source.dtype), shape)
    planner.zero(whole)
    if number:
        whole = planner.apply(whole, [linear(1.0, number)])
    copy_into(planner, source, part(planner, whole, begin, source.shape))
    return whole


def _continued(planner: Planner, source: Value, axis: int, before: int, behind: int, mode: str) -> Value:
    """Along one axis: the border again and again, mirrored, or from the other side."""
    dim = source.shape[axis]
    if mode == "edge" and dim:
        return picked(planner, source, axis, [*[0] * before, *range(dim), *[dim - 1] * behind])
    if mode == "reflect" and before < dim and behind < dim:
        places = [*range(before, 0, -1), *range(dim), *range(dim - 2, dim - 2 - behind, -1)]
        return picked(planner, source, axis, places)
    if mode == "wrap" and before <= dim and behind <= dim:
        return picked(planner, source, axis, [*range(dim - before, dim), *range(dim), *range(behind)])
    raise Unimplemented(f"mode {mode} of Pad by {before} and {behind} along a dimension of {dim}")
