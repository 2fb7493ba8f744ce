"""Reductions over axes, by attribute or by input, kept or not, and running sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ort_py.transforms.gradient.registry import Call, Gradients, rule

if TYPE_CHECKING:
    from ort_py.transforms.gradient.builder import GradientBuilder


def _axes(call: Call) -> Sequence[int] | str | None:
    """Axes of a reduction: known ones, the name of a value that holds them, or None for all. An empty list: none."""
    if call.since >= (13 if call.node.op_type == "ReduceSum" else 18):
        known = call.constant(1)
        if call.has(1) and known is None:
            return call.x(1)
        axes = [] if known is None else np.asarray(known).reshape(-1).tolist()
        return axes if axes or call.attribute("noop_with_empty_axes", 0) else None
    axes = list(call.attribute("axes") or ())
    return axes or None


def _kept(b: GradientBuilder, call: Call, value: str) -> str:
    """A value of the result's shape, made to broadcast with the input."""
    axes = _axes(call)
    if call.attribute("keepdims", 1) == 1 or axes is None:
        return value
    return b("Unsqueeze", value, axes) if isinstance(axes, str) else b.unsqueeze(value, *axes)


def _repeated(b: GradientBuilder, call: Call, value: str) -> list[str | None]:
    return [b.expand_like(value, call.input(0))]


@rule("ReduceSum")
def reduce_sum(b: GradientBuilder, call: Call) -> Gradients:
    return _repeated(b, call, _kept(b, call, call.grad))


@rule("ReduceMean")
def reduce_mean(b: GradientBuilder, call: Call) -> Gradients:
    # Where nothing is left there is nothing to divide by; int64 has no other way to say so.
    results = b("Max", b.size(call.output(0)), b.ints(1)) if b.opset >= 12 else b.size(call.output(0))
    count = b.squeeze(b.cast(b("Div", b.size(call.input(0)), results)), 0)
    return _repeated(b, call, _kept(b, call, b("Div", call.grad, count)))


@rule("ReduceMax", "ReduceMin")
def reduce_extreme(b: GradientBuilder, call: Call) -> Gradients:
    """The extreme element gets the gradient; elements that are equal share it."""
    chosen = b.cast(b("Equal", call.x(), _kept(b, call, call.y)))
    count = b.sum(chosen, _axes(call), keepdims=True)
    return [b("Mul", chosen, b("Div", _kept(b, call, call.grad), count))]


@rule("ReduceProd")
def reduce_prod(b: GradientBuilder, call: Call) -> Gradients:
    """Product: each element's derivative is the product of the others, where there are zeros too.

    Second derivatives at two or more zeros are not found: there the first one is written as the constant 0.
    """
    x, axes = call.x(), _axes(call)
    zero = b("Equal", x, 0.0)
    others = b.pick(zero, 1.0, x)
    zeros = b.sum(b.cast(zero), axes, keepdims=True)
    product = b.reduce("ReduceProd", others, axes, keepdims=True)
    at_zero = b.pick(b("Equal", zeros, 1.0), product, 0.0)
    elsewhere = b("Div", b.pick(b("Equal", zeros, 0.0), product, 0.0), others)
    return [b("Mul", b.pick(zero, at_zero, elsewhere), _kept(b, call, call.grad))]


@rule("ReduceL1")
def reduce_l1(b: GradientBuilder, call: Call) -> Gradients:
    """Sum of absolute values."""
    return [b("Mul", b("Sign", call.x()), _kept(b, call, call.grad))]


@rule("ReduceL2")
def reduce_l2(b: GradientBuilder, call: Call) -> Gradients:
    """Root of the sum of squares; 0 at the origin."""
    norm = _kept(b, call, call.y)
    safe = b.pick(b("Equal", norm, 0.0), 1.0, norm)
    return [b("Mul", call.x(), b("Div", _kept(b, call, call.grad), safe))]


@rule("ReduceLogSum")
def reduce_log_sum(b: GradientBuilder, call: Call) -> Gradients:
    return _repeated(b, call, _kept(b, call, b("Div", call.grad, b("Exp", call.y))))


@rule("ReduceLogSumExp")
def reduce_log_sum_exp(b: GradientBuilder, call: Call) -> Gradients:
    shares = b("Exp", b("Sub", call.x(), _kept(b, call, call.y)))
    return [b("Mul", shares, _kept(b, call, call.grad))]


@rule("ReduceSumSquare")
def reduce_sum_square(b: GradientBuilder, call: Call) -> Gradients:
    return [b("Mul", b("Mul", 2.0, call.x()), _kept(b, call, call.grad))]


@rule("CumSum", since=11)
def cumulative_sum(b: GradientBuilder, call: Call) -> Gradients:
    """Running sum: the running sum of the gradient from the other end."""
    reverse, exclusive = 1 - call.attribute("reverse", 0), call.attribute("exclusive", 0)
    return [b("CumSum", call.grad, call.x(1), reverse=reverse, exclusive=exclusive)]
