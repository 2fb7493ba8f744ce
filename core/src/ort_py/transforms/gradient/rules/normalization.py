"""Normalisation by mean and variance: of the batch, of each instance, of each layer, or by given statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ort_py.transforms.gradient.registry import Call, Gradients, rule

if TYPE_CHECKING:
    from ort_py.transforms.gradient.builder import GradientBuilder

_EPSILON = 1e-5


def _channels(b: GradientBuilder, value: str, rank: int) -> str:
    """A vector over channels, made to broadcast with (batch, channels, ...)."""
    return b.unsqueeze(value, *range(1, rank - 1)) if rank > 2 else value


def _standardised(b: GradientBuilder, x: str, axes: Sequence[int], epsilon: float) -> tuple[str, str]:
    """(x - mean) / deviation over axes, and one over the deviation."""
    centred = b("Sub", x, b.reduce("ReduceMean", x, axes, keepdims=True))
    variance = b.reduce("ReduceMean", b("Mul", centred, centred), axes, keepdims=True)
    inverse = b("Reciprocal", b("Sqrt", b("Add", variance, epsilon)))
    return b("Mul", centred, inverse), inverse


def _through(b: GradientBuilder, grad: str, normal: str, inverse: str, axes: Sequence[int]) -> str:
    """Gradient of x from that of (x - mean) / deviation: both statistics depend on x."""
    mean = b.reduce("ReduceMean", grad, axes, keepdims=True)
    along = b.reduce("ReduceMean", b("Mul", grad, normal), axes, keepdims=True)
    return b("Mul", inverse, b("Sub", b("Sub", grad, mean), b("Mul", normal, along)))


@rule("BatchNormalization", since=7)
def batch_normalization(b: GradientBuilder, call: Call) -> Gradients:
    """Given statistics; those of the batch in training, where the running ones take no gradient."""
    rank, g = call.rank(), call.grad
    epsilon = call.attribute("epsilon", _EPSILON)
    training = call.attribute("training_mode", 0) if call.since >= 14 else len(call.node.outputs) > 1
    rest = (0, *range(2, rank))
    scale = _channels(b, call.x(1), rank)
    if training:
        normal, inverse = _standardised(b, call.x(), rest, epsilon)
        data = _through(b, b("Mul", g, scale), normal, inverse, rest)
        return [data, b.sum(b("Mul", g, normal), rest), b.sum(g, rest)]
    centred = b("Sub", call.x(), _channels(b, call.x(3), rank))
    inverse = b("Reciprocal", b("Sqrt", b("Add", call.x(4), epsilon)))
    spread = _channels(b, inverse, rank)
    total, along = b.sum(g, rest), b.sum(b("Mul", g, centred), rest)
    cubed = b("Mul", b("Mul", inverse, inverse), inverse)
    return [
        b("Mul", g, b("Mul", scale, spread)),
        b("Mul", along, inverse),
        total,
        b("Neg", b("Mul", total, b("Mul", call.x(1), inverse))),
        b("Mul", -0.5, b("Mul", along, b("Mul", call.x(1), cubed))),
    ]


@rule("InstanceNormalization", since=6)
def instance_normalization(b: GradientBuilder, call: Call) -> Gradients:
    """Statistics of each channel of each example."""
    rank, g = call.rank(), call.grad
    axes = tuple(range(2, rank))
    normal, inverse = _standardised(b, call.x(), axes, call.attribute("epsilon", _EPSILON))
    data = _through(b, b("Mul", g, _channels(b, call.x(1), rank)), normal, inverse, axes)
    rest = (0, *axes)
    return [data, b.sum(b("Mul", g, normal), rest), b.sum(g, rest)]


@rule("LayerNormalization", since=17)
def layer_normalization(b: GradientBuilder, call: Call) -> Gradients:
    """Statistics over the last axes; scale and bias broadcast to the input."""
    shape, g = call.shape(), call.grad
    axes = tuple(range(call.axis(-1), len(shape)))
    normal, inverse = _standardised(b, call.x(), axes, call.attribute("epsilon", _EPSILON))
    data = _through(b, b("Mul", g, call.x(1)), normal, inverse, axes) if call.wants(0) else None
    scale = b.sum_to(b("Mul", g, normal), shape, call.input(1)) if call.wants(1) else None
    bias = b.sum_to(g, shape, call.input(2)) if call.wants(2) else None
    return [data, scale, bias]


@rule("LpNormalization")
def lp_normalization(b: GradientBuilder, call: Call) -> Gradients:
    """x divided by its norm along an axis."""
    axis, x, g = int(call.attribute("axis", -1)), call.x(), call.grad
    along = b.sum(b("Mul", g, call.y), (axis,), keepdims=True)
    if call.attribute("p", 2) == 1:
        norm = b.reduce("ReduceL1", x, (axis,), keepdims=True)
        direction = b("Sign", x)
    else:
        norm = b.reduce("ReduceL2", x, (axis,), keepdims=True)
        direction = call.y
    return [b("Div", b("Sub", g, b("Mul", direction, along)), b.pick(b("Equal", norm, 0.0), 1.0, norm))]


@rule("MeanVarianceNormalization", since=9)
def mean_variance_normalization(b: GradientBuilder, call: Call) -> Gradients:
    """(x - mean) / (deviation + 1e-9)."""
    axes, g = tuple(call.attribute("axes", (0, 2, 3))), call.grad
    centred = b("Sub", call.x(), b.reduce("ReduceMean", call.x(), axes, keepdims=True))
    deviation = b("Sqrt", b.reduce("ReduceMean", b("Mul", centred, centred), axes, keepdims=True))
    inverse = b("Reciprocal", b("Add", deviation, 1e-9))
    along = b.reduce("ReduceMean", b("Mul", g, centred), axes, keepdims=True)
    turned = b("Mul", b("Mul", centred, inverse), b("Div", along, deviation))
    return [b("Mul", inverse, b("Sub", b("Sub", g, b.reduce("ReduceMean", g, axes, keepdims=True)), turned))]
