"""Functions of one argument: ONNX operators as chains of oneDNN's functions, and simpler chains for the same.

oneDNN's functions have two parameters, alpha and beta; see `Eltwise`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ort_py_onednn.binding.constants import Binary, Eltwise
from ort_py_onednn.binding.primitive import Function
from ort_py_onednn.graph.operation import Chain, Post

__all__ = ["UNARY", "before_bytes", "constant_operand", "is_moderate", "linear", "merged", "rounded"]

_LEAST, _MOST = 2.0**-126, (2 - 2.0**-23) * 2.0**127
"""The smallest normal number of float32, and the largest."""

_MODERATE = 2.0**64
"""A factor below this makes no byte of a number too large for float32, and above its reciprocal of one too small."""

_MOST_STEPS = 4096.0
"""Rounding a summand of so many steps of a byte costs thousandths of one."""

Attributes = Mapping[str, Any]


def linear(scale: float, offset: float = -0.0) -> Function:
    """scale · x + offset. Adding the negative zero changes nothing; adding the other one would make it of both."""
    return Function(Eltwise.LINEAR, scale, offset)


def _one(algorithm: int, alpha: float = 0.0, beta: float = 0.0) -> Callable[[Attributes], list[Function]]:
    return lambda _: [Function(algorithm, alpha, beta)]


def _gelu(attributes: Attributes) -> list[Function]:
    tanh = attributes.get("approximate", "none") == "tanh"
    return [Function(Eltwise.GELU_TANH if tanh else Eltwise.GELU_ERF)]


def _selu(attributes: Attributes) -> list[Function]:
    alpha = attributes.get("alpha", 1.6732632423543772)
    return [Function(Eltwise.ELU, alpha), linear(attributes.get("gamma", 1.0507009873554805))]


def _celu(attributes: Attributes) -> list[Function]:
    # max(0, x) + min(0, α (exp(x / α) - 1)): an elu of x / α, times α.
    alpha = attributes.get("alpha", 1.0)
    return [linear(1 / alpha), Function(Eltwise.ELU, 1.0), linear(alpha)]


UNARY: Mapping[str, Callable[[Attributes], list[Function]]] = {
    "Relu": _one(Eltwise.RELU),
    "LeakyRelu": lambda a: [Function(Eltwise.RELU, a.get("alpha", 0.01))],
    "Elu": lambda a: [Function(Eltwise.ELU, a.get("alpha", 1.0))],
    "Selu": _selu,
    "Celu": _celu,
    "Tanh": _one(Eltwise.TANH),
    "Erf": _one(Eltwise.ERF),
    "Sigmoid": _one(Eltwise.LOGISTIC),
    "HardSigmoid": lambda a: [Function(Eltwise.HARDSIGMOID, a.get("alpha", 0.2), a.get("beta", 0.5))],
    "HardSwish": _one(Eltwise.HARDSWISH, 1 / 6, 0.5),
    "Swish": lambda a: [Function(Eltwise.SWISH, a.get("alpha", 1.0))],
    "Mish": _one(Eltwise.MISH),
    "Gelu": _gelu,
    "Exp": _one(Eltwise.EXP),
    "Log": _one(Eltwise.LOG),
    "Sqrt": _one(Eltwise.SQRT),
    "Abs": _one(Eltwise.ABS),
    "Neg": lambda _: [linear(-1.0)],
    "Reciprocal": _one(Eltwise.POW, 1.0, -1.0),
    "Round": _one(Eltwise.ROUND),
    "Identity": lambda _: [],
    "@Linear": lambda a: [linear(a.get("alpha", 1.0), a.get("beta", 0.0))],
}
"""Operators whose result follows from their one input and their attributes; with an @, what fused operators contain.

Softplus is missing because the error of oneDNN's is as large as the rounding of its input: it gives 7.6e-6 for -64.
"""


def constant_operand(algorithm: int, constant: float, *, first: bool) -> Function | None:
    """A function of two arguments of which one is a number; None where oneDNN has none.

    Args:
        algorithm: One of `Binary`.
        constant: The number.
        first: Whether it is the first argument.
    """
    if not math.isfinite(constant):
        return None
    match algorithm:
        case Binary.ADD:
            return linear(1.0, constant)
        case Binary.MUL:
            return linear(constant)
        case Binary.SUB:
            return linear(-1.0, constant) if first else linear(1.0, -constant)
        case Binary.DIV:
            if first:
                return Function(Eltwise.POW, constant, -1.0)
            # Otherwise the product may differ from the quotient: 21 / 7 would be a little less than 3.
            return linear(1 / constant) if _is_power_of_two(constant) else None
        case Binary.MAX:
            return Function(Eltwise.CLIP_V2, constant, math.inf)
        case Binary.MIN:
            return Function(Eltwise.CLIP_V2, -math.inf, constant)
    return None


def merged(functions: Sequence[Function], *, freely: bool = False) -> list[Function]:
    """The same chain with neighbouring linear functions made one, and none that does nothing.

    Only factors are put together, and only where nothing can overflow or underflow in between that would not do so
    together: all of them make numbers larger, or all smaller. A product and a sum stay two, because one instruction
    for both rounds once: ``x * 100 + 12582912 - 12582912`` is how some models round.

    Args:
        functions: The chain.
        freely: Merge all linear functions: those that a lowering made itself, or of a session with `fast_math`.
    """
    found: list[Function] = []
    for function in functions:
        last = found[-1] if found else None
        both = None
        if function.algorithm == Eltwise.LINEAR and last is not None and last.algorithm == Eltwise.LINEAR:
            both = _both(last, function, freely=freely)
        if both is not None:
            found.pop()
            function = both  # noqa: PLW2901 - the two become the one that is looked at
        if function.algorithm == Eltwise.LINEAR and function.beta == 0.0 and _is_one(function.alpha, freely=freely):
            continue
        found.append(function)
    return found


def _both(first: Function, second: Function, *, freely: bool) -> Function | None:
    """Two linear functions as one; None where that might give other numbers."""
    alpha = second.alpha * first.alpha
    summed = bool(first.beta or second.beta)
    whole = linear(alpha, second.alpha * first.beta + second.beta) if summed else linear(alpha)
    if freely:
        return whole
    if (abs(first.alpha) == 1 and first.beta == 0) or (abs(second.alpha) == 1 and second.beta == 0):
        return whole  # a change of sign is exact
    factors = abs(first.alpha), abs(second.alpha)
    if first.beta or second.beta or not (min(factors) >= 1 or max(factors) <= 1):
        return None
    return whole if _LEAST <= abs(alpha) <= _MOST else None


def is_moderate(factor: float) -> bool:
    """Return whether numbers that are multiplied by a factor and become bytes had room in float32 before."""
    return 1 / _MODERATE <= abs(factor) <= _MODERATE


def before_bytes(first: Function, second: Function) -> Function | None:
    """Two linear functions as one, where the result of the second becomes a byte; None where that may be another byte.

    Args:
        first: The first.
        second: The other. Its results are steps of a byte.
    """
    summands = abs(second.alpha * first.beta), abs(second.beta)
    if max(summands) > _MOST_STEPS or not is_moderate(second.alpha):
        return None
    whole = linear(second.alpha * first.alpha, second.alpha * first.beta + second.beta)
    return whole if _LEAST <= abs(whole.alpha) <= _MOST else None


def _is_one(alpha: float, *, freely: bool) -> bool:
    return math.isclose(alpha, 1.0, rel_tol=1e-6) if freely else alpha == 1.0


def _is_power_of_two(number: float) -> bool:
    """Return whether a number has a reciprocal in float32 that is exact."""
    return abs(math.frexp(number)[0]) == 0.5 and _LEAST <= abs(number) <= 1 / _LEAST


def rounded(chain: Chain, low: float, high: float) -> Chain:
    """The same chain for a result that is rounded and then saturated: a rounding at its end comes to nothing, and of
    clips to whole numbers there what lies within the limits is left, as one."""
    found = list(chain)
    least, most = -math.inf, math.inf
    while found and (bounds := _whole_bounds(found[-1])) is not None:
        least, most = (min(max(bound, least), most) for bound in bounds)
        found.pop()
    if found and found[-1] == Function(Eltwise.ROUND):
        found.pop()
    if least > low or most < high:
        found.append(Function(Eltwise.CLIP_V2, least, most))
    return found


def _whole_bounds(post: Post) -> tuple[float, float] | None:
    """Whole numbers that a function clips to; None for another function."""
    if not isinstance(post, Function) or post.algorithm != Eltwise.CLIP_V2:
        return None
    bounds = post.alpha, post.beta
    return bounds if all(math.isinf(bound) or bound == int(bound) for bound in bounds) else None
