"""Weights that are kept in 8 bits: DequantizeLinear of constants, whose results Core ML makes when it likes.

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


def _check(node: NodeSpec, graph: Constants) -> str | None:
    if kind_of(node) not in _BYTES and kind_of(node) is not DataType.INT32:
        return "its weights are neither int8 nor uint8"
    if kind_of(node, 1) is not DataType.FLOAT:
        return "its scale is not float32"
    scale = constant(node, graph, 1)
    if attribute(node, "block_size", 0) or scale is None or scale.ndim > 1:
        return "it has a scale for each block, which later versions of Core ML have"
    if not np.isfinite(scale).all():
        return "its scale is not finite"
    return None if 1 <= len(shape_of(node)) <= 5 else "its weights have no axes, or more than five"


def _dequantize(lowering: Lowering, node: NodeSpec) -> Var:
    x, scale, zero = (constant(node, lowering.graph, place) for place in range(3))
    assert x is not None, "the table says which inputs are constants"
    assert scale is not None, "the table says which inputs are constants"
    zero = np.zeros(scale.shape, x.dtype) if zero is None else zero
    axis = int(attribute(node, "axis", 1)) % x.ndim if scale.size > 1 else 0
    if x.dtype == np.int32:
        shape = [-1 if place == axis and scale.size > 1 else 1 for place in range(x.ndim)]
        found = (x - zero.reshape(shape)).astype(np.float32) * scale.reshape(shape)
        return lowering.mb.const(val=found.astype(np.float32))
    return lowering.mb.constexpr_affine_dequantize(
        quantized_data=np.ascontiguousarray(x), zero_point=_plain(zero), scale=_plain(scale), axis=np.int32(axis)
    )


def _plain(numbers: np.ndarray[Any, Any]) -> Any:
    """Return one number as a scalar, which is for the whole tensor."""
    return numbers.reshape(-1)[0] if numbers.size == 1 else np.ascontiguousarray(numbers)


OPERATORS = {"DequantizeLinear": Operator(_dequantize, _check, frozenset({0, 1, 2}), since=10)}
