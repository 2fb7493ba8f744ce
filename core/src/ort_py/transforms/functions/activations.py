"""Activations as exporters spell them out: HardSigmoid and HardSwish by Clip, Mish by Softplus and Tanh.

Only operators that the model's opset has; operators that it lacks stay as they are, since other runtimes may read the
result. Gelu and its relatives, Swish among them, are in `gelu`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ort_py.contracts import GraphEditor, Match, NodeSpec, NodeTemplate, OneOf, Op, Pattern, TransformContext, Var
from ort_py.dtypes import DataType
from ort_py.transforms.fusion import Fusion, adds_axes, dtype_refusal

_FLOATS = (DataType.FLOAT, DataType.FLOAT16)
_HARD_SWISH = 14
_MISH = 18
"""Opsets that brought these operators."""

X = Var("x")


def _relu6() -> Pattern:
    """``clip(x + 3, 0, 6)``, the bounds being inputs or, before opset 11, attributes."""
    shifted = Op("Add", X, 3.0)
    return OneOf(
        Op("Clip", shifted, 0.0, 6.0),
        Op("Clip", shifted, attributes={"min": 0.0, "max": 6.0}),
        Op("Min", Op("Max", shifted, 0.0), 6.0),
        Op("Min", Op("Relu", shifted), 6.0),
    )


def _sixth(make: Callable[[], Pattern]) -> tuple[Op, Op]:
    return Op("Div", make(), 6.0), Op("Mul", make(), 1 / 6)


def _hard_sigmoid() -> Op:
    return Op("HardSigmoid", X, where=_is_gate)


def _is_gate(node: object) -> bool | str:
    attributes = getattr(node, "attributes", {})
    alpha, beta = attributes.get("alpha", 0.2), attributes.get("beta", 0.5)
    return True if abs(alpha - 1 / 6) < 1e-6 and beta == 0.5 else f"alpha is {alpha} and beta {beta}, not 1/6 and 1/2"


class FuseActivation(Fusion):
    """Nodes that compute one activation function of a tensor.

    In a model whose opset lacks the operator, the first such node is named as an example, and no others are looked for.

    Args:
        patterns: Its spellings, of the value ``x``.
        opset: The first opset that has the operator.
    """

    name = ""
    patterns: Sequence[Op] = ()

    def __init__(
        self,
        name: str,
        op_type: str,
        patterns: Sequence[Op],
        opset: int = 1,
        attributes: dict[str, float] | None = None,
    ) -> None:
        self.name = name
        self.patterns = patterns
        self._op_type = op_type
        self._opset = opset
        self._attributes = attributes
        self._example = ""

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        if self._example not in ("", node.name) and node.opset_version < self._opset:
            return False
        return super().rewrite(node, graph, context)

    def check(self, match: Match) -> str:
        if match.anchor.opset_version < self._opset:
            self._example = match.anchor.name
            return f"{self._op_type} came with opset {self._opset}, the model has {match.anchor.opset_version}"
        return dtype_refusal(match["x"], _FLOATS) or adds_axes(match, match["x"])

    def replacement(self, match: Match, context: TransformContext) -> NodeTemplate:
        return NodeTemplate(self._op_type, (match.name("x"),), (match.result,), self._attributes)


def activation_fusions() -> list[FuseActivation]:
    """One rule an operator. The piecewise linear ones gain nothing by themselves: a Conv in front takes them in."""
    gates = (*_sixth(_relu6), _hard_sigmoid())
    hard_swish = [
        *(Op("Mul", X, gate) for gate in gates),
        *_sixth(lambda: Op("Mul", X, _relu6())),
        *(Op("Mul", part, _relu6()) for part in _sixth(lambda: X)),
    ]
    return [
        FuseActivation("MishFusion", "Mish", [Op("Mul", X, Op("Tanh", Op("Softplus", X)))], _MISH),
        FuseActivation("HardSwishFusion", "HardSwish", hard_swish, _HARD_SWISH),
        FuseActivation("HardSigmoidFusion", "HardSigmoid", _sixth(_relu6), 1, {"alpha": 1 / 6, "beta": 0.5}),
    ]
