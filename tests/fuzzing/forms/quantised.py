"""Quantised forms: pairs of QuantizeLinear and DequantizeLinear, the QLinear operators, and dequantised residuals."""

from __future__ import annotations

import numpy as np

from tests.fuzzing.builder import Builder
from tests.fuzzing.forms.elementwise import unary_node
from tests.fuzzing.forms.registry import form
from tests.fuzzing.forms.windows import picture, window
from tests.fuzzing.schemas import Rejected, Value

__all__ = ["dequantised", "quantised"]


def _scale(g: Builder, shape: tuple[int, ...] = ()) -> Value:
    # Powers of two keep quotients exact, so that no runtime rounds a tie to another side.
    exact = g.chance(0.5)
    drawn = 2.0 ** g.numbers.integers(-6, -2, shape) if exact else g.numbers.uniform(0.01, 0.1, shape)
    return g.const(np.asarray(drawn, np.float32))


def _zero(g: Builder, kind: str, shape: tuple[int, ...] = (), *, none: bool = False) -> Value:
    low, high = (0, 255) if kind == "uint8" else (-20, 20)
    drawn = np.zeros(shape, np.int64) if none else g.numbers.integers(low, high + 1, shape)
    return g.const(drawn, kind)


def quantised(g: Builder, source: Value, kind: str = "") -> tuple[Value, Value, Value]:
    """A float value quantised: the integers, the scale and the zero point."""
    kind = kind or g.one("uint8", "int8")
    scale, zero = _scale(g), _zero(g, kind)
    return g.emit("QuantizeLinear", [source, scale, zero])[0], scale, zero


def dequantised(g: Builder, rank: int | None = None) -> Value:
    """A value that comes from DequantizeLinear, of integers that are fed or were quantised before."""
    if g.chance(0.4):
        source = g.data(rank, dtypes=(g.one("uint8", "int8"),))
        scale, zero = _scale(g), _zero(g, source.dtype)
        operands: list[Value | None] = [source, scale, zero if g.chance(0.8) else None]
        if g.opset >= 13 and source.rank and g.chance(0.25):
            axis = g.axis(source.rank)
            shape = (source.shape[axis],)
            return g.emit("DequantizeLinear", [source, _scale(g, shape), _zero(g, source.dtype, shape)], axis=axis)[0]
        return g.emit("DequantizeLinear", operands)[0]
    numbers, scale, zero = quantised(g, g.data(rank, dtypes=("float32",)))
    return g.emit("DequantizeLinear", [numbers, scale, zero])[0]


def _weights(g: Builder, shape: list[int], axis: int) -> Value:
    """Weights that are dequantised, as a whole or by channel."""
    kind = g.one("int8", "int8", "uint8")
    numbers = g.weights(shape, kind)
    if g.opset >= 13 and g.chance(0.5):
        count = (shape[axis],)
        return g.emit(
            "DequantizeLinear",
            [numbers, _scale(g, count), _zero(g, kind, count, none=g.chance(0.7))],
            axis=axis,
            keep=0,
        )[0]
    return g.emit("DequantizeLinear", [numbers, _scale(g), _zero(g, kind, none=g.chance(0.7))], keep=0)[0]


@form(2)
def quantise_and_back(g: Builder) -> None:
    """A pair, and one of them alone."""
    if g.chance(0.3):
        quantised(g, g.data(dtypes=("float32",)))
    else:
        dequantised(g)


@form(3)
def quantised_residual(g: Builder) -> None:
    """A dequantised value beside functions of itself and beside others, quantised again sometimes."""
    base = dequantised(g)
    inner = base
    for _ in range(g.integer(0, 2)):
        inner = unary_node(g, inner)
    other = dequantised(g, base.rank) if g.chance(0.3) else inner
    if other.shape != base.shape:
        other = inner
    made = g.emit(g.one("Add", "Add", "Mul", "Sub", "Max"), [base, other] if g.chance(0.5) else [other, base])[0]
    if g.chance(0.4):
        numbers, scale, zero = quantised(g, made)
        g.emit("DequantizeLinear", [numbers, scale, zero])


@form(3)
def quantised_conv(g: Builder) -> None:
    """DequantizeLinear, Conv, activation, residual, QuantizeLinear."""
    source = dequantised(g, g.one(3, 4, 4))
    channels = source.shape[1]
    if not channels or 0 in source.shape:
        raise Rejected("nothing to convolve")
    groups = channels if g.chance(0.2) else 1
    filters = groups * g.one(1, 2, 4, 8)
    attributes = window(g, source.shape[2:])
    weights = _weights(g, [filters, channels // groups, *attributes["kernel_shape"]], 0)
    operands: list[Value | None] = [source, weights]
    if g.chance(0.5):
        operands.append(g.weights([filters], "float32"))
    made = g.emit("Conv", operands, group=groups if groups > 1 else None, **attributes)[0]
    if g.chance(0.3):
        made = g.emit(g.one("Relu", "Clip", "HardSwish", "Sigmoid"), [made])[0]
    if g.chance(0.4):
        other = dequantised(g, made.rank)
        made = g.emit("Add", [made, other if other.shape == made.shape else g.broadcast(made)])[0]
    if g.chance(0.6):
        numbers, scale, zero = quantised(g, made)
        if g.chance(0.7):
            g.emit("DequantizeLinear", [numbers, scale, zero])


@form(2)
def quantised_product(g: Builder) -> None:
    """DequantizeLinear, MatMul or Gemm, bias, QuantizeLinear."""
    source = dequantised(g, g.one(2, 2, 3))
    inner, width = source.shape[-1], g.one(1, 2, 8, 16)
    if not inner:
        raise Rejected("nothing to multiply")
    made = g.emit("MatMul", [source, _weights(g, [inner, width], 1)])[0]
    if g.chance(0.5):
        made = g.emit("Add", [made, g.weights([width], "float32")])[0]
    if g.chance(0.3):
        made = unary_node(g, made, g.one("Relu", "Gelu", "Sigmoid"))
    if g.chance(0.6):
        numbers, scale, zero = quantised(g, made)
        g.emit("DequantizeLinear", [numbers, scale, zero])


@form(1.5)
def qlinear(g: Builder) -> None:
    """QLinearMatMul, QLinearConv, MatMulInteger and ConvInteger."""
    kind, other = g.one(("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8"))
    roll = g.rng.random()
    if roll < 0.35:
        source = g.data(g.one(2, 3), dtypes=(kind,))
        inner, width = source.shape[-1], g.one(1, 3, 8)
        weights = g.weights([inner, width], other)
        if g.chance(0.5):
            operands: list[Value | None] = [source, weights]
            if g.chance(0.7):
                operands += [_zero(g, kind), _zero(g, other, (width,) if g.chance(0.3) else ())]
            g.emit("MatMulInteger", operands)
        else:
            count = (width,) if g.chance(0.3) else ()
            operands = [
                source,
                _scale(g),
                _zero(g, kind),
                weights,
                _scale(g, count),
                _zero(g, other, count),
                _scale(g),
                _zero(g, kind),
            ]
            g.emit("QLinearMatMul", operands)
        return
    source = picture(g, g.one(1, 2, 2), (kind,))
    channels, filters = source.shape[1], g.one(1, 2, 4)
    attributes = window(g, source.shape[2:])
    weights = g.weights([filters, channels, *attributes["kernel_shape"]], other)
    if roll < 0.6:
        operands = [source, weights]
        if g.chance(0.6):
            operands += [_zero(g, kind), _zero(g, other)] if g.chance(0.6) else [_zero(g, kind)]
        g.emit("ConvInteger", operands, **attributes)
        return
    count = (filters,) if g.chance(0.5) else ()
    operands = [
        source,
        _scale(g),
        _zero(g, kind),
        weights,
        _scale(g, count),
        _zero(g, other, count, none=True),
        _scale(g),
        _zero(g, kind),
    ]
    if g.chance(0.4):
        operands.append(g.const(g.numbers.integers(-100, 100, filters).astype(np.int32)))
    g.emit("QLinearConv", operands, **attributes)


@form(1.5)
def dynamically_quantised(g: Builder) -> None:
    """DynamicQuantizeLinear, MatMulInteger, Cast and the scales, as dynamic quantisation writes it."""
    source = g.data(g.one(2, 3), dtypes=("float32",))
    if not all(source.shape):
        raise Rejected("nothing to quantise")
    numbers, scale, zero = g.emit("DynamicQuantizeLinear", [source], 3, keep=1)
    if g.chance(0.2):
        g.emit("DequantizeLinear", [numbers, scale, zero])
        return
    width = g.one(1, 2, 8)
    kind = g.one("int8", "uint8")
    operands: list[Value | None] = [numbers, g.weights([source.shape[-1], width], kind), zero]
    if g.chance(0.5):
        operands.append(_zero(g, kind))
    total = g.emit("MatMulInteger", operands)[0]
    real = g.emit("Cast", [total], to=1)[0]
    product = g.emit("Mul", [scale, _scale(g)], keep=0)[0]
    made = g.emit("Mul", [real, product])[0]
    if g.chance(0.5):
        g.emit("Add", [made, g.weights([width], "float32")])
