"""MatMul and Add of matrices as Gemm, and Gemm with the activation behind it as FusedGemm.

Of matrices only: a product of more axes has a kernel of its own that reads them as one matrix. Scaled and transposed
products are in `fused_matmul`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ort_py.contracts import Level, Match, NodeTemplate, Op, PatternRule, TransformContext, Var
from ort_py.dtypes import DataType, Dim
from ort_py.transforms.functions.activation_parameters import ACTIVATIONS, activation_parameters
from ort_py.transforms.fusion import CONTRIB, Fusion, dtype_refusal

__all__ = ["FuseGemmActivation", "FuseMatMulAdd"]

_FLOATS = (DataType.FLOAT, DataType.FLOAT16, DataType.DOUBLE)
_BROADCASTS = 7
"""Opset from which on Gemm broadcasts its third input."""
_PARAMETERS = ("activation_alpha", "activation_beta", "activation_gamma")


class FuseMatMulAdd(PatternRule):
    """``a @ b + c`` of matrices, the sum being as large as the product: Gemm."""

    name = "MatMulAddFusion"
    level = Level.BASIC
    patterns = (Op("Add", Op("MatMul", Var("a"), Var("b"), name="product"), Var("c")),)

    def check(self, match: Match) -> str:
        a, b, c = (match[name] for name in "abc")
        if a.shape is None or b.shape is None or len(a.shape) != 2 or len(b.shape) != 2:
            return f"'{a.name}' and '{b.name}' are not known to be matrices"
        if match.anchor.opset_version < _BROADCASTS:
            return "Gemm broadcasts from opset 7 on"
        if c.shape is None or not _spreads(c.shape, (a.shape[0], b.shape[1])):
            return f"'{c.name}' is not known to broadcast to the product"
        return dtype_refusal(a, _FLOATS)

    def replacement(self, match: Match, context: TransformContext) -> NodeTemplate:
        return NodeTemplate("Gemm", tuple(match.name(name) for name in "abc"), (match.result,))


def _spreads(shape: Sequence[Dim], target: Sequence[Dim]) -> bool:
    """Return whether a shape is certain to broadcast to another without making it larger."""
    if len(shape) > len(target):
        return False
    ends = zip(reversed(shape), reversed(target), strict=False)
    return all(size == 1 or (size is not None and size == wanted) for size, wanted in ends)


class FuseGemmActivation(Fusion):
    """An activation behind a Gemm."""

    name = "GemmActivationFusion"
    patterns = tuple(
        Op(op_type, Op("Gemm", Var("a"), Var("b"), Var("c", optional=True), name="gemm"))
        for op_type in sorted(ACTIVATIONS)
        if op_type != "Clip"  # which FusedGemm does not know
    )

    def check(self, match: Match) -> str:
        return dtype_refusal(match["a"], _FLOATS)

    def replacement(self, match: Match, context: TransformContext) -> NodeTemplate:
        gemm, parameters = match.node("gemm"), activation_parameters(match)
        assert gemm is not None
        assert not isinstance(parameters, str)
        named = dict(zip(_PARAMETERS, parameters, strict=False))
        return NodeTemplate(
            "FusedGemm",
            tuple(match.name(name) for name in "abc"),
            (match.result,),
            {**gemm.attributes, "activation": match.anchor.op_type, **named},
            CONTRIB,
        )
