"""Products with their neighbours as one operator: Gemm and FusedGemm, FusedMatMul, FusedConv.

Gemm is of matrices only: a product of more axes has a kernel of its own that reads them as one matrix. FusedMatMul
takes the transposes and the scale around a product, which BLAS computes at no cost of its own. Each of its rules takes
one thing at a time, so that they compose in any order. FusedConv takes the sum with a tensor of the result's own shape,
as in a residual block, and the activation behind it: it broadcasts nothing. Attention's own patterns, which contain
such products, belong to rules that run before, and constants are folded into filters and bias before. Knows no kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ort_py.contracts import Const, Level, Match, NodeSpec, NodeTemplate, Op, PatternRule, TransformContext, Var
from ort_py.dtypes import DataType, Dim
from ort_py.transforms.functions.activation_parameters import ACTIVATIONS, activation_parameters
from ort_py.transforms.fusion import CONTRIB, Fusion, adds_axes, dtype_refusal, scalar
from ort_py.transforms.movement.transposes import permutation_of

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


_MATMUL_FLOATS = (DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16, DataType.DOUBLE)
_LARGE = 2.0**12
"""Factors up to this, and down to its reciprocal."""

_DOMAINS = (("MatMul", ""), ("FusedMatMul", CONTRIB))


def _product(op_type: str, domain: str, left: Any, right: Any) -> Op:
    return Op(op_type, left, right, name="product", domain=domain)


def _swaps(node: NodeSpec) -> bool | str:
    perm, source = permutation_of(node), node.inputs[0]
    if perm is None or len(perm) < 2 or source is None or source.shape is None:
        return "it has fewer than two axes, or its permutation or its rank is not known"
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
        return dtype_refusal(match["a"], _MATMUL_FLOATS)

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
        return adds_axes(match, result) or dtype_refusal(match["a"], _MATMUL_FLOATS)

    def replacement(self, match: Match, context: TransformContext) -> NodeTemplate:
        product = match.node("product")
        assert product is not None
        factor, divisor = scalar(match.array("factor")), scalar(match.array("divisor"))
        alpha = factor if factor is not None else 1.0 / (divisor or 1.0)
        attributes = {**product.attributes, "alpha": product.attributes.get("alpha", 1.0) * alpha}
        return NodeTemplate("FusedMatMul", (match.name("a"), match.name("b")), (match.result,), attributes, CONTRIB)


def _open(node: NodeSpec) -> bool | str:
    return "it has an activation already" if node.attributes.get("activation") else True


def _convolution(domain: str) -> Op:
    inputs = [Var("x"), Var("w"), Var("b", optional=True)]
    if domain:
        inputs.append(Var("z", optional=True))
    return Op("FusedConv" if domain else "Conv", *inputs, name="conv", domain=domain, where=_open)


class FuseConvAdd(Fusion):
    """``conv(x) + z`` with a `z` of the result's shape."""

    name = "ConvAddActivationFusion"
    patterns = (Op("Add", _convolution(""), Var("z")),)

    def check(self, match: Match) -> str:
        z, result = match["z"], match.anchor.outputs[0]
        if z.shape is None or None in z.shape or result is None or z.shape != _output_shape(match):
            return f"'{z.name}' is not known to have the shape of the convolution"
        return dtype_refusal(match["x"], _FLOATS)

    def replacement(self, match: Match, context: TransformContext) -> NodeTemplate:
        conv = match.node("conv")
        assert conv is not None
        inputs = tuple(match.name(name) for name in ("x", "w", "b", "z"))
        return NodeTemplate("FusedConv", inputs, (match.result,), conv.attributes, CONTRIB)


def _output_shape(match: Match) -> object:
    conv = match.node("conv")
    output = conv.outputs[0] if conv is not None else None
    return None if output is None else output.shape


class FuseConvActivation(Fusion):
    """An activation behind a Conv, or behind one that has a sum."""

    name = "ConvActivationFusion"
    patterns = tuple(
        Op(op_type, _convolution(domain), *([Const("low", optional=True), Const("high", optional=True)] * clips))
        for domain in ("", CONTRIB)
        for op_type, clips in ((name, name == "Clip") for name in sorted(ACTIVATIONS))
    )

    def check(self, match: Match) -> str:
        parameters = activation_parameters(match)
        return parameters if isinstance(parameters, str) else dtype_refusal(match["x"], _FLOATS)

    def replacement(self, match: Match, context: TransformContext) -> NodeTemplate:
        conv, parameters = match.node("conv"), activation_parameters(match)
        assert conv is not None
        assert not isinstance(parameters, str)
        added = {"activation": match.anchor.op_type}
        return NodeTemplate(
            "FusedConv",
            tuple(match.name(name) for name in ("x", "w", "b", "z")),
            (match.result,),
            {**conv.attributes, **added, **({"activation_params": parameters} if parameters else {})},
            CONTRIB,
        )


def product_fusions() -> list[Fusion]:
    """One rule for each fused operator."""
    return [FuseConvAdd(), FuseConvActivation(), FuseGemmActivation(), FuseMatMulTranspose(), FuseMatMulScale()]
