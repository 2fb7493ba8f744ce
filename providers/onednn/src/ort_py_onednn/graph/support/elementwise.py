"""Functions of one argument and of two that broadcast."""

from __future__ import annotations

import math

import numpy as np

from ort_py.contracts import GraphView, NodeSpec
from ort_py_onednn.binding.constants import Eltwise
from ort_py_onednn.binding.library import open_library
from ort_py_onednn.binding.vector_functions import has_code
from ort_py_onednn.graph.functions import UNARY
from ort_py_onednn.graph.fusion import BINARY
from ort_py_onednn.graph.support.rule import Rule, Rules, shape_of, value_name

__all__ = ["RULES"]


_NO_BOUND = "a bound is NaN, which oneDNN refuses"


def _function(node: NodeSpec, graph: GraphView) -> str | None:
    if any(not math.isfinite(value) for value in node.attributes.values() if isinstance(value, float)):
        return "an attribute is not a finite number"
    return None


def _pow(node: NodeSpec, graph: GraphView) -> str | None:
    exponent = graph.constant(value_name(node, 1))
    if exponent is None or exponent.size != 1 or exponent.ndim > 1:
        return "the exponent is not a single constant"
    return None if float(exponent.reshape(())) in {0.5, 2.0, 3.0, -1.0, -0.5, 1.0} else "an unusual exponent"


def _leaky(node: NodeSpec, graph: GraphView) -> str | None:
    if node.attributes.get("alpha") == 0:
        # oneDNN takes the maximum then, without a multiplication that would raise the Invalid flag.
        return "0 · -infinity is not a number, and oneDNN gives 0"
    return _function(node, graph)


def _clip(node: NodeSpec, graph: GraphView) -> str | None:
    if any(math.isnan(node.attributes.get(name, 0.0)) for name in ("min", "max")):
        return _NO_BOUND
    for place in (1, 2):
        name = value_name(node, place)
        bound = graph.constant(name) if name else None
        if bound is not None and bound.size != 1:
            return "a bound is not a single number"
        if bound is not None and np.isnan(bound.astype(np.float32)).any():
            return _NO_BOUND
    return None


def _prelu(node: NodeSpec, graph: GraphView) -> str | None:
    slopes = graph.constant(value_name(node, 1))
    if slopes is None or not np.isfinite(slopes.astype(np.float32)).all():
        # It adds the slope times what is negative, which is 0 elsewhere: NaN and infinities would spread.
        return "the slopes are not finite constants"
    return None if len(shape_of(node, 1)) <= len(shape_of(node, 0)) else "the slopes have a higher rank than the input"


def _error_function(node: NodeSpec, graph: GraphView) -> str | None:
    return None if has_code(open_library(), Eltwise.ERF) else "oneDNN has no Erf, and there is no code for it here"


def _logarithm(node: NodeSpec, graph: GraphView) -> str | None:
    return "oneDNN's logarithm is inaccurate near 1: log(1.00005) is wrong by 1 %"


def _celu(node: NodeSpec, graph: GraphView) -> str | None:
    if not 0 < node.attributes.get("alpha", 1.0) < math.inf:
        return "alpha is not a finite number above 0"
    return "x / alpha may overflow" if node.attributes.get("alpha", 1.0) < 1 else None


RULES: Rules = {
    **{("", name): Rule(_function) for name in UNARY},
    ("", "LeakyRelu"): Rule(_leaky),
    ("", "Erf"): Rule(_error_function),
    ("", "Log"): Rule(_logarithm),
    **{("", name): Rule() for name in BINARY},
    ("", "Celu"): Rule(_celu),
    ("", "Clip"): Rule(_clip, frozenset({1, 2})),
    ("", "PRelu"): Rule(_prelu),
    ("", "Pow"): Rule(_pow, frozenset({1})),
    ("", "Sum"): Rule(),
}
