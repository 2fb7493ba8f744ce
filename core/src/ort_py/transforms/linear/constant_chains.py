"""Chains of additions or multiplications with constants: one, with the constants put together.

Integers wrap around, so the order does not matter to them. Of floating numbers only factors are merged, and only those
that both make numbers larger, or both smaller: nothing overflows or underflows in between then that would not do so
together, and results may differ in the last place. Sums stay as they are: each addition rounds, and ``x + M - M`` with
a large M is how some models round to integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ort_py.contracts import Array, GraphEditor, NodeSpec, NodeTemplate, RewriteRule, TransformContext
from ort_py.transforms.linear.linear_weights import operand_and_constant, rounded

_SUMS = frozenset({"Add", "Sub"})
_PRODUCTS = frozenset({"Div", "Mul"})


class MergeConstantChains(RewriteRule):
    """Two of Add and Sub, or two of Mul and Div, the constant of a Sub or Div behind the computed value."""

    name = "ConstantChainMerging"
    op_types = _SUMS | _PRODUCTS

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        family = _SUMS if node.op_type in _SUMS else _PRODUCTS
        outer = operand_and_constant(node)
        inner_node = None if outer is None else graph.producer(outer[0])
        if outer is None or inner_node is None or inner_node.op_type not in family or inner_node.domain:
            return False
        inner = operand_and_constant(inner_node)
        if inner is None or node.domain or node.since_version < 7 or inner_node.since_version < 7:
            return False
        result = node.outputs[0]
        a, b = graph.constant(inner[1]), graph.constant(outer[1])
        if a is None or b is None or result is None:
            return False
        if graph.uses(outer[0]) != 1:
            return "the result between is read elsewhere too"
        together = self._together(node.op_type, inner_node.op_type, a, b)
        if isinstance(together, str):
            return together
        if together.size > max(a.size, b.size):
            return "the constants together are larger than each of them"
        name = graph.add_constant(f"{result.name}/together", together)
        op_type = "Add" if family is _SUMS else "Mul"
        graph.replace_nodes([inner_node, node], [NodeTemplate(op_type, (inner[0].name, name), (result.name,))])
        return True

    @staticmethod
    def _together(outer: str, inner: str, a: Array, b: Array) -> Any | str:
        """The combined constant of both operations, or a reason why the result would differ."""
        whole = a.dtype.kind in "iu"
        if whole and "Div" in (outer, inner):
            return "integers are divided one after the other"
        if not whole and a.dtype not in (np.float32, np.float64):
            return f"rounding constants of {a.dtype} once more would cost precision"
        with np.errstate(all="ignore"):  # integers wrap around; what is not finite is looked for
            if whole:
                left, right = (-a if inner == "Sub" else a), (-b if outer == "Sub" else b)
                return np.asarray(left + right if outer in _SUMS else left * right)
            if outer in _SUMS:
                return "a sum of numbers is rounded after each of them"
            left, right = a.astype(np.float64), b.astype(np.float64)
            if (inner == "Div" and not _exact(left)) or (outer == "Div" and not _exact(right)):
                return "a quotient is another number than a product with the reciprocal"
            left, right = (1 / left if inner == "Div" else left), (1 / right if outer == "Div" else right)
            if not _one_way(left, right):
                return "what is between may overflow or underflow where the product of both does not"
            exact = left * right
        together = rounded(a, exact)
        if together is None or np.any(np.abs(together) < np.finfo(a.dtype).tiny):
            return "the constants together leave the range of their type"
        return together


def _exact(numbers: Any) -> bool:
    """Return whether all reciprocals are exact: powers of two, and none at the ends of the range."""
    fraction, exponent = np.frexp(numbers)
    return bool(np.all(np.abs(fraction) == 0.5) and np.all(np.abs(exponent) < 120))


def _one_way(left: Any, right: Any) -> bool:
    """Return whether both make numbers larger, or both smaller."""
    left, right = np.abs(left), np.abs(right)
    return bool((np.all(left >= 1) and np.all(right >= 1)) or (np.all(left <= 1) and np.all(right <= 1)))
