"""Element-wise operators: one operand, two that broadcast, several, and those with parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from tests.fuzzing.builder import Builder
from tests.fuzzing.forms.registry import form
from tests.fuzzing.schemas import FLOATS, INTEGERS, Value, np_dtype

__all__ = ["unary_node"]

SMOOTH = (
    "Sigmoid",
    "Tanh",
    "Relu",
    "Erf",
    "Softsign",
    "Sin",
    "Cos",
    "Atan",
    "Abs",
    "Neg",
    "Identity",
    "HardSwish",
    "Mish",
)
OTHERS = (
    *("Exp", "Log", "Sqrt", "Reciprocal", "Softplus", "Tan", "Asin", "Acos", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh"),
    *("Elu", "Selu", "Celu", "LeakyRelu", "ThresholdedRelu", "HardSigmoid", "Gelu", "Swish", "Clip"),
    *("Floor", "Ceil", "Round", "Sign", "Shrink", "Dropout"),
)
BINARY = ("Add", "Sub", "Mul", "Div", "Add", "Sub", "Mul", "Max", "Min", "Pow", "Mod", "PRelu", "Mean", "Sum")
COMPARISONS = ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual")


def unary_node(g: Builder, source: Value, op_type: str = "") -> Value:
    """One node with one operand, with attributes that are drawn; returns its value."""
    op_type = op_type or (g.one(*SMOOTH) if g.chance(0.55) else g.one(*OTHERS))
    attributes: dict[str, Any] = {}
    operands: list[Value | None] = [source]
    if op_type in {"Elu", "Celu", "LeakyRelu", "ThresholdedRelu", "Swish"} and g.chance(0.7):
        attributes["alpha"] = float(g.one(0.01, 0.5, 1.0, 1.702, 2.5, 0.0 if op_type != "Celu" else 0.25, -0.5))
    elif op_type == "Selu" and g.chance(0.5):
        attributes.update(alpha=1.5, gamma=0.7)
    elif op_type == "HardSigmoid" and g.chance(0.7):
        attributes.update(alpha=g.one(0.2, 0.5, 1.0, -0.3), beta=g.one(0.5, 0.0, 0.7))
    elif op_type == "Gelu":
        attributes["approximate"] = g.one("none", "tanh", None)
    elif op_type == "Shrink":
        attributes.update(lambd=g.one(0.5, 0.1), bias=g.one(0.0, 0.25))
    elif op_type == "Mod":
        attributes["fmod"] = 1
    elif op_type == "Clip":
        low, high = g.one((0.0, 6.0), (-1.0, 1.0), (None, 0.5), (0.0, None), (None, None), (1.0, -1.0), (0.0, 1.0))
        if g.opset < 11:
            attributes.update(min=low, max=high)
        else:
            for number in (low, high):
                if number is None:
                    operands.append(None)
                elif g.chance(0.1):
                    operands.append(g.new_input((), source.dtype))
                else:
                    operands.append(g.const(np.array(number), source.dtype))
    elif op_type == "Dropout" and g.opset < 12:
        attributes["ratio"] = 0.5
    return g.emit(op_type, operands, **attributes)[0]


@form(8)
def unary(g: Builder) -> None:
    """One operand."""
    unary_node(g, g.data(dtypes=(g.main,)))


@form(1)
def unary_of_any_type(g: Builder) -> None:
    """One operand of any type."""
    source = g.data(dtypes=(g.one(*FLOATS, *INTEGERS, *INTEGERS),))
    unary_node(g, source, g.one("Abs", "Neg", "Sign", "Relu", "Clip", "Identity", "BitwiseNot", "Floor", "Sqrt", "Exp"))


@form(2)
def unary_chain(g: Builder) -> None:
    """Several in a row, as post-operations are."""
    source = g.data()
    for _ in range(g.integer(2, 4)):
        if g.chance(0.5):
            source = unary_node(g, source)
        else:
            other = g.const(np.array(g.one(0.5, 1.0, 2.0, 3.0, -1.0, 0.0, 12582912.0, 1e-3)), source.dtype)
            pair = [source, other] if g.chance(0.7) else [other, source]
            source = g.emit(g.one("Add", "Sub", "Mul", "Div", "Max", "Min"), pair)[0]


@form(9)
def binary(g: Builder) -> None:
    """Two operands that broadcast."""
    source = g.data()
    other = g.broadcast(source)
    op_type = g.one(*BINARY)
    if g.opset < 8 and op_type in {"Max", "Min", "Mean", "Sum"}:
        other = g.like(source)
    if op_type == "PRelu" and other.rank:
        other = g.like(source)  # the slope broadcasts to the input, never the other way round
    pair = [source, other] if g.chance(0.6) or op_type == "PRelu" else [other, source]
    g.emit(op_type, pair, fmod=1 if op_type == "Mod" else None)


@form(1)
def binary_of_any_type(g: Builder) -> None:
    """Two operands of any type."""
    source = g.data(dtypes=(g.one(*FLOATS, *INTEGERS, *INTEGERS),))
    op_type = g.one(
        "Add", "Sub", "Mul", "Max", "Min", "Sum", "Mod", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift"
    )
    other = g.broadcast(source) if g.opset >= 8 else g.like(source)
    attributes: dict[str, Any] = {}
    if op_type == "Mod" and source.dtype in FLOATS:
        attributes["fmod"] = 1
    if op_type == "Mod" and source.dtype in INTEGERS:
        other = g.const(np.array(g.one(1, 2, 3, 7)), source.dtype)
        attributes["fmod"] = g.one(0, 0, 1)
    if op_type == "BitShift":
        other = g.const(np.array(g.one(0, 1, 3)), source.dtype)
        attributes["direction"] = g.one("LEFT", "RIGHT")
    g.emit(op_type, [source, other], **attributes)


@form(2)
def several(g: Builder) -> None:
    """Sum, Max, Min and Mean of several."""
    source = g.data()
    others = [g.broadcast(source) if g.opset >= 8 else g.like(source) for _ in range(g.integer(0, 3))]
    g.emit(g.one("Sum", "Max", "Min", "Mean"), [source, *others])


@form(2)
def comparison(g: Builder) -> None:
    """A comparison, sometimes with what makes a choice of it."""
    source = g.data(dtypes=(g.main,) if g.chance(0.8) else (g.one(*INTEGERS),))
    chosen = g.emit(g.one(*COMPARISONS), [source, g.broadcast(source)])[0]
    if g.chance(0.7):
        other = g.broadcast(source)
        g.emit("Where", [chosen, source, other] if g.chance(0.5) else [chosen, other, source])


@form(1)
def logic(g: Builder) -> None:
    """Operators of truth values."""
    source = g.data(dtypes=("bool",))
    if g.chance(0.4):
        g.emit("Not", [source])
    else:
        g.emit(g.one("And", "Or", "Xor", "Equal"), [source, g.broadcast(source)])


@form(0.7)
def tests_of_numbers(g: Builder) -> None:
    """IsNaN and IsInf."""
    source = g.data()
    if g.chance(0.5):
        g.emit("IsNaN", [source])
    else:
        g.emit("IsInf", [source], detect_negative=g.one(0, 1, None), detect_positive=g.one(0, 1, None))


@form(1.5)
def cast(g: Builder) -> None:
    """A cast, and back to the main type sometimes."""
    source = g.data(dtypes=(g.main,) if g.chance(0.6) else ())
    target = g.one(*FLOATS, "int32", "int64", "bool", "int8", "uint8")
    if source.dtype in FLOATS and target in {"int8", "uint8", "int32", "int64"}:
        source = g.emit("Clip", [g.emit("Tanh", [source])[0]])[0] if g.opset >= 11 else g.emit("Tanh", [source])[0]
        if target == "uint8":
            source = g.emit("Abs", [source])[0]
        source = g.emit("Mul", [source, g.const(np.array(5.0), source.dtype)])[0]
    made = _cast(g, source, target)
    if g.chance(0.5):
        _cast(g, made, g.main)


def _cast(g: Builder, source: Value, target: str) -> Value:
    return g.emit("Cast", [source], to=int(helper.np_dtype_to_tensor_dtype(np_dtype(target))))[0]
