"""Gelu as exporters spell it out: by erf, by tanh, by a sigmoid; and a bias in front of it.

The shapes and types that allow it are `fusion`'s. float64 is left alone: the constants in models have the digits of
float32, the operators' own have all.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ort_py.contracts import Const, Match, NodeTemplate, OneOf, Op, Pattern, TransformContext, Var
from ort_py.dtypes import DataType
from ort_py.transforms.fusion import CONTRIB, Fusion, adds_axes, dtype_refusal, scalar, trailing_vector

_FLOATS = (DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16)
_STANDARD = 20
"""Opset that brought Gelu to ONNX."""
_SWISH = 24
"""Opset that brought Swish to ONNX."""

X = Var("x")


def _halved(what: Pattern) -> Pattern:
    return OneOf(Op("Mul", what, 0.5), Op("Div", what, 2.0))


def _halved_product(factor: Callable[[], Pattern]) -> tuple[Op, ...]:
    """``x · factor / 2``, wherever the half stands."""
    return (
        Op("Mul", Op("Mul", X, factor()), 0.5),
        Op("Div", Op("Mul", X, factor()), 2.0),
        Op("Mul", _halved(X), factor()),
        Op("Mul", X, _halved(factor())),
    )


def _erf_factor() -> Pattern:
    return Op("Add", Op("Erf", OneOf(Op("Div", X, math.sqrt(2)), Op("Mul", X, math.sqrt(0.5)))), 1.0)


def _tanh_factor() -> Pattern:
    slope, cubic = math.sqrt(2 / math.pi), 0.044715
    square = OneOf(Op("Pow", X, 2.0), Op("Mul", X, X))
    cube = OneOf(Op("Pow", X, 3.0), Op("Mul", X, square))
    summed = Op("Add", X, Op("Mul", cube, cubic))
    quadratic = OneOf(Op("Mul", Op("Mul", X, cubic), X), Op("Mul", square, cubic))
    argument = OneOf(
        Op("Mul", summed, slope),
        Op("Mul", X, Op("Mul", Op("Add", quadratic, 1.0), slope)),
        Op("Mul", Op("Mul", X, slope), Op("Add", quadratic, 1.0)),
        Op("Mul", Op("Mul", X, Op("Add", quadratic, 1.0)), slope),
    )
    return Op("Add", Op("Tanh", argument), 1.0)


class _Gelu(Fusion):
    """``x · (1 + f(x)) / 2`` as one node."""

    def check(self, match: Match) -> str:
        return dtype_refusal(match["x"], _FLOATS) or adds_axes(match, match["x"])


class FuseGelu(_Gelu):
    """``x · (1 + erf(x / √2)) / 2``, in any order: Gelu, of ONNX where the model's opset has it."""

    name = "GeluFusion"
    patterns = _halved_product(_erf_factor)

    def replacement(self, match: Match, context: TransformContext) -> NodeTemplate:
        standard = match.anchor.opset_version >= _STANDARD
        return NodeTemplate("Gelu", (match.name("x"),), (match.result,), domain="" if standard else CONTRIB)


class FuseTanhGelu(_Gelu):
    """The approximation by ``tanh(√(2/π) · (x + 0.044715 x³))``: Gelu of ONNX, else FastGelu."""

    name = "FastGeluFusion"
    patterns = _halved_product(_tanh_factor)

    def replacement(self, match: Match, context: TransformContext) -> NodeTemplate:
        inputs, outputs = (match.name("x"),), (match.result,)
        if match.anchor.opset_version >= _STANDARD:
            return NodeTemplate("Gelu", inputs, outputs, {"approximate": "tanh"})
        return NodeTemplate("FastGelu", inputs, outputs, domain=CONTRIB)


class FuseQuickGelu(Fusion):
    """``x · sigmoid(alpha · x)``, with or without the factor: Swish of ONNX, else QuickGelu."""

    name = "QuickGeluFusion"
    patterns = (
        Op("Mul", X, Op("Sigmoid", Op("Mul", X, Const("alpha", where=lambda array: scalar(array) is not None)))),
        Op("Mul", X, Op("Sigmoid", X)),
    )

    def check(self, match: Match) -> str:
        return dtype_refusal(match["x"], _FLOATS) or adds_axes(match, match["x"])

    def replacement(self, match: Match, context: TransformContext) -> NodeTemplate:
        alpha = scalar(match.array("alpha"))
        attributes = {"alpha": 1.0 if alpha is None else alpha}
        inputs, outputs = (match.name("x"),), (match.result,)
        if match.anchor.opset_version >= _SWISH:
            return NodeTemplate("Swish", inputs, outputs, attributes)
        return NodeTemplate("QuickGelu", inputs, outputs, attributes, domain=CONTRIB)


class FuseBiasGelu(Fusion):
    """Gelu of ``x + bias``, the bias a constant of one entry per column: BiasGelu, for tanh FastGelu with a bias."""

    name = "BiasGeluFusion"
    patterns = tuple(
        Op(op_type, Op("Add", X, Const("bias")), domain=domain)
        for op_type, domain in (("Gelu", CONTRIB), ("FastGelu", CONTRIB), ("Gelu", ""))
    )

    def check(self, match: Match) -> str:
        if not trailing_vector(match["bias"], match["x"]):
            return f"'{match.name('bias')}' does not have one entry for each column of '{match.name('x')}'"
        return dtype_refusal(match["x"], _FLOATS)

    def replacement(self, match: Match, context: TransformContext) -> NodeTemplate:
        gelu = match.anchor
        by_tanh = gelu.op_type == "FastGelu" or gelu.attributes.get("approximate", "none") == "tanh"
        return NodeTemplate(
            "FastGelu" if by_tanh else "BiasGelu",
            (match.name("x"), match.name("bias")),
            (match.result,),
            domain=CONTRIB,
        )
