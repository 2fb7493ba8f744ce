"""Gelu and its relatives, some of which add a bias first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ort_py.contracts import NodeSpec
from ort_py_coreml.operators.operator import Lower, Operator, Var, attribute

if TYPE_CHECKING:
    from ort_py_coreml.lowering import Lowering

__all__ = ["OPERATORS"]


def _gelu(mode: str) -> Lower:
    def lower(lowering: Lowering, node: NodeSpec) -> Var:
        mb, x = lowering.mb, lowering.read(node.inputs[0])
        if len(node.inputs) > 1 and node.inputs[1] is not None:
            x = mb.add(x=x, y=lowering.read(node.inputs[1]))
        return mb.gelu(x=x, mode=mode)

    return lower


def _quick(lowering: Lowering, node: NodeSpec) -> Var:
    mb, x = lowering.mb, lowering.read(node.inputs[0])
    alpha = np.float32(attribute(node, "alpha", 1.702))
    return mb.mul(x=x, y=mb.sigmoid(x=mb.mul(x=x, y=alpha)))


OPERATORS = {
    "BiasGelu": Operator(_gelu("EXACT")),
    "FastGelu": Operator(_gelu("TANH_APPROXIMATION")),
    "Gelu": Operator(_gelu("EXACT")),
    "QuickGelu": Operator(_quick),
}
