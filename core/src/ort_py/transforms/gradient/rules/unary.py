"""Functions of one tensor, element by element."""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt
from typing import TYPE_CHECKING

from ort_py.transforms.gradient.registry import Call, Gradients, rule, unsupported

if TYPE_CHECKING:
    from ort_py.transforms.gradient.builder import GradientBuilder


def _one_plus_square(b: GradientBuilder, x: str) -> str:
    return b("Add", 1.0, b("Mul", x, x))


def _one_minus_square(b: GradientBuilder, x: str) -> str:
    return b("Sub", 1.0, b("Mul", x, x))


_TIMES: dict[str, Callable[[GradientBuilder, str, str], str]] = {
    "Abs": lambda b, x, y: b("Sign", x),
    "Cos": lambda b, x, y: b("Neg", b("Sin", x)),
    "Cosh": lambda b, x, y: b("Sinh", x),
    "Erf": lambda b, x, y: b("Mul", 2.0 / sqrt(pi), b("Exp", b("Neg", b("Mul", x, x)))),
    "Exp": lambda b, x, y: y,
    "Reciprocal": lambda b, x, y: b("Neg", b("Mul", y, y)),
    "Sin": lambda b, x, y: b("Cos", x),
    "Sinh": lambda b, x, y: b("Cosh", x),
    "Tan": lambda b, x, y: _one_plus_square(b, y),
    "Tanh": lambda b, x, y: _one_minus_square(b, y),
}
"""For each operator a function that computes the factor of the gradient from input and output."""

_DIVIDED_BY: dict[str, Callable[[GradientBuilder, str, str], str]] = {
    "Acos": lambda b, x, y: b("Neg", b("Sqrt", _one_minus_square(b, x))),
    "Acosh": lambda b, x, y: b("Mul", b("Sqrt", b("Sub", x, 1.0)), b("Sqrt", b("Add", x, 1.0))),
    "Asin": lambda b, x, y: b("Sqrt", _one_minus_square(b, x)),
    "Asinh": lambda b, x, y: b("Sqrt", _one_plus_square(b, x)),
    "Atan": lambda b, x, y: _one_plus_square(b, x),
    "Atanh": lambda b, x, y: _one_minus_square(b, x),
    "Log": lambda b, x, y: x,
    "Sqrt": lambda b, x, y: b("Mul", 2.0, y),
}
"""For each operator a function that computes the divisor of the gradient."""


@rule(*_TIMES)
def times(b: GradientBuilder, call: Call) -> Gradients:
    """Functions whose derivative is a product with something known."""
    return [b("Mul", call.grad, _TIMES[call.node.op_type](b, call.x(), call.y))]


@rule(*_DIVIDED_BY)
def divided(b: GradientBuilder, call: Call) -> Gradients:
    """Functions whose derivative is a quotient."""
    return [b("Div", call.grad, _DIVIDED_BY[call.node.op_type](b, call.x(), call.y))]


@rule("Neg")
def negate(b: GradientBuilder, call: Call) -> Gradients:
    return [b("Neg", call.grad)]


@rule("Identity")
def identity(b: GradientBuilder, call: Call) -> Gradients:
    return [call.grad]


@rule("Cast", since=6)
def cast(b: GradientBuilder, call: Call) -> Gradients:
    """Another float type; rounding counts as none."""
    return [b.cast(call.grad, call.data_type())]


@rule("CastLike", since=15)
def cast_like(b: GradientBuilder, call: Call) -> Gradients:
    """Like Cast; the second input gives its type only."""
    return [b.cast(call.grad, call.data_type())]


@rule("Dropout", since=7)
def dropout(b: GradientBuilder, call: Call) -> Gradients:
    """The gradient of Dropout: x in inference; in training, x / (1 - ratio) where the mask is set."""
    training = call.has(2) and call.since >= 12
    known = call.constant(2) if training else None
    if not training or (known is not None and not bool(known)):
        return [call.grad]
    if len(call.node.outputs) < 2 or call.node.outputs[1] is None:
        raise unsupported(call, "it trains, or may, and its mask output, which tells what it kept, is absent")
    ratio = b.cast(call.x(1)) if call.has(1) else 0.5
    scaled = b("Div", call.grad, b("Sub", 1.0, ratio))
    kept = b.pick(call.output(1).name, scaled, 0.0)
    return [b.pick(call.x(2), kept, call.grad)]
