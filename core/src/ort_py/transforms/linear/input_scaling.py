"""Multiplication with constants in front of an operator, folded into its weights.

``Conv(x * a)``, ``MatMul(x * a, w)`` and ``Gemm(x * a, w)``: by one number, or one for each channel of the input. What
is behind an operator is `channel_arithmetic`'s.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ort_py.contracts import Array, GraphEditor, Level, NodeSpec, NodeTemplate, RewriteRule, TransformContext, ValueSpec
from ort_py.transforms.linear.linear_weights import operand_and_constant, rounded

_LARGE = 2.0**12
"""Factors up to this, and down to its reciprocal."""


class FoldInputScale(RewriteRule):
    """Mul or Div by a constant, read by one operator with constant weights.

    Of the level of the fusions and behind them: the half of a Gelu stands in front of a product too.
    """

    name = "InputScaleFolding"
    op_types = frozenset({"Conv", "Gemm", "MatMul"})

    @property
    def level(self) -> Level:
        return Level.EXTENDED

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        if node.domain or len(node.inputs) < 2 or (node.op_type == "Gemm" and node.since_version < 7):
            return False
        for position in (0, 1) if node.op_type != "Conv" else (0,):
            scaled, weights = node.inputs[position], node.inputs[1 - position]
            front = graph.producer(scaled)
            if scaled is None or weights is None or front is None or front.op_type not in ("Div", "Mul"):
                continue
            if not weights.constant or front.domain or front.since_version < 7:
                continue
            operands = operand_and_constant(front)
            if operands is None:
                continue
            return self._folded(node, position, front, operands, graph)
        return False

    @staticmethod
    def _folded(
        node: NodeSpec, position: int, front: NodeSpec, operands: tuple[ValueSpec, ValueSpec], graph: GraphEditor
    ) -> bool | str:
        scaled, weights, result = node.inputs[position], node.inputs[1 - position], node.outputs[0]
        if scaled is None or weights is None or result is None:
            return False
        if graph.uses(scaled) != 1:
            return f"the result of the {front.op_type} is read elsewhere too"
        if graph.uses(weights) != 1:
            return "the weights are shared with another node"
        weight, factor = graph.constant(weights), graph.constant(operands[1])
        if weight is None or factor is None or weight.dtype not in (np.float32, np.float64):
            return "the weights are of a type that rounding twice would cost precision"
        source = operands[0]
        if source.shape is None or factor.ndim > len(source.shape):
            return "the constant may give the input another shape"
        with np.errstate(all="ignore"):  # numbers that are not finite are searched for
            number = factor.astype(np.float64)
            number = 1 / number if front.op_type == "Div" else number
            exact = _scaled(node, position, weight, number, len(source.shape), source)
            sizes = np.abs(number[(number != 0) & np.isfinite(number)])
        if isinstance(exact, str):
            return exact
        if sizes.size and (sizes.max() > _LARGE or sizes.min() < 1 / _LARGE):
            return "factors as large or as small as these may overflow or underflow what is between"
        new = rounded(weight, exact)
        if new is None:
            return "the new weights would not be finite, or be too small for their type"
        names = ["" if value is None else value.name for value in node.inputs]
        names[position] = source.name
        names[1 - position] = graph.add_constant(f"{weights.name}/scaled", new)
        graph.replace_nodes([front, node], [NodeTemplate(node.op_type, tuple(names), (result.name,), node.attributes)])
        return True


def _scaled(node: NodeSpec, position: int, weight: Array, factor: Array, rank: int, source: ValueSpec) -> Any | str:
    """The weights that do the same to what is not scaled, exact; a reason where there are none."""
    if factor.size == 1:
        return weight * factor.reshape(())
    shape = (1,) * (rank - factor.ndim) + factor.shape
    assert source.shape is not None  # the caller has looked
    axis = 1 if node.op_type == "Conv" else rank - 1
    if shape[axis] != source.shape[axis] or any(size != 1 for place, size in enumerate(shape) if place != axis):
        return "the constant differs along other axes than that of the channels"
    factor = factor.reshape(-1)
    if node.op_type == "Conv":
        groups = node.attributes.get("group", 1)
        split = weight.reshape(groups, -1, *weight.shape[1:])
        by_group = factor.reshape(groups, 1, -1, *[1] * (weight.ndim - 2))
        return (split * by_group).reshape(weight.shape)
    if position or weight.ndim != 2 or node.attributes.get("transA", 0):
        return "the constant differs along an axis that is not summed over"
    return weight * (factor if node.attributes.get("transB", 0) else factor[:, None])
