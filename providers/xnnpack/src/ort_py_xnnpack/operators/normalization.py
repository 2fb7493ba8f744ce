"""Softmax along one axis, batch normalisation with constant statistics, and rows divided by their root mean square."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ort_py.contracts import NodeSpec
from ort_py_xnnpack.binding.constants import ADD, MULTIPLY, Flag, Reduction, Unary
from ort_py_xnnpack.operators.operator import Constants, Operator, attribute, rank

if TYPE_CHECKING:
    from ort_py_xnnpack.execution.builder import Builder

__all__ = ["OPERATORS"]


def _check_softmax(node: NodeSpec, graph: Constants) -> str | None:
    if not rank(node):
        return "its data has no axes"
    return None


def _softmax(builder: Builder, node: NodeSpec) -> None:
    x = node.inputs[0]
    shape = builder.shape(x)
    count = len(shape)
    several = node.since_version < 13
    axis = int(attribute(node, "axis", 1 if several else -1)) % count
    if several and axis != count - 1:
        # All axes from this one on are one axis.
        flat = math.prod(shape[:axis]), math.prod(shape[axis:])
        before, after = builder.between(flat), builder.between(flat)
        builder.reshape(builder.read(x), before, flat)
        builder.define("softmax", before, after, 0)
        builder.reshape(after, builder.write(node.outputs[0], shape), shape)
        return
    order = builder.order(x)
    if order[-1] != axis:
        order = (*(one for one in range(count) if one != axis), axis)
    source = builder.read(x, order)
    builder.define("softmax", source, builder.write(node.outputs[0], shape, order), 0)


def _check_batch(node: NodeSpec, graph: Constants) -> str | None:
    if attribute(node, "training_mode", 0) or sum(value is not None for value in node.outputs) > 1:
        return "it is a step of training"
    if attribute(node, "spatial", 1) != 1:
        return "it has statistics for each element"
    return None if rank(node) > 1 else "its data has no channels"


def _batch(builder: Builder, node: NodeSpec) -> None:
    x = node.inputs[0]
    scale, bias, mean, variance = (np.asarray(builder.constant(value), np.float64) for value in node.inputs[1:5])
    factor = scale / np.sqrt(variance + float(attribute(node, "epsilon", 1e-5)))
    shape, order = builder.shape(x), builder.order(x)
    wide = tuple(-1 if axis == 1 else 1 for axis in order)
    scaled = builder.between(tuple(shape[axis] for axis in order))
    builder.binary(MULTIPLY, builder.read(x, order), builder.number(factor.reshape(wide)), scaled)
    target = builder.write(node.outputs[0], shape, order)
    builder.binary(ADD, scaled, builder.number((bias - mean * factor).reshape(wide)), target)


def _check_rows(node: NodeSpec, graph: Constants) -> str | None:
    skips = node.op_type.startswith("Skip")
    made = [place for place, value in enumerate(node.outputs) if value is not None]
    if any(place not in ({0, 3} if skips else {0}) for place in made):
        return "its statistics are wanted"
    if not skips and int(attribute(node, "axis", -1)) % max(rank(node), 1) != rank(node) - 1:
        return "it takes several axes together"
    if attribute(node, "stash_type", 1) != 1:
        return "it computes in another type than float32"
    if skips and (rank(node) != rank(node, 1) or rank(node) < 2):
        return "what is added has other axes"
    return None if rank(node) else "its data has no axes"


def _rows(builder: Builder, node: NodeSpec) -> None:
    skips = node.op_type.startswith("Skip")
    x = node.inputs[0]
    shape, source = builder.shape(x), builder.read(x)
    for added in (node.inputs[1], *node.inputs[3:4]) if skips else ():
        if added is None:
            continue
        total = builder.between(shape)
        builder.binary(ADD, source, builder.read(added), total)
        source = total
    gain = node.inputs[2 if skips else 1]
    narrow = (*shape[:-1], 1)
    mean, moved, factor = (builder.between(narrow) for _ in range(3))
    axes = [len(shape) - 1]
    builder.define("static_reduce_v2", int(Reduction.MEAN_OF_SQUARES), 1, axes, source, mean, int(Flag.KEEP_AXES))
    builder.watch(mean)  # of infinity XNNPACK finds no reciprocal root
    epsilon = np.full(1, float(attribute(node, "epsilon", 1e-5)), np.float32)
    builder.binary(ADD, mean, builder.number(epsilon), moved)
    builder.unary(Unary.RECIPROCAL_ROOT, moved, factor)
    scaled = builder.between(shape)
    builder.binary(MULTIPLY, source, factor, scaled)
    builder.binary(MULTIPLY, scaled, builder.read(gain), builder.write(node.outputs[0], shape))
    if skips and len(node.outputs) > 3 and node.outputs[3] is not None:
        builder.wrote(node.outputs[3], shape, source)


OPERATORS = {
    "BatchNormalization": Operator(_batch, _check_batch, looked_at=frozenset({1, 2, 3, 4}), since=7),
    "RMSNormalization": Operator(_rows, _check_rows),
    "SimplifiedLayerNormalization": Operator(_rows, _check_rows),
    "SkipSimplifiedLayerNormalization": Operator(_rows, _check_rows),
    "Softmax": Operator(_softmax, _check_softmax),
}
