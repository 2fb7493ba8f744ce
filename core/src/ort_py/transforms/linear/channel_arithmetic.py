"""Multiplication and addition of constants by channel, folded into the constants of the operator in front.

``Conv * a + b``, and likewise behind ConvTranspose, BatchNormalization, Gemm and MatMul. What is in front of an
operator is `input_scaling`'s. It does not depend on how weights are laid out: that is in `linear_weights`.
"""

from __future__ import annotations

import numpy as np

from ort_py.contracts import Array, GraphEditor, NodeSpec, RewriteRule, TransformContext
from ort_py.transforms.linear.linear_weights import LINEAR, linear, per_channel

_LARGE = 2.0**12
"""Factors up to this and down to its reciprocal, and the bias that they change."""

_SMALL = 16.0
"""Summands up to this are added to a bias up to this, where both belong to a sum of many terms: the order of the terms
changes the result by less than 2⁻¹⁹."""

_CANCELLED = 2.0**-16
"""Least sum of two numbers, as a share of the larger: what is less has cancelled out."""


class FoldChannelArithmetic(RewriteRule):
    """An operator of a constant, -1 for Neg, and of what a linear operator computes for it alone.

    Args:
        op_types: Add and Sub, or Mul, Div and Neg.
    """

    name = ""
    op_types: frozenset[str] = frozenset()

    def __init__(self, name: str, op_types: frozenset[str], producers: frozenset[str]) -> None:
        self.name = name
        self.op_types = op_types
        self._producers = producers

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        result = node.outputs[0]
        if node.domain or result is None:
            return False
        if node.op_type == "Neg":
            front = graph.producer(node.inputs[0])
            return False if front is None else self._folded(node, front, None, graph)
        if len(node.inputs) != 2 or node.since_version < 7:
            return False
        for position in (0, 1):
            operand, computed = node.inputs[position], node.inputs[1 - position]
            front = graph.producer(computed)
            if operand is None or not operand.constant or computed is None or front is None:
                continue
            if node.op_type == "Div" and position == 0:
                return False  # not linear
            return self._folded(node, front, graph.constant(operand), graph, constant_first=position == 0)
        return False

    def _folded(
        self, node: NodeSpec, front: NodeSpec, array: Array | None, graph: GraphEditor, *, constant_first: bool = False
    ) -> bool | str:
        computed, result = front.outputs[0], node.outputs[0]
        if front.op_type not in self._producers or front.domain or computed is None or result is None:
            return False
        if graph.uses(computed) != 1:
            return f"the result of the {front.op_type} is read elsewhere too"
        one = linear(front, graph)
        if isinstance(one, str):
            return one
        array = np.array(-1, one.weight.dtype) if array is None else array
        number = per_channel(array, one, None if computed.shape is None else len(computed.shape))
        if isinstance(number, str):
            return number
        factor, shift = _factors(node.op_type, number, constant_first=constant_first)
        bias = None if one.bias is None else one.bias * one.beta
        reason = _refusal(factor, shift, bias, is_sum=front.op_type != "BatchNormalization")
        if reason:
            return reason
        made = one.affine(factor, shift, graph, result.name)
        if isinstance(made, str):
            return made
        graph.replace_nodes([front, node], [made])
        return True


def _factors(op_type: str, number: Array, *, constant_first: bool) -> tuple[Array, Array | None]:
    """The operator's effect as a factor and a summand."""
    ones = np.ones(number.shape)
    if op_type in ("Mul", "Neg"):
        return number, None
    if op_type == "Div":
        with np.errstate(all="ignore"):  # a zero makes weights that are refused
            return ones / number, None
    if op_type == "Add":
        return ones, number
    return (-ones, number) if constant_first else (ones, -number)


def _refusal(factor: Array, shift: Array | None, bias: Array | None, *, is_sum: bool) -> str:
    """Explain why constants cannot be merged into those of the operator; empty if they can.

    A sum of two numbers is rounded after each of them, which is how some models round to integers with a large one; and
    a large factor or summand may let what is between overflow, or keep it from that.
    """
    largest = 0.0 if bias is None else float(np.abs(bias).max(initial=0))
    if shift is not None and bias is not None and largest and not (is_sum and _may_be_added(bias * factor, shift)):
        return "a sum of numbers is rounded after each of them"
    sizes = np.abs(factor[(factor != 0) & np.isfinite(factor)])  # other values give weights that are refused
    extreme = sizes.size and (sizes.max() > _LARGE or sizes.min() < 1 / _LARGE)
    if extreme or (largest > _LARGE and np.any(sizes != 1)):
        return "constants as large or as small as these may overflow or underflow what is between"
    return ""


def _may_be_added(bias: Array, shift: Array) -> bool:
    """Return whether two summands of a sum of many terms may be added first: both are small, and do not cancel each
    other.
    """
    sizes = np.maximum(np.abs(bias), np.abs(shift))
    return bool(np.all(sizes <= _SMALL) and np.all((np.abs(bias + shift) >= _CANCELLED * sizes) | (shift == 0)))


def channel_rules() -> list[FoldChannelArithmetic]:
    """One rule for each kind, called as in onnxruntime."""
    return [
        FoldChannelArithmetic("ConvMulFusion", frozenset({"Div", "Mul", "Neg"}), LINEAR),
        FoldChannelArithmetic("ConvAddFusion", frozenset({"Add", "Sub"}), LINEAR - {"MatMul"}),
    ]
