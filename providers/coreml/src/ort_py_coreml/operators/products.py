"""Products of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ort_py.contracts import NodeSpec
from ort_py_coreml.operators.operator import Constants, Operator, Var, attribute, shape_of

if TYPE_CHECKING:
    from ort_py_coreml.lowering import Lowering

__all__ = ["OPERATORS"]


def _check_matmul(node: NodeSpec, graph: Constants) -> str | None:
    if min(len(shape_of(node, 0)), len(shape_of(node, 1))) < 2:
        return "an operand is a vector"
    return None


def _matmul(lowering: Lowering, node: NodeSpec) -> Var:
    return lowering.mb.matmul(x=lowering.read(node.inputs[0]), y=lowering.read(node.inputs[1]))


def _gemm(lowering: Lowering, node: NodeSpec) -> Var:
    mb = lowering.mb
    alpha, beta = np.float32(attribute(node, "alpha", 1.0)), np.float32(attribute(node, "beta", 1.0))
    result = mb.matmul(
        x=lowering.read(node.inputs[0]),
        y=lowering.read(node.inputs[1]),
        transpose_x=bool(attribute(node, "transA", 0)),
        transpose_y=bool(attribute(node, "transB", 0)),
    )
    if alpha != 1:
        result = mb.mul(x=result, y=alpha)
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        summand = lowering.read(node.inputs[2])
        result = mb.add(x=result, y=summand if beta == 1 else mb.mul(x=summand, y=beta))
    return result


OPERATORS = {
    "Gemm": Operator(_gemm, heavy=True, since=7),
    "MatMul": Operator(_matmul, _check_matmul, heavy=True),
}
