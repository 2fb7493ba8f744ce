"""Activations. Where a function has a corner, the derivative there is that of the side onnxruntime's training takes."""

from __future__ import annotations

from math import pi, sqrt
from typing import TYPE_CHECKING

from ort_py.transforms.gradient.registry import Call, Gradients, rule

if TYPE_CHECKING:
    from ort_py.transforms.gradient.builder import GradientBuilder

_SELU_ALPHA, _SELU_GAMMA = 1.67326319217681884765625, 1.05070102214813232421875
"""The schema's defaults, since opset 6."""


@rule("Relu")
def relu(b: GradientBuilder, call: Call) -> Gradients:
    return [b.pick(b("Less", 0.0, call.x()), call.grad, 0.0)]


@rule("LeakyRelu", since=6)
def leaky_relu(b: GradientBuilder, call: Call) -> Gradients:
    """x, or alpha x below 0."""
    below = b("Mul", call.attribute("alpha", 0.01), call.grad)
    return [b.pick(b("Less", call.x(), 0.0), below, call.grad)]


@rule("ThresholdedRelu", since=10)
def thresholded_relu(b: GradientBuilder, call: Call) -> Gradients:
    """x above alpha, else 0."""
    return [b.pick(b("Less", call.attribute("alpha", 1.0), call.x()), call.grad, 0.0)]


@rule("Sigmoid")
def sigmoid(b: GradientBuilder, call: Call) -> Gradients:
    """1 / (1 + exp(-x)): y (1 - y)."""
    return [b("Mul", call.grad, b("Mul", call.y, b("Sub", 1.0, call.y)))]


@rule("Elu", since=6)
def elu(b: GradientBuilder, call: Call) -> Gradients:
    """x, or alpha (exp(x) - 1) below 0."""
    return [_exponential(b, call, call.attribute("alpha", 1.0), 1.0)]


@rule("Celu", since=12)
def celu(b: GradientBuilder, call: Call) -> Gradients:
    """max(0, x) + min(0, alpha (exp(x / alpha) - 1))."""
    x = call.x()
    below = b("Mul", call.grad, b("Exp", b("Div", b("Min", x, 0.0), call.attribute("alpha", 1.0))))
    return [b.pick(b("Less", x, 0.0), below, call.grad)]


@rule("Selu", since=6)
def selu(b: GradientBuilder, call: Call) -> Gradients:
    """gamma x, or gamma alpha (exp(x) - 1) below 0."""
    return [_exponential(b, call, call.attribute("alpha", _SELU_ALPHA), call.attribute("gamma", _SELU_GAMMA))]


def _exponential(b: GradientBuilder, call: Call, alpha: float, gamma: float) -> str:
    x = call.x()
    # exp of what is above 0 could overflow, and is not used.
    below = b("Mul", b("Mul", gamma * alpha, call.grad), b("Exp", b("Min", x, 0.0)))
    above = call.grad if gamma == 1.0 else b("Mul", gamma, call.grad)
    return b.pick(b("Less", x, 0.0), below, above)


@rule("Softplus")
def softplus(b: GradientBuilder, call: Call) -> Gradients:
    """log(1 + exp(x))."""
    return [b("Mul", call.grad, b("Sigmoid", call.x()))]


@rule("Softsign")
def softsign(b: GradientBuilder, call: Call) -> Gradients:
    size = b("Add", 1.0, b("Abs", call.x()))
    return [b("Div", call.grad, b("Mul", size, size))]


@rule("HardSigmoid", since=6)
def hard_sigmoid(b: GradientBuilder, call: Call) -> Gradients:
    """max(0, min(1, alpha x + beta))."""
    inside = b("And", b("Less", 0.0, call.y), b("Less", call.y, 1.0))
    return [b.pick(inside, b("Mul", call.attribute("alpha", 0.2), call.grad), 0.0)]


@rule("HardSwish", since=14)
def hard_swish(b: GradientBuilder, call: Call) -> Gradients:
    """x max(0, min(1, x / 6 + 1 / 2))."""
    x = call.x()
    middle = b("Mul", call.grad, b("Add", b("Div", x, 3.0), 0.5))
    return [b.pick(b("Less", x, -3.0), 0.0, b.pick(b("Less", x, 3.0), middle, call.grad))]


@rule("Swish", since=24)
def swish(b: GradientBuilder, call: Call) -> Gradients:
    """x sigmoid(alpha x)."""
    alpha = call.attribute("alpha", 1.0)
    gate = b("Sigmoid", b("Mul", alpha, call.x()))
    slope = b("Add", gate, b("Mul", b("Mul", alpha, call.y), b("Sub", 1.0, gate)))
    return [b("Mul", call.grad, slope)]


@rule("Mish", since=18)
def mish(b: GradientBuilder, call: Call) -> Gradients:
    """x tanh(softplus(x))."""
    x = call.x()
    gate = b("Tanh", b("Softplus", x))
    bend = b("Mul", b("Mul", x, b("Sigmoid", x)), b("Sub", 1.0, b("Mul", gate, gate)))
    return [b("Mul", call.grad, b("Add", gate, bend))]


@rule("Gelu", since=20)
def gelu(b: GradientBuilder, call: Call) -> Gradients:
    """x times the normal distribution, exactly or by its approximation with tanh."""
    x = call.x()
    if call.attribute("approximate", "none") == "tanh":
        square = b("Mul", x, x)
        inner = b("Mul", sqrt(2.0 / pi), b("Mul", x, b("Add", 1.0, b("Mul", 0.044715, square))))
        bend = b("Mul", sqrt(2.0 / pi), b("Add", 1.0, b("Mul", 3.0 * 0.044715, square)))
        tanh = b("Tanh", inner)
        share = b("Mul", 0.5, b("Add", 1.0, tanh))
        slope = b("Mul", b("Mul", 0.5, x), b("Mul", b("Sub", 1.0, b("Mul", tanh, tanh)), bend))
    else:
        share = b("Mul", 0.5, b("Add", 1.0, b("Erf", b("Mul", 1.0 / sqrt(2.0), x))))
        slope = b("Mul", x, b("Mul", 1.0 / sqrt(2.0 * pi), b("Exp", b("Mul", -0.5, b("Mul", x, x)))))
    return [b("Mul", call.grad, b("Add", share, slope))]


@rule("Shrink", since=9)
def shrink(b: GradientBuilder, call: Call) -> Gradients:
    """x moved by `bias` outside [-lambd, lambd], else 0."""
    return [b.pick(b("Less", call.attribute("lambd", 0.5), b("Abs", call.x())), call.grad, 0.0)]


@rule("Clip", since=6)
def clip(b: GradientBuilder, call: Call) -> Gradients:
    """x where it is between the bounds; a bound that x has passed gets the gradient."""
    x, g = call.x(), call.grad
    if call.since < 11:
        low, high = (call.attribute(name) for name in ("min", "max"))
        for bound, order in ((low, 1), (high, -1)):
            if bound is not None:
                g = b.pick(b("Less", *(x, bound)[::order]), 0.0, g)
        return [g]
    low_name, high_name = (call.x(position) if call.has(position) else None for position in (1, 2))
    grads: list[str | None] = [None, None, None]
    # The upper bound is applied last, so what it cuts belongs to it alone.
    if high_name is not None:
        above = b("Less", high_name, b("Max", x, low_name) if low_name is not None else x)
        grads[2] = b.sum(b.pick(above, g, 0.0), None) if call.wants(2) else None
        g = b.pick(above, 0.0, g)
    if low_name is not None:
        below = b("Less", x, low_name)
        grads[1] = b.sum(b.pick(below, g, 0.0), None) if call.wants(1) else None
        g = b.pick(below, 0.0, g)
    grads[0] = g
    return grads
