"""Rows of operators that change element types or ranges: casts, clips, masks, and bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ort_py.dtypes import DataType, data_type_of

from .row import Draw, Given, Row, as_type, is_floating, wide

__all__ = ["ROWS"]


def _castable(d: Draw, source: Any, target: Any) -> Any:
    """Values that both types hold, so that every way of rounding agrees; text of numbers for strings."""
    low = -1 if _signed(source) and _signed(target) else 0
    numbers = np.random.default_rng(d.integer(0, 999)).integers(low, 2, d.shape())
    if source.kind == "O":
        return np.array([str(number) for number in numbers.reshape(-1)], object).reshape(numbers.shape)
    if "e8m0" in source.name or "e8m0" in getattr(target, "name", ""):
        numbers = np.ones_like(numbers)
    return numbers.astype(source)


def _signed(dtype: Any) -> bool:
    return dtype.kind == "O" or (dtype != np.bool_ and (is_floating(dtype) or not dtype.name.startswith("u")))


def _converted(x: Any, target: Any) -> Any:
    values = np.array([float(one) for one in x.reshape(-1)]).reshape(x.shape) if x.dtype.kind == "O" else wide(x)
    if target.kind == "O":
        texts = [_text(one, x.dtype) for one in x.reshape(-1)]
        return np.array(texts, object).reshape(x.shape)
    return values.astype(np.bool_) if target == np.bool_ else np.asarray(values).astype(np.float64).astype(target)


def _text(value: Any, dtype: Any) -> str:
    if dtype.kind == "O":
        return str(value)
    return str(int(value))  # bool too: the specification casts it to 1 and 0, and onnxruntime writes it so


def _cast(d: Draw) -> Given:
    target = d.other("T2")
    x = _castable(d, d.dtype, target)
    if target.kind == "O" and is_floating(x.dtype):
        target = np.dtype(np.float32)  # how floats are written is tested with Cast itself
    number = int(data_type_of(target))
    made = _converted(x, target)
    if d.op_type == "CastLike":
        like = np.empty((1,), target)
        like[...] = "" if target.kind == "O" else 0 if "e8m0" not in target.name else 1
        return Given([x, like], {}, [made])
    return Given([x], {"to": DataType(number).name if d.version == 1 else number}, [made])


def _clip(d: Draw) -> Given:
    x = d.array(d.shape(), special=False)
    low, high = (np.array(value).astype(d.dtype) for value in (1, 2))
    given = (bool(d.flag()), bool(d.flag()))
    made = wide(x)
    if given[0]:
        made = np.maximum(made, wide(low))
    if given[1]:
        made = np.minimum(made, wide(high))
    if d.version < 11:
        attributes = {name: value for name, value, one in (("min", 1.0, given[0]), ("max", 2.0, given[1])) if one}
        return Given([x], attributes, [as_type(made, x.dtype)])
    return Given([x, low if given[0] else None, high if given[1] else None], {}, [as_type(made, x.dtype)])


def _dropout(d: Draw) -> Given:
    """Inference: nothing is dropped; the mask was of the data's type until version 7, and says what is kept."""
    x = d.array(d.shape())
    attributes = {"is_test": 1} if d.version < 7 else {}
    mask = np.ones(x.shape, x.dtype if d.version < 10 else np.bool_)
    inputs = [x] if d.version < 12 else [x, np.array(0.5, d.other("T1"))]
    return Given(inputs, attributes, [x, mask], outputs=2)


def _is_inf(d: Draw) -> Given:
    x = d.array(d.shape())
    negative, positive = d.flag(), d.flag()
    values = wide(x)
    made = (np.isneginf(values) & bool(negative)) | (np.isposinf(values) & bool(positive))
    return Given([x], {"detect_negative": negative, "detect_positive": positive}, [np.asarray(made)])


def _mod(d: Draw) -> Given:
    shape = d.shape()
    x = d.array(shape, special=False)
    y = d.array(d.broadcastable(shape), low=1, special=False)
    fmod = 1 if is_floating(d.dtype) and d.version < 28 else d.flag()
    function = np.fmod if fmod else np.mod
    return Given([x, y], {"fmod": fmod}, [as_type(function(wide(x), wide(y)), d.dtype)])


def _shift(d: Draw) -> Given:
    shape = d.shape()
    x = d.array(shape)
    bits = d.dtype.itemsize * 8
    y = d.array(d.broadcastable(shape), low=0, high=bits - 1, special=False)
    direction = d.pick(("LEFT", "RIGHT"))
    function = np.left_shift if direction == "LEFT" else np.right_shift
    return Given([x, y], {"direction": direction}, [function(x, y)])


def _bitwise(function: Callable[..., Any], count: int) -> Callable[[Draw], Given]:
    def draw(d: Draw) -> Given:
        shape = d.shape()
        arrays = [d.array(shape), *(d.array(d.broadcastable(shape)) for _ in range(count - 1))]
        return Given(arrays, {}, [function(*arrays)])

    return draw


def _pow(d: Draw) -> Given:
    shape = d.shape()
    x = d.array(shape, low=1, high=3, special=False)
    kind = d.other("T1") if d.version >= 12 else d.dtype
    exponent = d.array(shape if d.version < 7 else d.broadcastable(shape), kind, low=0, high=3, special=False)
    made = wide(x).astype(np.float64) ** wide(exponent).astype(np.float64)
    return Given([x, exponent], {}, [as_type(made if is_floating(d.dtype) else np.trunc(made + 1e-9), d.dtype)])


def _prelu(d: Draw) -> Given:
    shape = d.shape(2, 4)
    x = d.array(shape, special=False)
    if d.version < 7:
        slope = d.array((d.pick((1, shape[1])),), special=False)
        spread = slope.reshape(-1, *(1,) * (len(shape) - 2))
    else:
        spread = slope = d.array(d.broadcastable(shape), special=False)
    made = np.where(wide(x) < 0, wide(x) * wide(spread), wide(x))
    return Given([x, slope], {}, [as_type(made, d.dtype)])


ROWS = [
    Row("Cast", _cast, variable="T1"),
    Row("CastLike", _cast, variable="T1"),
    Row("Clip", _clip),
    Row("Dropout", _dropout),
    Row("IsInf", _is_inf, variable="T1"),
    Row("Mod", _mod),
    Row("BitShift", _shift),
    Row("BitwiseAnd", _bitwise(np.bitwise_and, 2)),
    Row("BitwiseOr", _bitwise(np.bitwise_or, 2)),
    Row("BitwiseXor", _bitwise(np.bitwise_xor, 2)),
    Row("BitwiseNot", _bitwise(np.bitwise_not, 1)),
    Row("Pow", _pow),
    Row("PRelu", _prelu),
]
