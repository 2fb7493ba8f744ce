"""Operators that move elements and compute nothing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ort_py.contracts import NodeSpec
from ort_py_coreml.operators.extents import SizeOf, reshaped
from ort_py_coreml.operators.operator import (
    ALL,
    INTEGERS,
    NUMBERS,
    Constants,
    Operator,
    Var,
    attribute,
    constant,
    integers,
    shape_of,
)

if TYPE_CHECKING:
    from ort_py_coreml.lowering import Lowering

__all__ = ["OPERATORS"]


def _check_reshape(node: NodeSpec, graph: Constants) -> str | None:
    empty = attribute(node, "allowzero", 0) and 0 in (integers(node, graph, 1, "shape") or [])
    return "its result is empty" if empty else None


def _reshape(lowering: Lowering, node: NodeSpec) -> Var:
    """Change the shape. The size that follows from the others is computed here, or there is one of -1."""
    before = shape_of(node)
    target: list[int | SizeOf] = []
    for axis, size in enumerate(integers(node, lowering.graph, 1, "shape") or []):
        kept = before[axis] if size == 0 else size
        target.append(kept if isinstance(kept, int) else SizeOf((axis,)))
    kept_axes = {axis for one in target if isinstance(one, SizeOf) for axis in one.axes}
    left = [size for axis, size in enumerate(before) if axis not in kept_axes]
    if -1 in target and all(isinstance(size, int) for size in left):
        known = math.prod(one for one in target if isinstance(one, int) and one != -1)
        target[target.index(-1)] = math.prod(left) // known
    x = lowering.read(node.inputs[0])
    return reshaped(lowering.mb, x, target) if target else lowering.mb.squeeze(x=x, axes=list(range(len(before))))


def _flatten(lowering: Lowering, node: NodeSpec) -> Var:
    shape = shape_of(node)
    axis = int(attribute(node, "axis", 1))
    axis += len(shape) if axis < 0 else 0
    target: list[int | SizeOf] = []
    for first, part in ((0, shape[:axis]), (axis, shape[axis:])):
        known = all(isinstance(size, int) for size in part)
        target.append(math.prod(part) if known else SizeOf(tuple(range(first, first + len(part)))))
    return reshaped(lowering.mb, lowering.read(node.inputs[0]), target)


def _check_squeeze(node: NodeSpec, graph: Constants) -> str | None:
    shape = shape_of(node)
    axes = integers(node, graph, 1, "axes")
    removed = shape if axes is None else [shape[axis] for axis in axes]
    if not all(isinstance(size, int) for size in removed):
        return "it removes axes whose sizes are not known"
    return None


def _squeeze(lowering: Lowering, node: NodeSpec) -> Var:
    shape = shape_of(node)
    given = integers(node, lowering.graph, 1, "axes")
    axes = [a for a, dim in enumerate(shape) if dim == 1] if given is None else sorted({a % len(shape) for a in given})
    x = lowering.read(node.inputs[0])
    return lowering.mb.squeeze(x=x, axes=axes) if axes else lowering.mb.identity(x=x)


def _unsqueeze(lowering: Lowering, node: NodeSpec) -> Var:
    given = integers(node, lowering.graph, 1, "axes") or []
    rank = len(shape_of(node)) + len(given)
    x = lowering.read(node.inputs[0])
    axes = sorted(axis % rank for axis in given)
    return lowering.mb.expand_dims(x=x, axes=axes) if axes else lowering.mb.identity(x=x)


def _transpose(lowering: Lowering, node: NodeSpec) -> Var:
    rank = len(shape_of(node))
    if not rank:
        return lowering.mb.identity(x=lowering.read(node.inputs[0]))
    return lowering.mb.transpose(
        x=lowering.read(node.inputs[0]), perm=[int(one) for one in attribute(node, "perm", range(rank - 1, -1, -1))]
    )


def _concat(lowering: Lowering, node: NodeSpec) -> Var:
    values = [lowering.read(value) for value in node.inputs]
    if len(values) == 1:
        return lowering.mb.identity(x=values[0])
    return lowering.mb.concat(values=values, axis=int(attribute(node, "axis", 1)) % len(shape_of(node)))


def _cuts(node: NodeSpec, graph: Constants) -> dict[int, tuple[int | None, int | None, int]] | str:
    """Return begin, end (None for the border) and step of each axis that a Slice cuts, or why MIL has no such cut.

    A step below zero takes the elements from begin to end, too, and turns them around.
    """
    shape = shape_of(node)
    starts = integers(node, graph, 1, "starts") or []
    ends = integers(node, graph, 2, "ends") or []
    axes = integers(node, graph, 3, "axes") or list(range(len(starts)))
    steps = integers(node, graph, 4, "steps") or [1] * len(starts)
    cuts: dict[int, tuple[int | None, int | None, int]] = {}
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        size = shape[axis]
        if not step:
            return "its step is 0"
        if isinstance(size, int):
            taken = range(size)[start:end:step]
            if not taken:
                return "its result is empty"
            cuts[axis % len(shape)] = min(taken), max(taken) + 1, step
        elif start >= 2**31 - 1 and step > 0:
            return "its result is empty"
        elif step < 0:
            if step < -1 or 0 <= start < 2**31 - 1 or start < -1 or end > -(2**31 - 1):
                return f"it goes backwards along a part of axis {axis}, whose size is not known"
            cuts[axis % len(shape)] = None, None, step
        elif start >= -1 and (end >= 2**31 - 1 or (start >= 0 > end)):
            # What begins behind the end is empty, and such runs are left to others: nothing has to be cut off.
            cuts[axis % len(shape)] = start or None, end if end < 0 else None, step
        else:
            return f"it cuts axis {axis}, whose size is not known, at a place that may be behind its end"
    return cuts


def _check_slice(node: NodeSpec, graph: Constants) -> str | None:
    cuts = _cuts(node, graph)
    return cuts if isinstance(cuts, str) else None


def _slice(lowering: Lowering, node: NodeSpec) -> Var:
    cuts = _cuts(node, lowering.graph)
    assert not isinstance(cuts, str)
    whole = None, None, 1
    each = [cuts.get(axis, whole) for axis in range(len(shape_of(node)))]
    part = lowering.mb.slice_by_index(
        x=lowering.read(node.inputs[0]),
        begin=[begin or 0 for begin, _, _ in each],
        end=[end or 0 for _, end, _ in each],
        stride=[abs(step) for _, _, step in each],
        begin_mask=[begin is None for begin, _, _ in each],
        end_mask=[end is None for _, end, _ in each],
    )
    backwards = [axis for axis, (_, _, step) in enumerate(each) if step < 0]
    return lowering.mb.reverse(x=part, axes=backwards) if backwards else part


def _parts(node: NodeSpec, graph: Constants) -> list[int] | str:
    """Return the sizes of the parts of a Split, or why they are not known."""
    shape = shape_of(node)
    given = integers(node, graph, 1, "split")
    if given is not None:
        return "a part is empty" if 0 in given else given
    size = shape[int(attribute(node, "axis", 0))]
    if not isinstance(size, int):
        return "the size of its axis is not known"
    count = int(attribute(node, "num_outputs", len(node.outputs)))
    each = -(-size // count)
    parts = [each] * (count - 1) + [size - each * (count - 1)]
    return "a part is empty" if min(parts) < 1 else parts


def _check_split(node: NodeSpec, graph: Constants) -> str | None:
    parts = _parts(node, graph)
    return parts if isinstance(parts, str) else None


def _split(lowering: Lowering, node: NodeSpec) -> list[Var]:
    parts = _parts(node, lowering.graph)
    assert not isinstance(parts, str)
    x = lowering.read(node.inputs[0])
    if len(parts) == 1:
        return [lowering.mb.identity(x=x)]
    axis = int(attribute(node, "axis", 0)) % len(shape_of(node))
    return list(lowering.mb.split(x=x, split_sizes=parts, axis=axis))


def _check_pad(node: NodeSpec, graph: Constants) -> str | None:
    if attribute(node, "mode", "constant") != "constant":
        return f"it pads in mode {attribute(node, 'mode', '')}"
    if any(one < 0 for one in integers(node, graph, 1, "pads") or []):
        return "its padding is negative"
    number = constant(node, graph, 2)
    if number is not None and not np.isfinite(np.asarray(number)).all():
        return "it pads with a number that is not finite"
    return None


def _pad(lowering: Lowering, node: NodeSpec) -> Var:
    graph, rank = lowering.graph, len(shape_of(node))
    pads = integers(node, graph, 1, "pads") or []
    axes = integers(node, graph, 3, "axes") or list(range(rank))
    given = constant(node, graph, 2)
    number = attribute(node, "value", 0.0) if given is None else np.asarray(given).reshape(-1)[0]
    wide = [0] * 2 * rank
    for place, axis in enumerate(axes):
        wide[2 * (axis % rank)], wide[2 * (axis % rank) + 1] = pads[place], pads[place + len(axes)]
    return lowering.mb.pad(x=lowering.read(node.inputs[0]), pad=wide, mode="constant", constant_val=np.float32(number))


def _repeats(node: NodeSpec, graph: Constants) -> list[int] | str:
    """Return how often an Expand repeats each axis of its result, or why that is not known."""
    shape, wanted = shape_of(node), tuple(integers(node, graph, 1, "shape") or [])
    if any(size < 1 for size in wanted):
        return "its result is empty, or its target is invalid"
    rank = max(len(shape), len(wanted))
    shape, wanted = ((1,) * (rank - len(one)) + one for one in (shape, wanted))
    if any(size > 1 and not isinstance(own, int) for own, size in zip(shape, wanted, strict=True)):
        return "it may repeat an axis whose size is not known"
    return [size if own == 1 else 1 for own, size in zip(shape, wanted, strict=True)]


def _check_expand(node: NodeSpec, graph: Constants) -> str | None:
    repeats = _repeats(node, graph)
    return repeats if isinstance(repeats, str) else None


def _expand(lowering: Lowering, node: NodeSpec) -> Var:
    repeats = _repeats(node, lowering.graph)
    assert not isinstance(repeats, str)
    x, more = lowering.read(node.inputs[0]), len(repeats) - len(shape_of(node))
    if more:
        x = lowering.mb.expand_dims(x=x, axes=list(range(more)))
    return lowering.mb.tile(x=x, reps=repeats)


def _check_tile(node: NodeSpec, graph: Constants) -> str | None:
    if not shape_of(node):
        return "its data has no axes"
    return "its result is empty" if 0 in (integers(node, graph, 1, "repeats") or []) else None


def _tile(lowering: Lowering, node: NodeSpec) -> Var:
    repeats = integers(node, lowering.graph, 1, "repeats")
    return lowering.mb.tile(
        x=lowering.read(node.inputs[0]), reps=lowering.read(node.inputs[1]) if repeats is None else repeats
    )


def _places(node: NodeSpec) -> range:
    """Return the axes whose sizes a Shape gives."""
    rank = len(shape_of(node))
    return range(rank)[attribute(node, "start", 0) : attribute(node, "end", rank)]


def _check_shape(node: NodeSpec, graph: Constants) -> str | None:
    if not _places(node):
        return "its result is empty"
    known = all(isinstance(shape_of(node)[axis], int) for axis in _places(node))
    return "all its sizes are known, and Core ML has no constant outputs" if known else None


def _shape(lowering: Lowering, node: NodeSpec) -> Var:
    mb, places = lowering.mb, _places(node)
    whole = mb.shape(x=lowering.read(node.inputs[0]))
    return (
        whole if len(places) == len(shape_of(node)) else mb.gather(x=whole, indices=np.array(places, np.int32), axis=0)
    )


def _range(lowering: Lowering, node: NodeSpec) -> Var:
    start, end, step = (lowering.read(value) for value in node.inputs)
    return lowering.mb.range_1d(start=start, end=end, step=step)


def _check_gather(node: NodeSpec, graph: Constants) -> str | None:
    found = constant(node, graph, 1)
    if found is None:
        return None  # Core ML takes negative indices as ONNX does
    size = shape_of(node)[int(attribute(node, "axis", 0))]
    if not found.size:
        return "it takes no elements"
    if isinstance(size, int) and (found.min() < -size or found.max() >= size):
        return "an index is out of range"
    return None


def _gather(lowering: Lowering, node: NodeSpec) -> Var:
    axis = int(attribute(node, "axis", 0)) % len(shape_of(node))
    found, size = constant(node, lowering.graph, 1), shape_of(node)[axis]
    if found is None:
        indices = lowering.read(node.inputs[1])
    else:
        indices = np.where(found < 0, found + size, found) if isinstance(size, int) else found
        indices = indices.astype(np.int32)
    return lowering.mb.gather(x=lowering.read(node.inputs[0]), indices=indices, axis=axis)


def _check_gather_elements(node: NodeSpec, graph: Constants) -> str | None:
    """MIL takes elements along one axis, and all of the others."""
    shape, wanted = shape_of(node), shape_of(node, 1)
    axis = int(attribute(node, "axis", 0)) % len(shape)
    if any(
        one != other or one is None
        for place, (one, other) in enumerate(zip(shape, wanted, strict=True))
        if place != axis
    ):
        return "its indices have other sizes than its data on another axis than that of the indices"
    return None


def _gather_elements(lowering: Lowering, node: NodeSpec) -> Var:
    axis = int(attribute(node, "axis", 0)) % len(shape_of(node))
    return lowering.mb.gather_along_axis(
        x=lowering.read(node.inputs[0]), indices=lowering.read(node.inputs[1]), axis=axis
    )


def _indexed_sizes(node: NodeSpec) -> tuple[Any, ...]:
    """Return the sizes of the axes that the indices of GatherND name."""
    batch, width = int(attribute(node, "batch_dims", 0)), shape_of(node, 1)[-1]
    return shape_of(node)[batch:][:width]


def _check_gather_nd(node: NodeSpec, graph: Constants) -> str | None:
    width = shape_of(node, 1)[-1]
    if not isinstance(width, int) or not all(isinstance(size, int) for size in _indexed_sizes(node)):
        return "the sizes of the axes that its indices name are not known"
    return None


def _gather_nd(lowering: Lowering, node: NodeSpec) -> Var:
    """Count indices from the front: for those from the back, coremltools adds the sizes of the batch's axes."""
    mb, sizes = lowering.mb, np.array(_indexed_sizes(node), np.int32)
    found = constant(node, lowering.graph, 1)
    if found is None:
        given = lowering.read(node.inputs[1])
        indices = mb.select(cond=mb.less(x=given, y=np.int32(0)), a=mb.add(x=given, y=sizes), b=given)
    else:
        indices = np.where(found < 0, found + sizes, found).astype(np.int32)
    return mb.gather_nd(
        x=lowering.read(node.inputs[0]), indices=indices, batch_dims=int(attribute(node, "batch_dims", 0))
    )


def _check_blocks(node: NodeSpec, graph: Constants) -> str | None:
    if len(shape_of(node)) != 4:
        return "its data does not have four axes"
    if node.op_type == "SpaceToDepth" and attribute(node, "mode", "DCR") != "DCR":
        return f"its mode is {attribute(node, 'mode', '')}"
    return "its blocks have one element" if int(attribute(node, "blocksize", 0)) < 2 else None


def _depth_to_space(lowering: Lowering, node: NodeSpec) -> Var:
    x, size = lowering.read(node.inputs[0]), int(attribute(node, "blocksize", 0))
    if attribute(node, "mode", "DCR") == "CRD":
        return lowering.mb.pixel_shuffle(x=x, upscale_factor=size)
    return lowering.mb.depth_to_space(x=x, block_size=size)


def _space_to_depth(lowering: Lowering, node: NodeSpec) -> Var:
    return lowering.mb.space_to_depth(x=lowering.read(node.inputs[0]), block_size=int(attribute(node, "blocksize", 0)))


_SECOND = frozenset({1})

OPERATORS = {
    "Concat": Operator(_concat, since=4, kinds=NUMBERS),
    "DepthToSpace": Operator(_depth_to_space, _check_blocks),
    "Expand": Operator(_expand, _check_expand, _SECOND, kinds=ALL),
    "Flatten": Operator(_flatten, kinds=ALL),
    "Gather": Operator(_gather, _check_gather, kinds=NUMBERS),
    "GatherElements": Operator(_gather_elements, _check_gather_elements, kinds=NUMBERS),
    "GatherND": Operator(_gather_nd, _check_gather_nd, kinds=NUMBERS),
    "Pad": Operator(_pad, _check_pad, frozenset({1, 2, 3}), since=2),
    "Range": Operator(_range, kinds=INTEGERS),
    "Reshape": Operator(_reshape, _check_reshape, _SECOND, since=5, kinds=ALL),
    "Shape": Operator(_shape, _check_shape, kinds=ALL),
    "Slice": Operator(_slice, _check_slice, frozenset({1, 2, 3, 4}), kinds=ALL),
    "SpaceToDepth": Operator(_space_to_depth, _check_blocks),
    "Split": Operator(_split, _check_split, _SECOND, since=2, kinds=ALL),
    "Squeeze": Operator(_squeeze, _check_squeeze, _SECOND, kinds=ALL),
    "Tile": Operator(_tile, _check_tile, since=6, kinds=ALL),
    "Transpose": Operator(_transpose, kinds=ALL),
    "Unsqueeze": Operator(_unsqueeze, constants=_SECOND, kinds=ALL),
}
