"""Reasons why nodes of the right version and type cannot be in a region: their shapes, their axes, their constants.

Comes after `emitters`; `operators` names these for the operators that they are for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ort_py.contracts.graph_view import NodeSpec
from ort_py.dtypes import DataType
from ort_py_cuda.regions.emitters import Constant

__all__ = ["no_axis", "one_slope", "reduced_axes_of", "scalar_bounds", "two_roundings"]


def reduced_axes_of(node: NodeSpec, constant: Constant) -> int | str:
    """Number of trailing axes that a node reduces, or the reason why it cannot be in a region."""
    first = node.inputs[0]
    shape = None if first is None else first.shape
    if shape is None or None in shape:
        return "the sizes of its input are not known by name or number"
    rank = len(shape)
    if node.op_type in ("Softmax", "LogSoftmax"):
        axes: Any = (node.attributes.get("axis", -1),) if rank else ()
    else:
        axes = node.attributes.get("axes")
        if axes is None and len(node.inputs) > 1 and node.inputs[1] is not None:
            known = constant(1)
            if known is None:
                return "its axes are not constant"
            axes = known.reshape(-1).tolist()
        if not axes:
            if node.attributes.get("noop_with_empty_axes", 0):
                return "it reduces nothing"
            axes = range(rank)
    found = sorted({axis % rank for axis in axes}) if rank else []
    if not found or found != list(range(rank - len(found), rank)):
        return "its axes are not the last ones"
    rows, cols = shape[: -len(found)], shape[-len(found) :]
    if all(isinstance(size, int) for size in shape):
        count = _product(rows)
        if count < _FEW_ROWS and _product(cols) > _LONG_ROW:
            return f"{count} rows of {_product(cols)} elements are too few for a block each"
    return len(found)


_FEW_ROWS = 32
_LONG_ROW = 65536


def _product(sizes: Sequence[Any]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


def no_axis(node: NodeSpec, constant: Constant) -> str | None:
    found = reduced_axes_of(node, constant)
    return found if isinstance(found, str) else None


def scalar_bounds(node: NodeSpec, constant: Constant) -> str | None:
    for index, value in enumerate(node.inputs[1:], 1):
        if value is not None and value.shape is None and constant(index) is None:
            return "the shape of a bound is not known"
    return None


def two_roundings(node: NodeSpec, _c: Constant) -> str | None:
    source, target = node.inputs[0], node.outputs[0]
    types = [None if value is None else value.data_type for value in (source, target)]
    return "double becomes bfloat16 in two roundings there" if types == [DataType.DOUBLE, DataType.BFLOAT16] else None


def one_slope(node: NodeSpec, _c: Constant) -> str | None:
    x, slope = node.inputs[0], node.inputs[1]
    if x is None or slope is None or x.shape is None or slope.shape is None or len(slope.shape) > len(x.shape):
        return "the shape of its slope is not known, or no part of its input's"
    for own, other in zip(reversed(slope.shape), reversed(x.shape), strict=False):
        if own not in (1, other):
            return "its slope would not broadcast one-sidedly"
    return None
