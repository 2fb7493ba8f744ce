"""Softmax and its logarithm; before opset 13 over all axes from `axis` on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ort_py.transforms.gradient.registry import Call, Gradients, rule

if TYPE_CHECKING:
    from ort_py.transforms.gradient.builder import GradientBuilder


def _axes(call: Call) -> tuple[int, ...]:
    if call.since >= 13:
        return (int(call.attribute("axis", -1)),)
    return tuple(range(call.axis(1), call.rank()))


@rule("Softmax")
def softmax(b: GradientBuilder, call: Call) -> Gradients:
    """y (g - sum(g y))."""
    total = b.sum(b("Mul", call.grad, call.y), _axes(call), keepdims=True)
    return [b("Mul", call.y, b("Sub", call.grad, total))]


@rule("LogSoftmax")
def log_softmax(b: GradientBuilder, call: Call) -> Gradients:
    """g - exp(y) sum(g)."""
    total = b.sum(call.grad, _axes(call), keepdims=True)
    return [b("Sub", call.grad, b("Mul", b("Exp", call.y), total))]
