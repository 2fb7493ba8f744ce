"""Arithmetic of several broadcast operands. Versions before 7 broadcast by an attribute and are not covered."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ort_py.transforms.gradient.registry import Call, Gradients, rule

if TYPE_CHECKING:
    from ort_py.transforms.gradient.builder import GradientBuilder


def _both(b: GradientBuilder, call: Call, *grads: Callable[[], str]) -> list[str | None]:
    """Gradients of the operands, in the shape of the result each, summed to the operands' shapes; unwanted ones are
    not written."""
    return [
        b.sum_to(grad(), call.output(0).shape, call.input(position)) if call.wants(position) else None
        for position, grad in enumerate(grads)
    ]


@rule("Add", since=7)
def add(b: GradientBuilder, call: Call) -> Gradients:
    g = call.grad
    return _both(b, call, lambda: g, lambda: g)


@rule("Sub", since=7)
def sub(b: GradientBuilder, call: Call) -> Gradients:
    g = call.grad
    return _both(b, call, lambda: g, lambda: b("Neg", g))


@rule("Mul", since=7)
def mul(b: GradientBuilder, call: Call) -> Gradients:
    g = call.grad
    return _both(b, call, lambda: b("Mul", g, call.x(1)), lambda: b("Mul", g, call.x(0)))


@rule("Div", since=7)
def div(b: GradientBuilder, call: Call) -> Gradients:
    """a / b: the second derivative is -y / b."""
    quotient = b("Div", call.grad, call.x(1))
    return _both(b, call, lambda: quotient, lambda: b("Neg", b("Mul", quotient, call.y)))


@rule("Pow", since=7)
def power(b: GradientBuilder, call: Call) -> Gradients:
    """a ^ b. Where the formulas have no limit, at exponent 0 and at base 0, the derivative is 0."""
    g, base = call.grad, call.x(0)
    logarithm = b("Log", b.pick(b("Equal", base, 0.0), 1.0, base)) if call.wants(1) else ""
    grads = _both(b, call, lambda: b("Mul", g, _power_slope(b, call)), lambda: b("Mul", g, b("Mul", call.y, logarithm)))
    if grads[1] is not None and call.data_type(1) != b.data_type:
        grads[1] = b.cast(grads[1], call.data_type(1))
    return grads


def _power_slope(b: GradientBuilder, call: Call) -> str:
    base, exponent = call.x(0), call.x(1)
    known = call.constant(1)
    if known is not None and np.size(known) == 1:
        number = float(np.asarray(known).astype(np.float64).reshape(()))
        if number in (1.0, 2.0, 3.0):
            factor = {1.0: b.ones_like(call.input(0)), 2.0: base, 3.0: b("Mul", base, base)}[number]
            return b("Mul", number, factor)
        if number == 0.0:
            return b.zeros_like(call.input(0))
    if call.data_type(1) != b.data_type:
        exponent = b.cast(exponent)
    slope = b("Mul", exponent, b("Pow", base, b("Sub", exponent, 1.0)))
    return b.pick(b("Equal", exponent, 0.0), 0.0, slope)


@rule("Mod", since=10)
def mod(b: GradientBuilder, call: Call) -> Gradients:
    """a - n b with a whole number n: for floats, the remainder of a division that is rounded to zero."""
    g, x, divisor = call.grad, call.x(0), call.x(1)
    whole = b("Round", b("Div", b("Sub", x, call.y), divisor))
    return _both(b, call, lambda: g, lambda: b("Neg", b("Mul", g, whole)))


@rule("PRelu", since=7)
def prelu(b: GradientBuilder, call: Call) -> Gradients:
    """x where it is positive, else slope x. The slope broadcasts to x."""
    g, x, slope = call.grad, call.x(0), call.x(1)
    positive = b("Less", 0.0, x)
    return _both(
        b, call, lambda: b.pick(positive, g, b("Mul", g, slope)), lambda: b.pick(positive, 0.0, b("Mul", g, x))
    )


@rule("Sum", since=8)
def sum_of(b: GradientBuilder, call: Call) -> Gradients:
    g = call.grad
    return _both(b, call, *[lambda: g] * len(call.node.inputs))


@rule("Mean", since=8)
def mean_of(b: GradientBuilder, call: Call) -> Gradients:
    g = b("Div", call.grad, float(len(call.node.inputs)))
    return _both(b, call, *[lambda: g] * len(call.node.inputs))


@rule("Max", "Min", since=8)
def extremes(b: GradientBuilder, call: Call) -> Gradients:
    """The operand chosen gets the gradient; operands that are equal share it."""
    positions = range(len(call.node.inputs))
    if len(positions) == 1:
        return [call.grad]
    chosen = [b.cast(b("Equal", call.x(position), call.y)) for position in positions]
    share = b("Div", call.grad, b("Sum", *chosen))
    return _both(b, call, *[_product(b, share, one) for one in chosen])


def _product(b: GradientBuilder, left: str, right: str) -> Callable[[], str]:
    return lambda: b("Mul", left, right)
