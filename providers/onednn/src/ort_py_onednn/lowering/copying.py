"""Operators that repeat or pick: Expand, Tile, Gather of places that are known, pixels to channels and back."""

from __future__ import annotations

import math

import numpy as np

from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.graph.functions import linear
from ort_py_onednn.graph.operation import Operation
from ort_py_onednn.lowering.parts import copy_into, picked, spread
from ort_py_onednn.lowering.planner import Planner

__all__ = ["constant_of_shape", "depth_to_space", "expand", "gather", "space_to_depth", "tile"]


def expand(planner: Planner, operation: Operation) -> None:
    """ONNX Expand to a shape that is known; both broadcast."""
    source = planner.value(operation.inputs[0])
    shape = np.broadcast_shapes(source.shape, tuple(planner.integers(operation.inputs[1])))
    planner.bind(operation.outputs[0], spread(planner, source, shape))


def tile(planner: Planner, operation: Operation) -> None:
    """ONNX Tile: each dimension becomes a pair, of which the first is read again and again."""
    source = planner.plain(planner.value(operation.inputs[0]))
    sizes: list[int] = []
    strides: list[int] = []
    for repeat, size, stride in zip(
        planner.integers(operation.inputs[1]), source.shape, source.desc.strides, strict=False
    ):
        if repeat != 1:
            sizes.append(repeat)
            strides.append(0)
        sizes.append(size)
        strides.append(stride)
    shape = tuple(
        size * repeat for size, repeat in zip(source.shape, planner.integers(operation.inputs[1]), strict=True)
    )
    if shape == source.shape:
        planner.bind(operation.outputs[0], planner.view(source, source.desc, source.shape))
        return
    found = planner.new(Desc.plain(sizes, source.dtype))
    copy_into(planner, planner.view(source, Desc.strided(sizes, strides, source.dtype)), found)
    planner.bind(operation.outputs[0], planner.reshaped(found, shape))


def gather(planner: Planner, operation: Operation) -> None:
    """ONNX Gather where the places are known: one, a few ranges, or every n-th."""
    source = planner.value(operation.inputs[0])
    axis = operation.attributes.get("axis", 0) % len(source.shape)
    dim = source.shape[axis]
    given = planner.known(operation.inputs[1])
    places = [int(place) + (dim if place < 0 else 0) for place in given.reshape(-1)]
    found = picked(planner, source, axis, places)
    shape = (*source.shape[:axis], *given.shape, *source.shape[axis + 1 :])
    planner.bind(operation.outputs[0], planner.reshaped(found, shape))


def depth_to_space(planner: Planner, operation: Operation) -> None:
    """ONNX DepthToSpace: channels become pixels of a block."""
    source = planner.value(operation.inputs[0])
    batch, channels, rows, columns = source.shape
    block = operation.attributes["blocksize"]
    rest = channels // block**2
    if operation.attributes.get("mode", "DCR") == "DCR":
        split, order = (batch, block, block, rest, rows, columns), (0, 3, 4, 1, 5, 2)
    else:
        split, order = (batch, rest, block, block, rows, columns), (0, 1, 4, 2, 5, 3)
    _regroup(planner, operation, split, order, (batch, rest, rows * block, columns * block))


def space_to_depth(planner: Planner, operation: Operation) -> None:
    """ONNX SpaceToDepth: the pixels of a block become channels."""
    source = planner.value(operation.inputs[0])
    batch, channels, rows, columns = source.shape
    block = operation.attributes["blocksize"]
    split = (batch, channels, rows // block, block, columns // block, block)
    order = (0, 3, 5, 1, 2, 4) if operation.attributes.get("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    _regroup(planner, operation, split, order, (batch, channels * block**2, rows // block, columns // block))


def _regroup(
    planner: Planner, operation: Operation, split: tuple[int, ...], order: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    value = planner.reshaped(planner.plain(planner.value(operation.inputs[0])), split)
    desc = value.desc.permuted(order)
    assert desc is not None, "strides can always be exchanged"
    planner.bind(operation.outputs[0], planner.reshaped(planner.view(value, desc), shape))


def constant_of_shape(planner: Planner, operation: Operation) -> None:
    """ONNX ConstantOfShape with a shape that follows from others."""
    shape = tuple(planner.integers(operation.inputs[0]))
    value = operation.attributes.get("value")
    number = 0.0 if value is None else float(np.asarray(value).reshape(()))
    found = planner.new(Desc.plain(shape), shape)
    if math.prod(shape):
        planner.zero(found)
    planner.bind(operation.outputs[0], planner.apply(found, [linear(1.0, number)]) if number else found)
