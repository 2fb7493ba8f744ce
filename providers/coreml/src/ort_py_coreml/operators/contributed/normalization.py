"""Normalisations of the sum of two values and a bias."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ort_py.contracts import NodeSpec
from ort_py_coreml.operators.operator import Constants, Operator, Var, attribute, constant, shape_of

if TYPE_CHECKING:
    from ort_py_coreml.lowering import Lowering

__all__ = ["OPERATORS"]

_EPSILON = 1e-12


def _check(node: NodeSpec, graph: Constants) -> str | None:
    return "it gives its mean or deviation" if any(value is not None for value in node.outputs[1:3]) else None


def _sum(lowering: Lowering, node: NodeSpec, bias: int) -> Var:
    mb = lowering.mb
    found = mb.add(x=lowering.read(node.inputs[0]), y=lowering.read(node.inputs[1]))
    if len(node.inputs) > bias and node.inputs[bias] is not None:
        found = mb.add(x=found, y=lowering.read(node.inputs[bias]))
    return found


def _numbers(lowering: Lowering, node: NodeSpec, place: int) -> Any:
    found = constant(node, lowering.graph, place)
    return None if found is None else np.ascontiguousarray(found, np.float32)


def _centred(lowering: Lowering, node: NodeSpec) -> list[Var]:
    total = _sum(lowering, node, 4)
    gamma, beta = (_numbers(lowering, node, place) for place in (2, 3))
    y = lowering.mb.layer_norm(
        x=total,
        axes=[len(shape_of(node)) - 1],
        gamma=gamma,
        beta=np.zeros_like(gamma) if beta is None else beta,
        epsilon=np.float32(attribute(node, "epsilon", _EPSILON)),
    )
    return [y, None, None, total]


def _simplified(lowering: Lowering, node: NodeSpec) -> list[Var]:
    mb, total = lowering.mb, _sum(lowering, node, 3)
    mean = mb.reduce_mean(x=mb.mul(x=total, y=total), axes=[len(shape_of(node)) - 1], keep_dims=True)
    root = mb.rsqrt(x=mean, epsilon=np.float32(attribute(node, "epsilon", _EPSILON)))
    return [mb.mul(x=mb.mul(x=total, y=root), y=lowering.read(node.inputs[2])), None, None, total]


OPERATORS = {
    "SkipLayerNormalization": Operator(_centred, _check, frozenset({2, 3})),
    "SkipSimplifiedLayerNormalization": Operator(_simplified, _check),
}
