"""Functions of single elements, comparisons and logic.

Core AI simplifies chains of operators as if they computed real numbers: a conversion to int32 and back disappears, for
instance. Conversions therefore cut the fraction off first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import coreai.authoring as ai
import numpy as np

from ort_py_coreml.core_ai.values import Var, apart_from_nan, filled, is_bool, is_float, numbers, shape_of

__all__ = ["FUNCTIONS", "floor"]

_NAMES = "acos asin atan atanh cos cosh erf exp relu sigmoid sin sinh sqrt tan tanh"
_ZERO, _ONE = np.float32(0), np.float32(1)


def _of_one(function: Callable[[Any], Any]) -> Callable[..., Var]:
    """Return a function whose operand has the name that MIL gives it."""

    def apply(x: Var) -> Var:
        return function(x)

    return apply


def _of_two(function: Callable[[Any, Any], Any]) -> Callable[..., Var]:
    """Return a function whose operands have the names that MIL gives them."""

    def apply(x: Var, y: Var) -> Var:
        return function(*_of_one_rank(x, y))

    return apply


def _of_one_rank(*operands: Var) -> list[Var]:
    """Return operands with the same number of axes.

    Core AI moves a change of shape from an operand to the result, which is wrong if another operand has fewer axes and
    an unknown size.
    """
    rank = max(len(shape_of(x)) for x in operands)
    missing = [rank - len(shape_of(x)) if isinstance(x, ai.Value) and shape_of(x) else 0 for x in operands]
    return [ai.expand_dims(x, numbers(*range(more))) if more else x for x, more in zip(operands, missing, strict=True)]


def floor(x: Var) -> Var:
    """Round down; the remainder of what is infinite is NaN."""
    endless = ai.broadcasting_equal(ai.abs_(x), np.float32(np.inf))
    return ai.broadcasting_where(endless, x, ai.broadcasting_floor_divide(x, _ONE))


def ceil(x: Var) -> Var:
    """Round up."""
    return ai.broadcasting_mul(floor(ai.broadcasting_mul(x, np.float32(-1))), np.float32(-1))


def _truncated(x: Var) -> Var:
    """Round towards zero, which has no sign then."""
    whole = ai.broadcasting_where(ai.broadcasting_greater(_ZERO, x), ceil(x), floor(x))
    return ai.broadcasting_where(ai.broadcasting_equal(whole, _ZERO), _ZERO, whole)


def cast(x: Var, dtype: str, name: str | None = None) -> Var:
    """Convert to `fp32`, `int32` or `bool`."""
    if dtype == "bool" and is_bool(x):
        return x
    if dtype == "bool":
        return ai.broadcasting_not_equal(x, _ZERO if is_float(x) else np.int32(0))
    if dtype == "int32":
        return ai.cast(_truncated(x) if is_float(x) else x, np.int32)
    return x if is_float(x) else ai.cast(x, np.float32)


def maximum(x: Var, y: Var) -> Var:
    """Return the larger of two numbers, or NaN."""
    x, y = _of_one_rank(x, y)
    return apart_from_nan(ai.broadcasting_maximum(x, y), x, y)


def minimum(x: Var, y: Var) -> Var:
    """Return the smaller of two numbers, or NaN."""
    x, y = _of_one_rank(x, y)
    return apart_from_nan(ai.broadcasting_minimum(x, y), x, y)


def _sign(x: Var) -> Var:
    above, below = ai.broadcasting_greater(x, _ZERO), ai.broadcasting_greater(_ZERO, x)
    return apart_from_nan(ai.broadcasting_sub(ai.cast(above, np.float32), ai.cast(below, np.float32)), x)


def _greater_equal(x: Var, y: Var) -> Var:
    """Compare; not the opposite of `less`, which is no for NaN, too."""
    x, y = _of_one_rank(x, y)
    return ai.broadcasting_or(ai.broadcasting_greater(x, y), ai.broadcasting_equal(x, y))


def _softplus(x: Var) -> Var:
    """Add what is left of the function to the larger of x and 0, so that nothing overflows."""
    rest = ai.exp(ai.broadcasting_mul(ai.abs_(x), np.float32(-1)))
    return ai.broadcasting_add(ai.relu(x), ai.log(ai.broadcasting_add(rest, _ONE)))


def _softsign(x: Var) -> Var:
    return ai.broadcasting_divide(x, ai.broadcasting_add(ai.abs_(x), _ONE))


def _elu(x: Var, alpha: Any) -> Var:
    below = ai.broadcasting_mul(ai.broadcasting_sub(ai.exp(x), _ONE), alpha)
    return ai.broadcasting_where(ai.broadcasting_greater(_ZERO, x), below, x)


def _leaky_relu(x: Var, alpha: Any) -> Var:
    return ai.broadcasting_where(ai.broadcasting_greater(_ZERO, x), ai.broadcasting_mul(x, alpha), x)


def _sigmoid_hard(x: Var, alpha: Any, beta: Any) -> Var:
    line = ai.broadcasting_add(ai.broadcasting_mul(x, alpha), beta)
    return minimum(maximum(line, _ZERO), _ONE)


def _gelu(x: Var, mode: str) -> Var:
    return ai.gelu(x, approximate="tanh" if mode == "TANH_APPROXIMATION" else "none")


def _log(x: Var, epsilon: Any) -> Var:
    return ai.log(ai.broadcasting_add(x, epsilon) if epsilon else x)


def _rsqrt(x: Var, epsilon: Any) -> Var:
    return ai.broadcasting_divide(_ONE, ai.sqrt(ai.broadcasting_add(x, epsilon)))


def _select(cond: Var, a: Var, b: Var) -> Var:
    return ai.broadcasting_where(*_of_one_rank(cond, a, b))


def _fill_like(ref_tensor: Var, value: Any) -> Var:
    return filled(ref_tensor, value)


FUNCTIONS: dict[str, Callable[..., Var]] = {
    **{name: _of_one(getattr(ai, name)) for name in _NAMES.split()},
    "abs": _of_one(ai.abs_),
    "add": _of_two(ai.broadcasting_add),
    "cast": cast,
    "ceil": ceil,
    "elu": _elu,
    "equal": _of_two(ai.broadcasting_equal),
    "fill_like": _fill_like,
    "floor": floor,
    "floor_div": _of_two(ai.broadcasting_floor_divide),
    "gelu": _gelu,
    "greater": _of_two(ai.broadcasting_greater),
    "greater_equal": _greater_equal,
    "leaky_relu": _leaky_relu,
    "less": lambda x, y: _of_two(ai.broadcasting_greater)(y, x),
    "less_equal": lambda x, y: _greater_equal(y, x),
    "log": _log,
    "logical_and": _of_two(ai.broadcasting_and),
    "logical_not": _of_one(ai.not_),
    "logical_or": _of_two(ai.broadcasting_or),
    "logical_xor": _of_two(ai.broadcasting_xor),
    "maximum": maximum,
    "minimum": minimum,
    "mul": _of_two(ai.broadcasting_mul),
    "not_equal": _of_two(ai.broadcasting_not_equal),
    "pow": _of_two(ai.broadcasting_pow),
    "real_div": _of_two(ai.broadcasting_divide),
    "round": _of_one(ai.round_),
    "rsqrt": _rsqrt,
    "select": _select,
    "sigmoid_hard": _sigmoid_hard,
    "sign": _sign,
    "softplus": _softplus,
    "softsign": _softsign,
    "sub": _of_two(ai.broadcasting_sub),
}
"""Functions of MIL by name."""
