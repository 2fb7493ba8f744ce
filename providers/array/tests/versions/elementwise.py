"""Rows of element-wise operators: one array, two, or many."""

from __future__ import annotations

from collections.abc import Callable
from math import erf
from typing import Any

import numpy as np

from .row import Draw, Given, Row, as_type, is_floating, wide

__all__ = ["ROWS"]


def _unary(function: Callable[[Any], Any], low: float = -4.0, high: float = 4.0) -> Callable[[Draw], Given]:
    """One array; the closed form in float64."""

    def draw(d: Draw) -> Given:
        x = d.array(d.shape(), low=low, high=high)
        with np.errstate(all="ignore"):
            return Given([x], expected=[as_type(function(wide(x)), x.dtype)])

    return draw


def _test(function: Callable[[Any], Any]) -> Callable[[Draw], Given]:
    """One array to bool."""

    def draw(d: Draw) -> Given:
        x = d.array(d.shape())
        return Given([x], expected=[np.asarray(function(wide(x)))])

    return draw


def _with(function: Callable[..., Any], **defaults: tuple[float, float]) -> Callable[[Draw], Given]:
    """One array and float attributes, each given or left at its default; a schema holds both numbers as float32."""

    def draw(d: Draw) -> Given:
        x = d.array(d.shape())
        attributes = {name: float(np.float32(other)) for name, (_, other) in defaults.items() if d.flag()}
        values = {name: attributes.get(name, float(np.float32(default))) for name, (default, _) in defaults.items()}
        with np.errstate(all="ignore"):
            return Given([x], attributes, [as_type(function(wide(x), **values), x.dtype)])

    return draw


def _binary(
    function: Callable[[Any, Any], Any], result: Any = None, low: float = -4.0, high: float = 4.0
) -> Callable[[Draw], Given]:
    """Two arrays; before opset 7 the second is a part of the first's shape, placed by `axis`."""

    def draw(d: Draw) -> Given:
        shape = d.shape()
        x = d.array(shape, low=low, high=high)
        attributes: dict[str, Any] = {}
        if d.version < 7:
            start = d.integer(0, len(shape))
            stop = d.integer(start, len(shape))
            y = d.array(shape[start:stop], low=low, high=high)
            other = y.reshape(y.shape + (1,) * (len(shape) - stop))
            if y.shape != x.shape:
                attributes = {"broadcast": 1, "axis": start}
                if start == len(shape):
                    attributes.pop("axis")
        else:
            other = y = d.array(d.broadcastable(shape), low=low, high=high)
            if d.flag():
                x, y = y, x
                with np.errstate(all="ignore"):
                    made = function(wide(x), wide(y))
                    return Given([x, y], {}, [as_type(made, result or x.dtype)])
        with np.errstate(all="ignore"):
            made = function(wide(x), wide(other))
        return Given([x, y], attributes, [as_type(made, result or x.dtype)])

    return draw


def _division(d: Draw) -> Given:
    """Integers are cut towards zero, as C does; no divisor of theirs is 0, which is an error."""
    shape = d.shape()
    x = d.array(shape, special=is_floating(d.dtype))
    y = d.array(shape, low=1, special=is_floating(d.dtype))
    with np.errstate(all="ignore"):
        if is_floating(d.dtype):
            return Given([x, y], {}, [as_type(wide(x) / wide(y), d.dtype)])
        return Given([x, y], {}, [as_type(np.trunc(x.astype(np.float64) / y.astype(np.float64)), d.dtype)])


def _variadic(function: Callable[[Any, Any], Any], mean: bool = False) -> Callable[[Draw], Given]:
    """One or more arrays, from opset 8 broadcast to each other."""

    def draw(d: Draw) -> Given:
        shape = d.shape()
        others = [shape if d.version < 8 else d.broadcastable(shape) for _ in range(d.integer(0, 3))]
        arrays = [d.array(one) for one in (shape, *others)]
        with np.errstate(all="ignore"):
            made = wide(arrays[0])
            for one in arrays[1:]:
                made = function(made, wide(one))
            if mean:
                made = made / len(arrays)
        return Given(arrays, {}, [as_type(made, arrays[0].dtype)])

    return draw


def _erf(x: Any) -> Any:
    made = np.vectorize(lambda v: v if np.isnan(v) else erf(v), otypes=[np.float64])(x)
    # Of integers the specification says nothing more; onnx.reference computes in float32, where erf of 4 is 1.
    return made.astype(np.float32) if x.dtype.kind in "iu" else made


def _softplus(x: Any) -> Any:
    return np.logaddexp(0, x)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _hard_sigmoid(x: Any, alpha: float, beta: float) -> Any:
    return np.clip(alpha * x + beta, 0, 1)


def _elu(x: Any, alpha: float) -> Any:
    return np.where(x < 0, alpha * np.expm1(x), x)


def _selu(x: Any, alpha: float, gamma: float) -> Any:
    return gamma * np.where(x <= 0, alpha * np.expm1(x), x)


def _celu(x: Any, alpha: float) -> Any:
    return np.maximum(0, x) + np.minimum(0, alpha * np.expm1(x / alpha))


def _swish(x: Any, alpha: float) -> Any:
    return x * _sigmoid(alpha * x)


_SELU = {"alpha": (1.67326319217681884765625, 1.5), "gamma": (1.05070102214813232421875, 2.0)}
_OLD_SELU = {"alpha": (1.6732, 1.5), "gamma": (1.0507, 2.0)}


def _gelu(d: Draw) -> Given:
    x = d.array(d.shape(), special=False)
    if d.flag():
        inner = np.sqrt(2 / np.pi) * (wide(x) + 0.044715 * wide(x) ** 3)
        return Given([x], {"approximate": "tanh"}, [as_type(0.5 * wide(x) * (1 + np.tanh(inner)), x.dtype)])
    return Given([x], {}, [as_type(0.5 * wide(x) * (1 + _erf(wide(x) / np.sqrt(2))), x.dtype)])


_UNARY: list[Row] = [
    Row("Abs", _unary(np.abs)),
    Row("Acos", _unary(np.arccos, -1, 1)),
    Row("Acosh", _unary(np.arccosh, 1, 9)),
    Row("Asin", _unary(np.arcsin, -1, 1)),
    Row("Asinh", _unary(np.arcsinh)),
    Row("Atan", _unary(np.arctan)),
    Row("Atanh", _unary(np.arctanh, -0.9, 0.9)),
    Row("Ceil", _unary(np.ceil)),
    Row("Cos", _unary(np.cos)),
    Row("Cosh", _unary(np.cosh)),
    Row("Erf", _unary(_erf)),
    Row("Exp", _unary(np.exp)),
    Row("Floor", _unary(np.floor)),
    Row("Gelu", _gelu),
    Row("HardSwish", _unary(lambda x: x * np.clip(x * np.float64(np.float32(1 / 6)) + 0.5, 0, 1))),
    Row("IsNaN", _test(np.isnan), variable="T1"),
    Row("Log", _unary(np.log, 0.01, 9)),
    Row("Mish", _unary(lambda x: x * np.tanh(_softplus(x)))),
    Row("Neg", _unary(np.negative)),
    Row("Not", _unary(np.logical_not)),
    Row("Reciprocal", _unary(lambda x: 1 / x, 0.1, 4)),
    Row("Relu", _unary(lambda x: np.maximum(x, np.zeros((), x.dtype)))),
    Row("Round", _unary(np.rint)),
    Row("Sigmoid", _unary(_sigmoid)),
    Row("Sign", _unary(np.sign)),
    Row("Sin", _unary(np.sin)),
    Row("Sinh", _unary(np.sinh)),
    Row("Softplus", _unary(_softplus)),
    Row("Softsign", _unary(lambda x: x / (1 + np.abs(x)))),
    Row("Sqrt", _unary(np.sqrt, 0, 9)),
    Row("Tan", _unary(np.tan, -1.4, 1.4)),
    Row("Tanh", _unary(np.tanh)),
    Row("Celu", _with(_celu, alpha=(1.0, 2.0))),
    Row("Elu", _with(_elu, alpha=(1.0, 2.0))),
    Row("HardSigmoid", _with(_hard_sigmoid, alpha=(0.2, 0.3), beta=(0.5, 0.25))),
    Row("LeakyRelu", _with(lambda x, alpha: np.where(x < 0, alpha * x, x), alpha=(0.01, 0.5))),
    Row("Selu", _with(_selu, **_OLD_SELU), until=1),
    Row("Selu", _with(_selu, **_SELU), since=6),
    Row(
        "Shrink",
        _with(
            lambda x, lambd, bias: np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0)),
            lambd=(0.5, 1.5),
            bias=(0.0, 1.0),
        ),
    ),
    Row("Swish", _with(_swish, alpha=(1.0, 0.5))),
    Row("ThresholdedRelu", _with(lambda x, alpha: np.where(x > alpha, x, 0), alpha=(1.0, 0.5))),
]

_BINARY: list[Row] = [
    Row("Add", _binary(np.add)),
    Row("Sub", _binary(np.subtract)),
    Row("Mul", _binary(np.multiply)),
    Row("And", _binary(np.logical_and, np.bool_)),
    Row("Or", _binary(np.logical_or, np.bool_)),
    Row("Xor", _binary(np.logical_xor, np.bool_)),
    Row("Equal", _binary(np.equal, np.bool_)),
    Row("Greater", _binary(np.greater, np.bool_)),
    Row("Less", _binary(np.less, np.bool_)),
    Row("GreaterOrEqual", _binary(np.greater_equal, np.bool_)),
    Row("LessOrEqual", _binary(np.less_equal, np.bool_)),
    Row("Div", _division),
    Row("Max", _variadic(np.maximum)),
    Row("Min", _variadic(np.minimum)),
    Row("Sum", _variadic(np.add)),
    Row("Mean", _variadic(np.add, mean=True)),
]

ROWS = [*_UNARY, *_BINARY]
