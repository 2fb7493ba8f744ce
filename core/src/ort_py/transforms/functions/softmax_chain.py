"""Softmax out of the exponentials it is made of, the largest entry subtracted, which keeps them finite.

What scales or masks the scores in front belongs to attention. It is independent of kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ort_py.contracts import Const, Level, Match, NodeSpec, NodeTemplate, Op, PatternRule, TransformContext, Var
from ort_py.dtypes import DataType
from ort_py.transforms.fusion import dtype_refusal

_FLOATS = (DataType.FLOAT, DataType.DOUBLE)
_ONE_AXIS = 13
"""Opset from which on Softmax looks along one axis instead of the flattened rest of the shape."""


def _reduction(op_type: str, what: Any) -> Op:
    axes = Const(f"{op_type}_axes", optional=True)
    return Op(op_type, what, axes, name=op_type, where=_keeps_axes)


def _keeps_axes(node: NodeSpec) -> bool | str:
    return True if node.attributes.get("keepdims", 1) == 1 else "it does not keep its axes"


def _pattern() -> Op:
    shifted = Op("Sub", Var("x"), _reduction("ReduceMax", Var("x")))
    powers = Op("Exp", shifted, name="powers")
    return Op("Div", powers, _reduction("ReduceSum", powers))


class FuseSoftmax(PatternRule):
    """``exp(x - max) / Σ exp(x - max)`` along one axis: Softmax."""

    name = "SoftmaxFusion"
    level = Level.BASIC
    patterns = (_pattern(),)

    def check(self, match: Match) -> str:
        x = match["x"]
        if x.shape is None:
            return f"the rank of '{x.name}' is not known"
        axes = {_axis(match, name, len(x.shape)) for name in ("ReduceMax", "ReduceSum")}
        if len(axes) != 1 or None in axes:
            return "maximum and sum are not along one and the same axis"
        if match.anchor.opset_version < _ONE_AXIS and axes != {len(x.shape) - 1}:
            return f"before opset {_ONE_AXIS} Softmax takes all axes from one on"
        return dtype_refusal(x, _FLOATS)

    def replacement(self, match: Match, context: TransformContext) -> NodeTemplate:
        shape = match["x"].shape
        axis = _axis(match, "ReduceSum", len(shape or ()))
        return NodeTemplate("Softmax", (match.name("x"),), (match.result,), {"axis": axis})


def _axis(match: Match, name: str, rank: int) -> int | None:
    """The only axis of a reduction. None if it has more, or if its axes are unknown."""
    node = match.node(name)
    if node is None:
        return None
    axes: Any = node.attributes.get("axes") if len(node.inputs) < 2 else match.graph.constant(node.inputs[1])
    if axes is None or len(np.asarray(axes).reshape(-1)) != 1:
        return None
    return int(np.asarray(axes).reshape(-1)[0]) % rank
