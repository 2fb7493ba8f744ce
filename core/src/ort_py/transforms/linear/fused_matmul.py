"""MatMul with the transposes and the scale around it as one FusedMatMul, which BLAS computes at no cost of its own.

Each rule takes one thing at a time, so that they compose in any order; what they make of a FusedMatMul is another.
Attention's own patterns, which contain such products, belong to rules that run before.
"""

from __future__ import annotations

from typing import Any

from ort_py.contracts import Const, Match, NodeSpec, NodeTemplate, Op, TransformContext, Var
from ort_py.dtypes import DataType
from ort_py.transforms.fusion import CONTRIB, Fusion, adds_axes, dtype_refusal, scalar
from ort_py.transforms.movement.transposes import permutation_of

__all__ = ["FuseMatMulScale", "FuseMatMulTranspose"]

_FLOATS = (DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16, DataType.DOUBLE)
_LARGE = 2.0**12
"""Factors up to this, and down to its reciprocal."""

_DOMAINS = (("MatMul", ""), ("FusedMatMul", CONTRIB))


def _product(op_type: str, domain: str, left: Any, right: Any) -> Op:
    return Op(op_type, left, right, name="product", domain=domain)


def _swaps(node: NodeSpec) -> bool | str:
    perm = permutation_of(node)
    if perm is None or len(perm) < 2:
        return "it has fewer than two axes, or its permutation is not known"
    rank = len(perm)
    wanted = (*range(rank - 2), rank - 1, rank - 2)
    return True if perm == wanted else "it does more than swap the last two axes"


class FuseMatMulTranspose(Fusion):
    """A Transpose of the last two axes in front of a product: ``transA`` or ``transB``."""

    name = "MatmulTransposeFusion"
    patterns = tuple(
        _product(op_type, domain, *sides)
        for op_type, domain in _DOMAINS
        for sides in (
            (Var("a"), Op("Transpose", Var("b"), name="right", where=_swaps)),
            (Op("Transpose", Var("a"), name="left", where=_swaps), Var("b")),
        )
    )

    def check(self, match: Match) -> str:
        if match.anchor.attributes.get("transBatchA") or match.anchor.attributes.get("transBatchB"):
            return "the batch axes of its operands are transposed too"
        return dtype_refusal(match["a"], _FLOATS)

    def replacement(self, match: Match, context: TransformContext) -> NodeTemplate:
        key = "transA" if match.node("left") is not None else "transB"
        attributes = dict(match.anchor.attributes)
        attributes[key] = 1 - attributes.get(key, 0)
        return NodeTemplate("FusedMatMul", (match.name("a"), match.name("b")), (match.result,), attributes, CONTRIB)


class FuseMatMulScale(Fusion):
    """A product multiplied or divided by a number, before or after: ``alpha``."""

    name = "MatMulScaleFusion"
    patterns = tuple(
        pattern
        for op_type, domain in _DOMAINS
        for pattern in (
            Op("Mul", _product(op_type, domain, Var("a"), Var("b")), Const("factor")),
            Op("Div", _product(op_type, domain, Var("a"), Var("b")), Const("divisor")),
        )
    )

    def check(self, match: Match) -> str:
        product = match.node("product")
        result = product.outputs[0] if product is not None else None
        factor = match.get("factor") or match["divisor"]
        number = scalar(match.graph.constant(factor))
        if number is None or result is None:
            return f"'{factor.name}' is not a single number"
        if match.get("divisor") is not None and number == 0:
            return "it divides by zero"
        sizes = [abs(number), abs(product.attributes.get("alpha", 1.0)) if product is not None else 1.0]
        if any(size and not 1 / _LARGE <= size <= _LARGE for size in sizes):
            return "factors as large or as small as these may overflow or underflow what is between"
        return adds_axes(match, result) or dtype_refusal(match["a"], _FLOATS)

    def replacement(self, match: Match, context: TransformContext) -> NodeTemplate:
        product = match.node("product")
        assert product is not None
        factor, divisor = scalar(match.array("factor")), scalar(match.array("divisor"))
        alpha = factor if factor is not None else 1.0 / (divisor or 1.0)
        attributes = {**product.attributes, "alpha": product.attributes.get("alpha", 1.0) * alpha}
        return NodeTemplate("FusedMatMul", (match.name("a"), match.name("b")), (match.result,), attributes, CONTRIB)
