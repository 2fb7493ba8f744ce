"""Operators that compute each element by itself, and conversions."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from providers.openvino.tests.differential.case import FLOATS, Array, Case, floats, integers, numbers, pick, shape_of

__all__ = ["FAMILIES"]

Rng = np.random.Generator

_UNARY = (
    *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor", "Log"),
    *("Neg", "Reciprocal", "Round", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh"),
    *("Relu", "Identity", "IsNaN", "HardSwish", "Mish", "Elu", "Selu", "Celu", "LeakyRelu", "ThresholdedRelu"),
    *("HardSigmoid", "Gelu", "Shrink", "IsInf"),
)
_INTEGER_UNARY = ("Abs", "Neg", "Sign", "Relu", "BitwiseNot", "Identity")
_INTEGERS = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.int64, np.uint32, np.uint64)
_ALPHA = frozenset({"Elu", "Celu", "LeakyRelu", "ThresholdedRelu", "HardSigmoid"})


def _constants(rng: Rng, count: int) -> frozenset[int]:
    return frozenset(place for place in range(1, count) if rng.random() < 0.3)


def unary(rng: Rng) -> Case:
    """Functions of one tensor."""
    if rng.random() < 0.2:
        op_type, dtype = str(rng.choice(_INTEGER_UNARY)), pick(rng, _INTEGERS)
        return Case(op_type, [integers(rng, shape_of(rng), dtype)], static=rng.random() < 0.5)
    op_type, dtype = str(rng.choice(_UNARY)), pick(rng, FLOATS)
    attributes: dict[str, Any] = {}
    if op_type in _ALPHA and rng.random() < 0.6:
        attributes["alpha"] = float(rng.choice([0.5, 2.0, 0.1, -0.5, 0.0]))
    if op_type == "Selu" and rng.random() < 0.5:
        attributes |= {"alpha": 1.2, "gamma": 0.8}
    if op_type == "HardSigmoid" and rng.random() < 0.5:
        attributes["beta"] = float(rng.choice([0.0, 0.3, 0.9]))
    if op_type == "Gelu":
        attributes["approximate"] = str(rng.choice(["none", "tanh"]))
    if op_type == "Shrink":
        attributes = {"lambd": float(rng.choice([0.5, 1.5])), "bias": float(rng.choice([0.0, 0.5]))}
    if op_type == "IsInf":
        attributes = {"detect_negative": int(rng.integers(2)), "detect_positive": int(rng.integers(2))}
    shape = shape_of(rng) if rng.random() < 0.8 else (2, 37)
    return Case(op_type, [floats(rng, shape, 0.3, dtype=dtype)], attributes, static=rng.random() < 0.5)


def binary(rng: Rng) -> Case:
    """Functions of two tensors, broadcast."""
    kinds = ["Add", "Sub", "Mul", "Div", "Pow", "Mod", "Max", "Min", "PRelu", "Mean", "Sum"]
    kinds += ["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or", "Xor"]
    kinds += ["BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift"]
    op_type = str(rng.choice(kinds))
    shape = shape_of(rng)
    other = tuple(size if rng.random() < 0.7 else 1 for size in shape)[int(rng.integers(len(shape) + 1)) :]
    attributes: dict[str, Any] = {}
    dtype: Any = FLOATS[rng.integers(len(FLOATS))] if rng.random() < 0.5 else _INTEGERS[rng.integers(len(_INTEGERS))]
    if op_type in {"Mean", "Sum"}:
        dtype = FLOATS[rng.integers(len(FLOATS))]
    if op_type in {"And", "Or", "Xor"}:
        dtype = np.bool_
    if op_type.startswith("Bit"):
        dtype = _INTEGERS[rng.integers(len(_INTEGERS))]
    if op_type == "BitShift":
        attributes["direction"] = str(rng.choice(["LEFT", "RIGHT"]))
        dtype = pick(rng, [np.uint8, np.uint16, np.uint32, np.uint64])
    left, right = numbers(rng, shape, dtype), numbers(rng, other, dtype)
    if op_type == "Mod":
        attributes["fmod"] = 1 if np.dtype(dtype).kind not in "iu" else int(rng.integers(2))
    if op_type in {"Div", "Mod", "BitShift"} and np.dtype(dtype).kind in "iu":
        right = np.asarray(right % 7 + np.where(rng.random(other) < 0.5, 1, 2)).astype(dtype)
    if op_type == "Pow" and np.dtype(dtype).kind in "iu":
        if np.dtype(dtype) not in (np.dtype(np.int32), np.dtype(np.int64)):
            left = integers(rng, shape, np.int32)
        right = np.abs(integers(rng, other, np.int32, -1, 6)).astype(pick(rng, [np.int32, np.int64, np.float32]))
    swap = op_type not in {"PRelu", "Pow", "BitShift", "Div", "Mod"} and rng.random() < 0.3
    inputs = [right, left] if swap else [left, right]
    return Case(op_type, inputs, attributes, static=rng.random() < 0.5, constants=_constants(rng, 2))


def clip(rng: Rng) -> Case:
    """Clip with bounds in either order, missing, or not-a-number; Where."""
    if rng.random() < 0.3:
        shape = shape_of(rng)
        dtype = FLOATS[rng.integers(len(FLOATS))] if rng.random() < 0.6 else np.int32
        inputs: list[Array | None] = [
            numbers(rng, shape, np.bool_),
            numbers(rng, shape, dtype),
            numbers(rng, shape[-1:], dtype),
        ]
        return Case("Where", inputs, static=rng.random() < 0.5, constants=_constants(rng, 3))
    dtype = FLOATS[rng.integers(len(FLOATS))] if rng.random() < 0.7 else pick(rng, [np.int8, np.uint8, np.int32])
    low = None if rng.random() < 0.2 else numbers(rng, (), dtype)
    high = None if rng.random() < 0.2 else numbers(rng, (), dtype)
    given = [numbers(rng, shape_of(rng), dtype, 0.3), low, high]
    constant = frozenset({1, 2}) if rng.random() < 0.6 else frozenset[int]()
    return Case("Clip", given, static=rng.random() < 0.5, constants=constant)


def cast(rng: Rng) -> Case:
    """Conversions between all types."""
    kinds: list[Any] = [np.float32, np.float16, ml_dtypes.bfloat16, np.bool_, *_INTEGERS]
    source, target = kinds[rng.integers(len(kinds))], kinds[rng.integers(len(kinds))]
    to = {
        np.float32: 1,
        np.uint8: 2,
        np.int8: 3,
        np.uint16: 4,
        np.int16: 5,
        np.int32: 6,
        np.int64: 7,
        np.bool_: 9,
        np.float16: 10,
        np.uint32: 12,
        np.uint64: 13,
        ml_dtypes.bfloat16: 16,
    }
    data = numbers(rng, shape_of(rng), source)
    if np.dtype(source).kind not in "biu" and np.dtype(target).kind in "iu":
        ends = np.iinfo(target)  # what does not fit is undefined
        data = np.clip(np.nan_to_num(data.astype(np.float64)), max(ends.min, -1000), min(ends.max, 1000)).astype(source)
    if rng.random() < 0.3:
        return Case("CastLike", [data, np.zeros((1,), target)], static=rng.random() < 0.5)
    return Case("Cast", [data], {"to": to[target]}, static=rng.random() < 0.5)


def quantised(rng: Rng) -> Case:
    """Quantising and back, by tensor, axis and block."""
    kind = pick(rng, [np.int8, np.uint8, np.int16, np.uint16])
    shape = tuple(int(size) for size in rng.integers(2, 5, rng.integers(1, 4)))
    axis = int(rng.integers(-len(shape), len(shape)))
    style = rng.integers(3)
    attributes: dict[str, Any] = {}
    scale_shape: tuple[int, ...] = ()
    if style == 1:
        scale_shape, attributes = (shape[axis],), {"axis": axis}
    if style == 2:
        shape = tuple(size * 2 if place == axis % len(shape) else size for place, size in enumerate(shape))
        scale_shape = tuple(size // 2 if place == axis % len(shape) else size for place, size in enumerate(shape))
        attributes = {"axis": axis, "block_size": 2}
    scale = np.asarray(rng.choice([0.5, 0.25, 1.0, 0.1, 0.037], scale_shape)).astype(np.float32)
    zero = None if rng.random() < 0.3 else integers(rng, scale_shape, kind, 0, 5)
    constants = frozenset({1, 2}) if rng.random() < 0.6 else frozenset[int]()
    if rng.random() < 0.5:
        if zero is None and rng.random() < 0.5:
            attributes["output_dtype"] = {"int8": 3, "uint8": 2, "int16": 5, "uint16": 4}[np.dtype(kind).name]
        data = floats(rng, shape, 0.15, 20)
        data = np.where(np.isnan(data), np.float32(0.5), data)
        return Case("QuantizeLinear", [data, scale, zero], attributes, constants=constants)
    data = integers(rng, shape, kind)
    if rng.random() < 0.2:
        data, zero = integers(rng, shape, np.int32), None
    return Case("DequantizeLinear", [data, scale, zero], attributes, constants=constants)


FAMILIES = {"unary": unary, "binary": binary, "clip": clip, "cast": cast, "quantised": quantised}
