"""Activation functions: Relu and its family, sigmoids, the exponential linear units, Gelu, Mish, Swish, Clip, PRelu.

Formulas for `pointwise` (blocked, narrow floats in float32), written so that no term overflows into NaN and a NaN input
stays NaN. Softmax, which looks along an axis, is in `softmax`.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.devices import HOST
from ort_py.dtypes import DataType, numpy_dtype
from ort_py.errors import InvalidArgument
from ort_py_array.blending import blended
from ort_py_array.broadcasting import broadcast_shape
from ort_py_array.error_function import erf_into, normal_exponent
from ort_py_array.pointwise import blocked, pointwise
from ort_py_array.precision import rounded, widened

_SHARED: dict[str, Any] = {"out": True, "inplace": ((0, 0),), "strided": True}

_LARGE = 2048
"""Elements from which on one `clip` is faster than `maximum` and `minimum` of an array and a number: of the three, only
NumPy's `clip` uses vector instructions there; but it starts later."""


def relu(ctx: KernelContext) -> KernelCallable:
    """Relu-1..14: max(x, 0); NaN stays NaN."""
    maximum = ctx.xp.maximum
    first = ctx.node.inputs[0]
    known = first.data_type if first is not None else None
    # An array zero of the right type costs half of what converting a Python number does, each call.
    zero = 0 if known is None else ctx.xp.zeros((), numpy_dtype(known))

    def run(x: Array, out: Array | None = None) -> Array:
        return maximum(x, zero) if out is None else maximum(x, zero, out=out)

    if known not in (DataType.FLOAT, DataType.DOUBLE):
        return run
    clip, top = ctx.xp.clip, ctx.xp.full((), ctx.xp.inf, numpy_dtype(known))

    def run_float(x: Array, out: Array | None = None) -> Array:
        if x.size >= _LARGE:
            return clip(x, zero, top, out=out)
        return maximum(x, zero) if out is None else maximum(x, zero, out=out)

    return run_float


@pointwise("LeakyRelu", since=1, until=16)
def leaky_relu(xp: Any, x: Array, out: Array, *, alpha: float = 0.01) -> None:
    """LeakyRelu-1..16: x where x >= 0, else alpha * x."""
    if 0.0 < alpha <= 1.0:
        xp.maximum(x, xp.multiply(x, alpha), out=out)
    else:
        out[...] = xp.where(xp.less(x, 0), xp.multiply(x, alpha), x)


@pointwise("ThresholdedRelu", since=10, until=22)
def thresholded_relu(xp: Any, x: Array, out: Array, *, alpha: float = 1.0) -> None:
    """ThresholdedRelu-10..22: x where x > alpha, else 0; so 0 for NaN, which is not greater than anything."""
    out[...] = xp.where(xp.greater(x, alpha), x, 0).astype(x.dtype)


def sigmoid_into(xp: Any, x: Array, out: Array, one: Any = 1) -> None:
    """1 / (1 + exp(-x)); `one` is 1, as an array of their type where it is prepared."""
    # exp(-x) overflows to infinity for very negative x, whose reciprocal is the right 0.
    if x.size == 1:  # one probability: for a single element NumPy works in place three times slower than into another
        xp.divide(one, xp.add(xp.exp(xp.negative(x)), one), out)
        return
    xp.negative(x, out)
    _logistic_into(xp, out, out, one)


def _logistic_into(xp: Any, exponent: Array, out: Array, one: Any = 1) -> None:
    """1 / (1 + exp(exponent)); `one` is 1, as an array of their type where it is prepared."""
    xp.exp(exponent, out)
    xp.add(out, one, out)
    xp.divide(one, out, out)  # which uses vectors where `reciprocal` does not


def sigmoid(ctx: KernelContext) -> KernelCallable:
    """Sigmoid-1..13: 1 / (1 + exp(-x))."""
    first = ctx.node.inputs[0]
    known = first.data_type if first is not None else None
    wide = numpy_dtype(known) if known in (DataType.FLOAT, DataType.DOUBLE) else None
    return blocked(ctx, partial(sigmoid_into, ctx.xp, one=1 if wide is None else ctx.xp.ones((), wide)))


@pointwise("Swish", since=24)
def swish(xp: Any, x: Array, out: Array, *, alpha: float = 1.0) -> None:
    """Swish-24: x * sigmoid(alpha * x)."""
    gate = xp.multiply(x, alpha)
    sigmoid_into(xp, gate, gate)
    xp.multiply(x, gate, out)


def _hard_gate(xp: Any, x: Array, alpha: float, beta: float) -> Array:
    gate = xp.multiply(x, alpha)
    _cut(xp, gate, beta)
    return gate


def _cut(xp: Any, scaled: Array, beta: float) -> None:
    """`scaled` + beta, cut to [0, 1], in place."""
    xp.add(scaled, beta, scaled)
    if scaled.size >= _LARGE:
        xp.clip(scaled, 0, 1, out=scaled)
        return
    xp.maximum(scaled, 0, out=scaled)
    xp.minimum(scaled, 1, out=scaled)


@pointwise("HardSigmoid", since=1, until=22)
def hard_sigmoid(xp: Any, x: Array, out: Array, *, alpha: float = 0.2, beta: float = 0.5) -> None:
    """HardSigmoid-1..22: alpha * x + beta, cut to [0, 1]."""
    xp.multiply(x, alpha, out)
    _cut(xp, out, beta)


_SIXTH = 0.1666666716337204
"""The float32 next to 1/6: attributes of a node are float32, whatever its inputs are."""


@pointwise("HardSwish", since=14, until=22)
def hard_swish(xp: Any, x: Array, out: Array) -> None:
    """HardSwish-14..22: x * HardSigmoid(x) with beta = 1/2 and alpha = 1/6, float32 as in its function."""
    xp.multiply(x, _hard_gate(xp, x, _SIXTH, 0.5), out)


def _negative_exponential(xp: Any, x: Array) -> Array:
    """exp(min(x, 0)) - 1, exact near 0."""
    part = xp.minimum(x, 0)
    return xp.expm1(part, part)


@pointwise("Elu", since=1, until=22)
def elu(xp: Any, x: Array, out: Array, *, alpha: float = 1.0) -> None:
    """Elu-1..22: x where x > 0, else alpha * (exp(x) - 1); a product that vanishes keeps its sign."""
    part = _negative_exponential(xp, x)
    xp.multiply(part, alpha, part)
    if 0.0 <= alpha <= 1.0:  # of negative x, exp(x) - 1 is never less than x
        xp.maximum(x, part, out=out)
        return
    xp.maximum(x, -0.0, out=out)
    xp.add(out, part, out)


@pointwise("Selu", since=6, until=22)
def selu(
    xp: Any, x: Array, out: Array, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875
) -> None:
    """Selu-6..22: gamma * Elu(x, alpha)."""
    elu(xp, x, out, alpha=alpha)
    xp.multiply(out, gamma, out)


@pointwise("Selu", since=1)
def selu_1(xp: Any, x: Array, out: Array, *, alpha: float = 1.6732, gamma: float = 1.0507) -> None:
    """Selu-1, whose default constants had five digits."""
    selu(xp, x, out, alpha=alpha, gamma=gamma)


@pointwise("Celu", since=12, until=28)
def celu(xp: Any, x: Array, out: Array, *, alpha: float = 1.0) -> None:
    """Celu-12..28: max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""
    part = xp.divide(x, alpha)
    xp.expm1(part, part)
    xp.multiply(part, alpha, part)
    xp.minimum(part, 0, out=part)
    xp.maximum(x, 0, out=out)
    xp.add(out, part, out)


@pointwise("Softplus", since=1, until=22)
def softplus(xp: Any, x: Array, out: Array) -> None:
    """Softplus-1..22: log(1 + exp(x)), as max(x, 0) + log1p(exp(-|x|)), which cannot overflow."""
    part = xp.absolute(x)
    xp.negative(part, part)
    xp.exp(part, part)
    xp.log1p(part, part)
    xp.maximum(x, 0, out=out)
    xp.add(out, part, out)


@pointwise("Softsign", since=1, until=22)
def softsign(xp: Any, x: Array, out: Array) -> None:
    """Softsign-1..22: x / (1 + |x|)."""
    part = xp.absolute(x)
    xp.add(part, 1, part)
    xp.divide(x, part, out)


@pointwise("Mish", since=18, until=22)
def mish(xp: Any, x: Array, out: Array) -> None:
    """Mish-18..22: x * tanh(softplus(x)), as x * n / (n + 2) with n = e * (e + 2) and e = exp(x).

    From x = 20 on the factor is 1 in float32 and, to 1e-17, in float64; the exponent is cut there against overflow.
    """
    part = xp.minimum(x, 20)
    xp.exp(part, part)
    xp.multiply(part, xp.add(part, 2), part)
    xp.divide(part, xp.add(part, 2), part)
    xp.multiply(x, part, out)


@pointwise("Gelu", since=20)
def gelu(xp: Any, x: Array, out: Array, *, approximate: str = "none") -> None:
    """Gelu-20: x * (1 + erf(x / sqrt 2)) / 2, or with ``approximate="tanh"`` its older approximation.

    Both are ``x / (1 + exp(-2u))`` with tanh(u) in the place of erf; float64 takes erf itself for its digits.
    """
    if approximate == "tanh":
        part = xp.multiply(x, x)
        xp.multiply(part, -2 * 0.044715 * math.sqrt(2 / math.pi), part)
        xp.add(part, -2 * math.sqrt(2 / math.pi), part)
        xp.multiply(part, x, part)
    elif x.dtype.itemsize < 8:
        part = normal_exponent(xp, x)
    else:
        part = xp.multiply(x, math.sqrt(0.5))
        erf_into(xp, part, part)
        xp.add(part, 1, part)
        xp.multiply(part, 0.5, part)
        xp.multiply(x, part, out)
        return
    _logistic_into(xp, part, part)
    xp.multiply(x, part, out)


@pointwise("Shrink", since=9)
def shrink(xp: Any, x: Array, out: Array, *, bias: float = 0.0, lambd: float = 0.5) -> None:
    """Shrink-9: x + bias below -lambd, x - bias above lambd, else 0."""
    above = xp.where(xp.greater(x, lambd), xp.subtract(x, bias), 0)
    out[...] = xp.where(xp.less(x, -lambd), xp.add(x, bias), above).astype(x.dtype)


def prelu(ctx: KernelContext) -> KernelCallable:
    """PRelu-7..16: x where x >= 0, else slope * x; `slope` broadcasts to x's shape alone."""
    xp, where = ctx.xp, ctx.node.location

    def run(x: Array, slope: Array, out: Array | None = None) -> Array:
        if broadcast_shape(x, slope) != tuple(x.shape):
            raise InvalidArgument(
                f"The slope's shape {tuple(slope.shape)} does not broadcast to the input's {tuple(x.shape)}.",
                where=where,
                fix="PRelu broadcasts one-sidedly; add axes of size 1 to the slope.",
            )
        wide = widened(xp, x)
        negative, steep = xp.less(wide, 0), xp.multiply(wide, widened(xp, slope))
        if wide.size >= _LARGE and ctx.device == HOST:
            target = out if wide.dtype == x.dtype else None
            return rounded(blended(ctx, negative, steep, wide, target), x.dtype, out)
        return rounded(xp.where(negative, steep, wide), x.dtype, out)

    return run


def prelu_1(ctx: KernelContext) -> KernelCallable:
    """PRelu-1..6: `slope` is a scalar or holds one number per channel (axis 1)."""
    modern = prelu(ctx)

    def run(x: Array, slope: Array, out: Array | None = None) -> Array:
        per_channel = slope.ndim == 1 and slope.size != 1 and x.ndim > 1  # also where there are no channels
        return modern(x, slope.reshape((-1,) + (1,) * (x.ndim - 2)) if per_channel else slope, out)

    return run


KERNELS: list[KernelDef] = [
    KernelDef("Sigmoid", sigmoid, since=1, until=13, implementation=f"{__name__}:sigmoid", **_SHARED),
    KernelDef("Relu", relu, since=1, until=14, implementation=f"{__name__}:relu", **_SHARED),
    KernelDef("PRelu", prelu, since=7, until=16, implementation=f"{__name__}:prelu", **_SHARED),
    KernelDef("PRelu", prelu_1, since=1, until=6, implementation=f"{__name__}:prelu_1", **_SHARED),
]
