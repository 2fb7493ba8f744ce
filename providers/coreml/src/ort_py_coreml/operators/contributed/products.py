"""Products with factors and activations, and products with weights of 4 or 8 bits in blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from ort_py.contracts import NodeSpec
from ort_py_coreml.operators import products, windows
from ort_py_coreml.operators.operator import Constants, Operator, Var, attribute, constant, shape_of

if TYPE_CHECKING:
    from ort_py_coreml.lowering import Lowering

__all__ = ["OPERATORS"]

_ACTIVATIONS = {"Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh"}
"""MIL's functions of activations without parameters."""

_PARAMETERS = {"Clip": 2, "HardSigmoid": 2, "LeakyRelu": 1}
"""The number of parameters of others, which FusedConv has."""

_GEMM, _CONV = products.OPERATORS["Gemm"], windows.OPERATORS["Conv"]


def _check_matmul(node: NodeSpec, graph: Constants) -> str | None:
    if attribute(node, "transBatchA", 0) or attribute(node, "transBatchB", 0):
        return "it transposes batches"
    return products.OPERATORS["MatMul"].check(node, graph)


def _matmul(lowering: Lowering, node: NodeSpec) -> Var:
    mb, alpha = lowering.mb, np.float32(attribute(node, "alpha", 1.0))
    found = mb.matmul(
        x=lowering.read(node.inputs[0]),
        y=lowering.read(node.inputs[1]),
        transpose_x=bool(attribute(node, "transA", 0)),
        transpose_y=bool(attribute(node, "transB", 0)),
    )
    return found if alpha == 1 else mb.mul(x=found, y=alpha)


def _check_activation(node: NodeSpec) -> str | None:
    name = attribute(node, "activation", "")
    if not name or name in _ACTIVATIONS:
        return None
    count = len(attribute(node, "activation_params", ()))
    if _PARAMETERS.get(name) != count:
        return f"its activation is {name}, with {count} parameters"
    return None if np.isfinite(attribute(node, "activation_params", ())).all() else "a parameter is not finite"


def _activated(lowering: Lowering, node: NodeSpec, x: Var) -> Var:
    mb, name = lowering.mb, attribute(node, "activation", "")
    given = [np.float32(one) for one in attribute(node, "activation_params", ())]
    if name == "Clip":
        return mb.minimum(x=mb.maximum(x=x, y=given[0]), y=given[1])
    if name == "HardSigmoid":
        return mb.sigmoid_hard(x=x, alpha=given[0], beta=given[1])
    if name == "LeakyRelu":
        return mb.leaky_relu(x=x, alpha=given[0])
    return getattr(mb, _ACTIVATIONS[name])(x=x) if name else x


def _check_gemm(node: NodeSpec, graph: Constants) -> str | None:
    return _check_activation(node) or _GEMM.check(node, graph)


def _gemm(lowering: Lowering, node: NodeSpec) -> Var:
    return _activated(lowering, node, _GEMM.lower(lowering, node))


def _check_conv(node: NodeSpec, graph: Constants) -> str | None:
    return _check_activation(node) or _CONV.check(node, graph)


def _conv(lowering: Lowering, node: NodeSpec) -> Var:
    """Add what a fourth input has before the activation."""
    found = _CONV.lower(lowering, node)
    if len(node.inputs) > 3 and node.inputs[3] is not None:
        found = lowering.mb.add(x=found, y=lowering.read(node.inputs[3]))
    return _activated(lowering, node, found)


def _check_bits(node: NodeSpec, graph: Constants) -> str | None:
    bits, block = int(attribute(node, "bits", 4)), int(attribute(node, "block_size", 0))
    points = constant(node, graph, 3)
    if bits not in (4, 8):
        return "its weights have neither 8 bits nor 4"
    if len(node.inputs) > 4 and node.inputs[4] is not None:
        return "its weights are in another order"
    if attribute(node, "weight_prepacked", 0):
        return "its weights are packed for another machine"
    if points is not None and points.dtype != np.uint8:
        return "its zero points are no integers"
    if int(attribute(node, "K", 0)) % block:
        return "the last of its blocks is shorter than the others"
    scale = constant(node, graph, 2)
    if scale is None or scale.dtype != np.float32 or not np.isfinite(scale).all():
        return "its scale is not finite float32"
    return None if len(shape_of(node)) >= 2 else "an operand is a vector"


def _check_later(node: NodeSpec, graph: Constants) -> str | None:
    return "its weights have a scale for each block, which packages for macOS 15 may have"


def _apart(packed: Any, bits: int, count: int) -> Any:
    """Return `count` numbers for each row of bytes, of which the lower half of a byte comes first."""
    if bits == 4:
        packed = np.stack([packed & 15, packed >> 4], axis=-1).reshape(packed.shape[0], -1)
    return np.ascontiguousarray(packed[:, :count]).astype(ml_dtypes.uint4 if bits == 4 else np.uint8)


def _bits(lowering: Lowering, node: NodeSpec) -> Var:
    mb, bits = lowering.mb, int(attribute(node, "bits", 4))
    columns, inner = int(attribute(node, "N", 0)), int(attribute(node, "K", 0))
    blocks = inner // int(attribute(node, "block_size", 0))
    packed, scale, points = (constant(node, lowering.graph, place) for place in (1, 2, 3))
    assert packed is not None, "the table says which inputs are constants"
    assert scale is not None, "the table says which inputs are constants"
    data = _apart(packed.reshape(columns, -1), bits, inner)
    middle = np.full((columns, blocks), 1 << (bits - 1), np.uint8).astype(data.dtype)
    weights = mb.constexpr_blockwise_shift_scale(
        data=data,
        scale=np.ascontiguousarray(scale.reshape(columns, blocks)),
        offset=middle if points is None else _apart(points.reshape(columns, -1), bits, blocks),
    )
    found = mb.matmul(x=lowering.read(node.inputs[0]), y=weights, transpose_y=True)
    if len(node.inputs) > 5 and node.inputs[5] is not None:
        found = mb.add(x=found, y=lowering.read(node.inputs[5]))
    return found


OPERATORS = {
    "FusedConv": Operator(_conv, _check_conv, frozenset({2}), heavy=True),
    "FusedGemm": Operator(_gemm, _check_gemm, heavy=True),
    "FusedMatMul": Operator(_matmul, _check_matmul, heavy=True),
    "MatMulNBits": Operator(_bits, _check_bits, frozenset({1, 2, 3, 4}), heavy=True, later=_check_later),
}
