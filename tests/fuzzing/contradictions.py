"""One small contradiction in a valid model: an attribute, a constant or a connection that is a little off.

Whoever runs such a model must refuse it, or compute what everybody else does. The trip count and the condition of a
Loop are left alone: without them, or with a large number in their place, a valid model runs forever.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

__all__ = ["contradict"]

_LIMITING = {"Loop": 2}
"""The number of inputs of an operator, counted from the first, that make it end."""


def contradict(model: onnx.ModelProto, rng: random.Random) -> tuple[onnx.ModelProto, str]:
    """A copy in which one attribute, constant or connection is a little off, and what was done; ``""`` for nothing."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for _ in range(8):
        done = rng.choice(_LIGHT)(made, rng)
        if done:
            return made, done
    return made, ""


def _near(number: int, rng: random.Random) -> int:
    near = rng.choice((number + 1, number - 1, -number, 0, -1, number * 2, number + 2, 1, 5, -7, 9))
    return min(max(near, -(2**63)), 2**63 - 1)


def _attribute_off(model: onnx.ModelProto, rng: random.Random) -> str:
    found = [
        (node, one)
        for node in model.graph.node
        for one in node.attribute
        if one.type in {AttributeProto.INT, AttributeProto.INTS} and node.op_type != "Cast"
    ]
    if not found:
        return ""
    node, one = rng.choice(found)
    before = helper.get_attribute_value(one)
    if one.type == AttributeProto.INT:
        one.i = _near(one.i, rng)
    else:
        _ints_off(one.ints, rng)
    return f"{node.op_type}.{one.name} {before} -> {helper.get_attribute_value(one)}"


def _ints_off(ints: Any, rng: random.Random) -> None:
    roll = rng.random()
    if roll < 0.15 and len(ints):
        del ints[-1]
    elif roll < 0.3:
        ints.append(rng.choice((0, 1, 2, -1)))
    elif len(ints):
        place = rng.randrange(len(ints))
        ints[place] = _near(ints[place], rng)


def _constant_off(model: onnx.ModelProto, rng: random.Random) -> str:
    """An integer constant, such as a shape or axes, with another number, another length or another rank."""
    found = [
        one
        for one in model.graph.initializer
        if one.data_type in {TensorProto.INT64, TensorProto.INT32} and np.prod(one.dims) <= 64
    ]
    if not found:
        return ""
    one = rng.choice(found)
    array = numpy_helper.to_array(one).copy()
    before = array.tolist()
    roll = rng.random()
    if roll < 0.15 and array.ndim == 1 and array.size:
        array = array[:-1]
    elif roll < 0.3 and array.ndim == 1:
        array = np.append(array, array.dtype.type(rng.choice((0, 1, 2, -1))))
    elif roll < 0.38:
        array = array.reshape(1, *array.shape)
    elif array.size:
        place = rng.randrange(array.size)
        bounds = np.iinfo(array.dtype)
        array.flat[place] = min(max(_near(int(array.flat[place]), rng), bounds.min), bounds.max)
    one.CopyFrom(numpy_helper.from_array(array, one.name))
    return f"constant {one.name} {before} -> {array.tolist()}"


def _weights_off(model: onnx.ModelProto, rng: random.Random) -> str:
    """A constant with an axis one longer or shorter, another rank, or another type."""
    found = [one for one in model.graph.initializer if one.data_type not in {TensorProto.INT64}]
    if not found:
        return ""
    one = rng.choice(found)
    array = numpy_helper.to_array(one)
    before = (array.dtype.name, array.shape)
    roll = rng.random()
    if roll < 0.15:
        array = array[np.newaxis]
    elif roll < 0.25 and array.ndim:
        array = array[0] if array.shape[0] else array
    elif roll < 0.35:
        array = array.astype(rng.choice((np.float32, np.float64, np.int64, np.int8, np.uint8)))
    elif array.ndim:
        axis = rng.randrange(array.ndim)
        if roll < 0.7 and array.shape[axis]:
            array = np.delete(array, -1, axis)
        else:
            array = np.concatenate(
                [
                    array,
                    np.take(array, [0], axis)
                    if array.shape[axis]
                    else np.zeros((*array.shape[:axis], 1, *array.shape[axis + 1 :]), array.dtype),
                ],
                axis,
            )
    one.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array) if array.ndim else array, one.name))
    after = (array.dtype.name, array.shape)
    return f"constant {one.name} {before} -> {after}" if before != after else ""


def _attribute_lost(model: onnx.ModelProto, rng: random.Random) -> str:
    found = [node for node in model.graph.node if node.attribute and node.op_type != "Constant"]
    if not found:
        return ""
    node = rng.choice(found)
    place = rng.randrange(len(node.attribute))
    name = node.attribute[place].name
    del node.attribute[place]
    return f"{node.op_type} without {name}"


def _rewired(model: onnx.ModelProto, rng: random.Random) -> str:
    names = [one.name for one in model.graph.input] + [one.name for one in model.graph.initializer]
    place = rng.randrange(len(model.graph.node)) if model.graph.node else 0
    for earlier in model.graph.node[:place]:
        names += earlier.output
    if not names or not model.graph.node:
        return ""
    node = model.graph.node[place]
    if not node.input:
        return ""
    index = rng.randrange(len(node.input))
    if index < _LIMITING.get(node.op_type, 0):
        return ""
    before, node.input[index] = node.input[index], rng.choice([name for name in names if name])
    return f"{node.op_type} reads {node.input[index]} instead of {before}" if before != node.input[index] else ""


def _input_lost(model: onnx.ModelProto, rng: random.Random) -> str:
    found = [node for node in model.graph.node if node.input]
    if not found:
        return ""
    node = rng.choice(found)
    index = rng.randrange(len(node.input))
    if index < _LIMITING.get(node.op_type, 0):
        return ""
    if index == len(node.input) - 1:
        del node.input[index]
    else:
        node.input[index] = ""
    return f"{node.op_type} without input {index}"


_LIGHT: tuple[Callable[[onnx.ModelProto, random.Random], str], ...] = (
    _attribute_off,
    _attribute_off,
    _constant_off,
    _constant_off,
    _weights_off,
    _weights_off,
    _attribute_lost,
    _rewired,
    _input_lost,
)
