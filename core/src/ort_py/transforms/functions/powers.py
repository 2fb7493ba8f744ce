"""Small whole powers as products: a cube by Pow costs hundreds of times what two multiplications do."""

from __future__ import annotations

from ort_py.contracts import Match, NodeTemplate, Op, PatternRule, TransformContext, Var
from ort_py.dtypes import DataType
from ort_py.transforms.fusion import adds_axes, dtype_refusal

_FLOATS = (DataType.FLOAT, DataType.DOUBLE)


class ExpandCube(PatternRule):
    """``x ** 3`` as ``x · (x · x)``, which is exact to two units in the last place. Squares have a kernel that fits."""

    name = "PowToMul"
    patterns = (Op("Pow", Var("x"), 3.0),)

    def check(self, match: Match) -> str:
        return dtype_refusal(match["x"], _FLOATS) or adds_axes(match, match["x"])

    def replacement(self, match: Match, context: TransformContext) -> list[NodeTemplate]:
        x, square = match.name("x"), f"{match.result}/square"
        return [NodeTemplate("Mul", (x, x), (square,)), NodeTemplate("Mul", (x, square), (match.result,))]
