"""Operators that choose between elements by a condition or by their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ort_py.transforms.gradient.registry import Call, Gradients, rule

if TYPE_CHECKING:
    from ort_py.transforms.gradient.builder import GradientBuilder


@rule("Where", since=9)
def where(b: GradientBuilder, call: Call) -> Gradients:
    """One of two, element by element."""
    condition, g, shape = call.x(0), call.grad, call.output(0).shape
    first = b.sum_to(b.pick(condition, g, 0.0), shape, call.input(1)) if call.wants(1) else None
    second = b.sum_to(b.pick(condition, 0.0, g), shape, call.input(2)) if call.wants(2) else None
    return [None, first, second]


@rule("Trilu", since=14)
def trilu(b: GradientBuilder, call: Call) -> Gradients:
    offset = call.x(1) if call.has(1) else None
    return [b("Trilu", call.grad, offset, upper=call.attribute("upper", 1))]
