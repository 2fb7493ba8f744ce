"""Words, their places and their kinds as vectors, whose sum is normalised."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ort_py.contracts import NodeSpec
from ort_py.dtypes import DataType
from ort_py_coreml.operators.extents import counted_up
from ort_py_coreml.operators.operator import FLOATS, Constants, Operator, Var, attribute, constant, has, shape_of

if TYPE_CHECKING:
    from ort_py_coreml.lowering import Lowering

__all__ = ["OPERATORS"]

_WORDS, _KINDS, _WORD_TABLE, _PLACE_TABLE, _KIND_TABLE, _SCALE, _BIAS, _MASK, _PLACES = range(9)


def _check(node: NodeSpec, graph: Constants) -> str | None:
    counted = len(node.outputs) > 1 and node.outputs[1] is not None
    return "it counts words, and has no mask" if counted and not has(node, _MASK) else None


def _lower(lowering: Lowering, node: NodeSpec) -> list[Var]:
    mb, words = lowering.mb, lowering.read(node.inputs[_WORDS])
    counted = None if has(node, _PLACES) else counted_up(mb, shape_of(node)[1], words, 1)
    places = lowering.read(node.inputs[_PLACES]) if counted is None else counted
    total = mb.add(
        x=mb.gather(x=lowering.read(node.inputs[_WORD_TABLE]), indices=words, axis=0),
        y=mb.gather(x=lowering.read(node.inputs[_PLACE_TABLE]), indices=places, axis=0),
    )
    if has(node, _KINDS):
        table, kinds = lowering.read(node.inputs[_KIND_TABLE]), lowering.read(node.inputs[_KINDS])
        total = mb.add(x=total, y=mb.gather(x=table, indices=kinds, axis=0))
    scale, bias = (constant(node, lowering.graph, place) for place in (_SCALE, _BIAS))
    epsilon = np.float32(attribute(node, "epsilon", 1e-12))
    y = mb.layer_norm(x=total, axes=[2], gamma=scale, beta=bias, epsilon=epsilon)
    count = mb.reduce_sum(x=lowering.read(node.inputs[_MASK]), axes=[1], keep_dims=False) if has(node, _MASK) else None
    return [y, count, total]


OPERATORS = {
    "EmbedLayerNormalization": Operator(
        _lower, _check, frozenset({_SCALE, _BIAS}), heavy=True, kinds=FLOATS | {DataType.INT32}
    )
}
