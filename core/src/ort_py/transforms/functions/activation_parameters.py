"""Activations that fused products take by name, with their parameters as a list: FusedConv's and FusedGemm's notation.

Used by `fused_products`. It is independent of products.
"""

from __future__ import annotations

import math

from ort_py.contracts import Match
from ort_py.dtypes import float_attribute
from ort_py.transforms.fusion import scalar

ACTIVATIONS: dict[str, tuple[tuple[str, float], ...]] = {
    "Clip": (),
    "HardSigmoid": (("alpha", float_attribute(0.2)), ("beta", 0.5)),
    "HardSwish": (),
    "LeakyRelu": (("alpha", float_attribute(0.01)),),
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
}
"""Operators, and the attributes that become parameters, in order, with their defaults."""

_LARGEST = 3.4028234663852886e38


def activation_parameters(match: Match) -> tuple[float, ...] | str:
    """Parameters of the activation that is a match's anchor; a reason where they cannot be given.

    Clip's bounds are the match's constants ``low`` and ``high``, or attributes in opsets before 11.
    """
    node = match.anchor
    if node.op_type != "Clip":
        return tuple([float(node.attributes.get(name, default)) for name, default in ACTIVATIONS[node.op_type]])
    bounds: list[float] = []
    # From version 11 on a bound that is not given is none: infinities pass.
    most = _LARGEST if 6 <= node.since_version < 11 else math.inf
    for name, attribute, default in (("low", "min", -most), ("high", "max", most)):
        value = match.get(name)
        if value is None:
            bounds.append(float(node.attributes.get(attribute, default)))
            continue
        number = scalar(match.graph.constant(value))
        if number is None:
            return f"the bound '{value.name}' of Clip is not a number"
        bounds.append(number)
    return tuple(bounds)
