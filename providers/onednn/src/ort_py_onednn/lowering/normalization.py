"""Softmax, LogSoftmax, normalisations of channels, LRN."""

from __future__ import annotations

import math

from ort_py_onednn.binding import primitives
from ort_py_onednn.binding.constants import F32, Argument, Binary
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.primitive import Primitive
from ort_py_onednn.binding.row_softmax import RowSoftmax, has_row_softmax
from ort_py_onednn.graph.operation import Combine, Operation
from ort_py_onednn.lowering.planner import PER_CHANNEL, Planner, Value

__all__ = ["group_normalization", "local_response", "softmax", "softmax_of_rows"]

_LANES = 16
"""Numbers of float32 in the longest vectors."""


def softmax(planner: Planner, operation: Operation) -> None:
    """ONNX Softmax and LogSoftmax: along an axis; before version 13 along all axes from one on."""
    source = planner.value(operation.inputs[0])
    rank = len(source.shape)
    logarithm = operation.kind == "LogSoftmax"
    if operation.since >= 13:
        axis = operation.attributes.get("axis", -1) % max(rank, 1)
        value = source
    else:
        axis = operation.attributes.get("axis", 1)
        axis += rank if axis < 0 else 0  # behind the last axis, each element is a row
        if axis != rank - 1:
            value = planner.reshaped(source, (math.prod(source.dims[:axis]), math.prod(source.dims[axis:])))
            axis = 1
        else:
            value = source
    if not value.desc.is_plain and (not value.desc.is_blocked or _misleads(value.desc, axis)):
        value = planner.plain(value)
    found = _softmax(planner, value, axis, logarithm=logarithm)
    if found.shape != source.shape:
        found = planner.reshaped(found, source.shape)
    planner.bind(operation.outputs[0], planner.apply(found, operation.posts))


def _softmax(planner: Planner, value: Value, axis: int, *, logarithm: bool) -> Value:
    desc, target = value.desc, _result(planner, value)
    along_rows = axis == len(desc.dims) - 1 and not logarithm
    own = softmax_of_rows(planner, value) if along_rows and target.dtype == F32 else None
    if own is not None:
        return own
    primitive = planner.make_heavy(
        lambda: primitives.softmax(desc, target, axis, logarithm=logarithm), 4.0 * math.prod(desc.dims)
    )
    if _wants_turn(primitive, desc, axis):
        order = (*range(axis), *range(axis + 1, len(desc.dims)), axis)
        turned = desc.permuted(order)
        assert turned is not None, "strides can always be exchanged"
        last = _softmax(planner, planner.plain(planner.view(value, turned)), len(order) - 1, logarithm=logarithm)
        back = last.desc.permuted((*range(axis), len(order) - 1, *range(axis, len(order) - 1)))
        assert back is not None, "strides can always be exchanged"
        return planner.view(last, back, value.shape)
    target = primitive.arguments[Argument.DST]
    found = planner.new(target, value.shape)
    planner.emit(primitive, {Argument.SRC: value, Argument.DST: found}, in_place=Argument.SRC)
    return found


def softmax_of_rows(planner: Planner, value: Value, *, hides: bool = False) -> Value | None:
    """The softmax along the last axis in code of our own; None where there is none for the value's layout and type.

    Args:
        planner: The planner.
        value: What becomes exponentials.
        hides: As of `RowSoftmax`.
    """
    if value.dtype != F32 or not value.desc.is_plain or 0 in value.dims or not has_row_softmax(planner.library):
        return None
    rows = planner.reshaped(value, (math.prod(value.dims[:-1]), value.dims[-1]))
    found = planner.new(rows.desc)
    own = planner.make_heavy(lambda: RowSoftmax(planner.library, rows.desc, hides=hides), 4.0 * math.prod(value.dims))
    planner.emit(own, {Argument.SRC: rows, Argument.DST: found}, in_place=Argument.SRC)
    return planner.reshaped(found, value.shape)


def _misleads(desc: Desc, axis: int) -> bool:
    """Whether an axis of a layout with blocks has another stride than in a whole tensor.

    oneDNN counts its rows by this stride: there are none where an axis of one block is that of a larger tensor.
    """
    if desc.key is None:
        return False
    blocks, places = desc.key[3]
    own = math.prod(block for block, place in zip(blocks, places, strict=True) if place <= axis)
    return bool(desc.strides[axis] != own * math.prod(desc.key[2][axis + 1 :]))


def _wants_turn(primitive: Primitive, desc: Desc, axis: int) -> bool:
    """Whether rows that lie beside one another are better turned, so that each is contiguous.

    oneDNN 3.13 has code for vectors of rows on some processors. It raises the Invalid flag for lanes without a row in
    the last vector: each run would be taken for one with NaN. On all others, and in other releases, it has reference
    code only, which takes a hundred times as long as a turn and the code for contiguous rows.
    """
    rows = math.prod(desc.dims[axis + 1 :])
    return desc.is_plain and rows > 1 and (primitive.is_reference or rows % _LANES != 0)


def _result(planner: Planner, value: Value) -> Desc:
    """Buffer for a result as large as a value: its own layout in the operation's type."""
    dtype = planner.result_type(value)
    return value.desc.of(dtype) or Desc.any(value.dims, dtype)


def group_normalization(planner: Planner, operation: Operation) -> None:
    """ONNX GroupNormalization and InstanceNormalization, whose groups are single channels: rows that are normalised.

    Scale and bias have a number for each channel.
    """
    source = planner.value(operation.inputs[0])
    batch, channels = source.shape[:2]
    groups = operation.attributes["num_groups"] if operation.kind == "GroupNormalization" else channels
    rows = planner.plain(planner.reshaped(source, (batch * groups, math.prod(source.shape[1:]) // groups)))
    desc, target = rows.desc, _result(planner, rows)
    epsilon = operation.attributes.get("epsilon", 1e-5)
    work = 4.0 * math.prod(desc.dims)
    primitive = planner.make_heavy(lambda: primitives.layer_normalization(desc, target, epsilon, 0), work)
    found = planner.new(target)
    planner.emit(primitive, {Argument.SRC: rows, Argument.DST: found})
    scale = planner.value(operation.inputs[1])
    split = (batch, channels, math.prod(source.shape[2:]))
    result = planner.reshaped(found, split)
    offset = Combine(PER_CHANNEL | Binary.ADD, operation.inputs[2] or "")
    result = planner.combine(Binary.MUL, result, planner.reshaped(scale, (1, channels, 1)), [offset])
    planner.bind(operation.outputs[0], planner.apply(planner.reshaped(result, source.shape), operation.posts))


def local_response(planner: Planner, operation: Operation) -> None:
    """ONNX LRN: across channels."""
    source = planner.value(operation.inputs[0])
    attributes = operation.attributes
    source = planner.converted(source, planner.result_type(source))
    value = source if source.desc.is_dense and source.desc.key is not None else planner.plain(source)
    desc = value.desc
    primitive = planner.make_heavy(
        lambda: primitives.local_response(
            desc,
            desc,
            attributes["size"],
            attributes.get("alpha", 1e-4),
            attributes.get("beta", 0.75),
            attributes.get("bias", 1.0),
        ),
        8.0 * math.prod(desc.dims),
    )
    found = planner.new(desc, source.shape)
    planner.emit(primitive, {Argument.SRC: value, Argument.DST: found})
    planner.bind(operation.outputs[0], planner.apply(found, operation.posts))
