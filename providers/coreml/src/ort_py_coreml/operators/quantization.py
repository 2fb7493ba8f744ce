"""Weights that are kept in 8 or 4 bits: DequantizeLinear of constants, whose results Core ML makes when it likes.

They are constants to Core ML. Such a node therefore has to be in the region of all its readers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ort_py.contracts import NodeSpec
from ort_py.dtypes import DataType
from ort_py_coreml.operators.operator import Constants, Operator, Var, attribute, constant, kind_of, shape_of

if TYPE_CHECKING:
    from ort_py_coreml.lowering import Lowering

__all__ = ["OPERATORS"]

_BYTES = frozenset({DataType.INT8, DataType.UINT8})
_FEW = frozenset({DataType.INT4, DataType.UINT4})


def _check(node: NodeSpec, graph: Constants) -> str | None:
    if kind_of(node) not in _BYTES | _FEW | {DataType.INT32}:
        return "its weights have neither 8 bits nor 4"
    if kind_of(node, 1) is not DataType.FLOAT:
        return "its scale is not float32"
    scale, shape = constant(node, graph, 1), shape_of(node)
    if scale is None or not np.isfinite(scale).all():
        return "its scale is not finite"
    if not 1 <= len(shape) <= 5:
        return "its weights have no axes, or more than five"
    if _has_blocks(node, graph):
        if kind_of(node) is DataType.INT32:
            return "its weights of 32 bits have a scale for each block"
        if any(size % count for size, count in zip(shape, scale.shape, strict=True)):
            return "the last of its blocks is shorter than the others"
    return None


def _has_blocks(node: NodeSpec, graph: Constants) -> bool:
    scale = constant(node, graph, 1)
    return bool(attribute(node, "block_size", 0)) or (scale is not None and scale.ndim > 1)


def _check_later(node: NodeSpec, graph: Constants) -> str | None:
    if kind_of(node) in _FEW or _has_blocks(node, graph):
        return "its weights have 4 bits or a scale for each block, which packages for macOS 15 may have"
    return None


def _dequantize(lowering: Lowering, node: NodeSpec) -> Var:
    x, scale, zero = (constant(node, lowering.graph, place) for place in range(3))
    assert x is not None, "the table says which inputs are constants"
    assert scale is not None, "the table says which inputs are constants"
    zero = np.zeros(scale.shape, x.dtype) if zero is None else zero
    axis = int(attribute(node, "axis", 1)) % x.ndim if scale.size > 1 else 0
    shape = [-1 if place == axis and scale.size > 1 else 1 for place in range(x.ndim)]
    if x.dtype == np.int32:
        found = (x - zero.reshape(shape)).astype(np.float32) * scale.reshape(shape)
        return lowering.mb.const(val=found.astype(np.float32))
    if kind_of(node) in _FEW or _has_blocks(node, lowering.graph):
        blocks = scale if _has_blocks(node, lowering.graph) else scale.reshape(shape)
        return lowering.mb.constexpr_blockwise_shift_scale(
            data=np.ascontiguousarray(x),
            scale=np.ascontiguousarray(blocks),
            offset=np.ascontiguousarray(zero.reshape(blocks.shape)),
        )
    return lowering.mb.constexpr_affine_dequantize(
        quantized_data=np.ascontiguousarray(x), zero_point=_plain(zero), scale=_plain(scale), axis=np.int32(axis)
    )


def _plain(numbers: np.ndarray[Any, Any]) -> Any:
    """Return one number as a scalar, which is for the whole tensor."""
    return numbers.reshape(-1)[0] if numbers.size == 1 else np.ascontiguousarray(numbers)


OPERATORS = {
    "DequantizeLinear": Operator(_dequantize, _check, frozenset({0, 1, 2}), since=10, later=_check_later),
}
