"""Functions of single elements, with operands that are repeated along axes.

MIL adds a small number to the argument of some functions (`log`, `inverse`, `rsqrt`) unless it is asked not to, and
compares with `>=` where ONNX has `>`. Such functions are written with others here.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ort_py.contracts import NodeSpec
from ort_py.dtypes import DataType
from ort_py_coreml.operators.operator import (
    ALL,
    NUMBERS,
    Check,
    Constants,
    Lower,
    Operator,
    Var,
    attribute,
    both,
    constant,
    kind_of,
)

if TYPE_CHECKING:
    from ort_py_coreml.lowering import Lowering

__all__ = ["OPERATORS"]

_SELU = 1.67326319217681884765625, 1.05070102214813232421875


def _function(name: str) -> Lower:
    """A function of MIL that has the same meaning as the operator."""

    def lower(lowering: Lowering, node: NodeSpec) -> Var:
        return getattr(lowering.mb, name)(x=lowering.read(node.inputs[0]))

    return lower


def _with_alpha(name: str, default: float) -> Lower:
    """A function of MIL that takes the attribute alpha."""

    def lower(lowering: Lowering, node: NodeSpec) -> Var:
        alpha = np.float32(attribute(node, "alpha", default))
        return getattr(lowering.mb, name)(x=lowering.read(node.inputs[0]), alpha=alpha)

    return lower


def _finite(*names: str) -> Check:
    """Check that attributes are finite, if they are set."""

    def check(node: NodeSpec, graph: Constants) -> str | None:
        for name in names:
            if not math.isfinite(attribute(node, name, 0.0)):
                return f"its {name} is {attribute(node, name, 0.0)}"
        return None

    return check


def _log(lowering: Lowering, node: NodeSpec) -> Var:
    return lowering.mb.log(x=lowering.read(node.inputs[0]), epsilon=np.float32(0))


def _neg(lowering: Lowering, node: NodeSpec) -> Var:
    return lowering.mb.mul(x=lowering.read(node.inputs[0]), y=np.float32(-1))


def _reciprocal(lowering: Lowering, node: NodeSpec) -> Var:
    return lowering.mb.real_div(x=np.float32(1), y=lowering.read(node.inputs[0]))


def _hard_sigmoid(lowering: Lowering, node: NodeSpec) -> Var:
    slope, start = np.float32(attribute(node, "alpha", 0.2)), np.float32(attribute(node, "beta", 0.5))
    return lowering.mb.sigmoid_hard(x=lowering.read(node.inputs[0]), alpha=slope, beta=start)


def _hard_swish(lowering: Lowering, node: NodeSpec) -> Var:
    x = lowering.read(node.inputs[0])
    return lowering.mb.mul(x=x, y=lowering.mb.sigmoid_hard(x=x, alpha=np.float32(1 / 6), beta=np.float32(0.5)))


def _swish(lowering: Lowering, node: NodeSpec) -> Var:
    mb, x = lowering.mb, lowering.read(node.inputs[0])
    alpha = np.float32(attribute(node, "alpha", 1.0))
    return mb.mul(x=x, y=mb.sigmoid(x=x if alpha == 1 else mb.mul(x=x, y=alpha)))


def _mish(lowering: Lowering, node: NodeSpec) -> Var:
    x = lowering.read(node.inputs[0])
    return lowering.mb.mul(x=x, y=lowering.mb.tanh(x=lowering.mb.softplus(x=x)))


def _gelu(lowering: Lowering, node: NodeSpec) -> Var:
    near = attribute(node, "approximate", "none") == "tanh"
    return lowering.mb.gelu(x=lowering.read(node.inputs[0]), mode="TANH_APPROXIMATION" if near else "EXACT")


def _selu(lowering: Lowering, node: NodeSpec) -> Var:
    mb, x = lowering.mb, lowering.read(node.inputs[0])
    alpha, gamma = np.float32(attribute(node, "alpha", _SELU[0])), np.float32(attribute(node, "gamma", _SELU[1]))
    return mb.mul(x=mb.elu(x=x, alpha=alpha), y=gamma)


def _thresholded_relu(lowering: Lowering, node: NodeSpec) -> Var:
    mb, x = lowering.mb, lowering.read(node.inputs[0])
    above = mb.greater(x=x, y=np.float32(attribute(node, "alpha", 1.0)))
    return mb.select(cond=above, a=x, b=np.float32(0))


def _clip(lowering: Lowering, node: NodeSpec) -> Var:
    """The smaller of the upper bound and the larger of the lower bound and the element, in this order, as in ONNX.

    Before version 11, the bounds that a node does not give are the largest numbers, which infinity is not.
    """
    result = lowering.read(node.inputs[0])
    most = float(np.finfo(np.float32).max) if node.since_version < 11 else None
    for place, name, function in ((1, "min", lowering.mb.maximum), (2, "max", lowering.mb.minimum)):
        given = constant(node, lowering.graph, place)
        default = -most if most is not None and name == "min" else most
        bound = attribute(node, name, default) if given is None else np.asarray(given).reshape(-1)[0]
        if bound is not None:
            result = function(x=result, y=np.float32(bound))
    return result


def _prelu(lowering: Lowering, node: NodeSpec) -> Var:
    mb, x, slope = lowering.mb, lowering.read(node.inputs[0]), lowering.read(node.inputs[1])
    return mb.select(cond=mb.less(x=x, y=np.float32(0)), a=mb.mul(x=x, y=slope), b=x)


def _check_prelu(node: NodeSpec, graph: Constants) -> str | None:
    """MIL's `select` repeats no operand along axes, so that the slope must not have more axes than the data."""
    x, slope = node.inputs[0], node.inputs[1]
    if x is None or slope is None or x.shape is None or slope.shape is None or len(slope.shape) > len(x.shape):
        return "its slope has more axes than its data"
    return None


def _check_sum(node: NodeSpec, graph: Constants) -> str | None:
    """Results of int64 may be too large for the int32 of MIL."""
    return "it computes int64, and Core ML's integers are int32" if kind_of(node) is DataType.INT64 else None


def _check_div(node: NodeSpec, graph: Constants) -> str | None:
    """Quotients of integers have no value for the divisor 0, and too large ones for 1 and -1."""
    if kind_of(node) is DataType.FLOAT:
        return None
    divisor = constant(node, graph, 1)
    if divisor is None or np.any(np.abs(divisor) < 2):
        return "it divides integers by others than constants from 2 or -2 on"
    return None


def _div(lowering: Lowering, node: NodeSpec) -> Var:
    """Divide integers as ONNX does, towards zero: numbers below zero, whose quotient rounds down as it rounds so."""
    if kind_of(node) is DataType.FLOAT:
        return both("real_div")(lowering, node)
    mb, x, divisor = lowering.mb, lowering.read(node.inputs[0]), constant(node, lowering.graph, 1)
    assert divisor is not None, "others are refused"
    zero, turned = np.int32(0), np.int32(-1)
    below = mb.minimum(x=x, y=mb.mul(x=mb.maximum(x=x, y=zero), y=turned))  # the negative of the smallest is too large
    size = mb.floor_div(x=below, y=-np.abs(divisor.astype(np.int32)))
    signs = mb.cast(x=mb.less(x=x, y=zero), dtype="int32")
    opposite = mb.not_equal(x=signs, y=(divisor < 0).astype(np.int32))
    return mb.mul(x=size, y=mb.sub(x=np.int32(1), y=mb.mul(x=mb.cast(x=opposite, dtype="int32"), y=np.int32(2))))


def _mean(lowering: Lowering, node: NodeSpec) -> Var:
    total = both("add")(lowering, node)
    return lowering.mb.real_div(x=total, y=np.float32(len(node.inputs)))


def _identity(lowering: Lowering, node: NodeSpec) -> Var:
    return lowering.mb.identity(x=lowering.read(node.inputs[0]))


_SAME = (
    "abs acos asin atan atanh ceil cos cosh erf exp floor relu round sigmoid sign sin sinh softplus softsign sqrt tan "
    "tanh"
)
"""Functions of MIL that have the name and the meaning of the operator."""

OPERATORS = {
    **{name.title(): Operator(_function(name)) for name in _SAME.split()},
    "Add": Operator(both("add"), _check_sum, since=7, kinds=NUMBERS),
    "Clip": Operator(_clip, constants=frozenset({1, 2})),
    "Div": Operator(_div, _check_div, since=7, kinds=NUMBERS),
    "Elu": Operator(_with_alpha("elu", 1.0), _finite("alpha")),
    "Gelu": Operator(_gelu),
    "HardSigmoid": Operator(_hard_sigmoid, _finite("alpha", "beta")),
    "HardSwish": Operator(_hard_swish),
    "Identity": Operator(_identity, kinds=ALL),
    "LeakyRelu": Operator(_with_alpha("leaky_relu", 0.01), _finite("alpha")),
    "Log": Operator(_log),
    "Max": Operator(both("maximum"), since=8, kinds=NUMBERS),
    "Mean": Operator(_mean, since=8),
    "Min": Operator(both("minimum"), since=8, kinds=NUMBERS),
    "Mish": Operator(_mish),
    "Mul": Operator(both("mul"), _check_sum, since=7, kinds=NUMBERS),
    "Neg": Operator(_neg),
    "PRelu": Operator(_prelu, _check_prelu, since=7),
    "Pow": Operator(both("pow"), since=7),
    "Reciprocal": Operator(_reciprocal),
    "Selu": Operator(_selu, _finite("alpha", "gamma")),
    "Sub": Operator(both("sub"), _check_sum, since=7, kinds=NUMBERS),
    "Sum": Operator(both("add"), since=8),
    "Swish": Operator(_swish, _finite("alpha")),
    "ThresholdedRelu": Operator(_thresholded_relu, _finite("alpha")),
}
