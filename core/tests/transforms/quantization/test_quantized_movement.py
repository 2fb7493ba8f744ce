"""Operators that only move quantised elements move integers: bit-equal, and only between the same scales."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from core.tests.transforms.support import notes, operators, optimise
from ort_py.transforms.quantization.quantized_movement import MoveQuantized

CONSTANTS = """
    s = Constant <value_float = 0.013> ()
    z = Constant <value = uint8 {37}> ()
"""

ALL = np.arange(256, dtype=np.uint8).reshape(2, 8, 4, 4)


def _text(middle: str, result: str = "uint8[P, Q, R, S] y", inputs: str = "uint8[2, 8, 4, 4] x") -> str:
    return f"g ({inputs}) => ({result}) {{ {CONSTANTS} f = DequantizeLinear (x, s, z) {middle} }}"


@pytest.mark.parametrize(
    "move",
    [
        "m = Transpose <perm = [0, 2, 3, 1]> (f)",
        "t = Constant <value_ints = [2, 4, -1, 4]> () m = Reshape (f, t)",
        "a = Constant <value_ints = [1]> () b = Constant <value_ints = [5]> () m = Slice (f, a, b, a)",
        "i = Constant <value_ints = [3, 0]> () m = Gather <axis = 1> (f, i)",
        "m = DepthToSpace <blocksize = 2> (f)",
        "m = Concat <axis = 1> (f, f)",
        "m = MaxPool <kernel_shape = [2, 2], strides = [2, 1]> (f)",
        "m = Identity (f)",
    ],
)
def test_moves(move: str) -> None:
    """Both conversions go, for every value of a byte."""
    model, _ = optimise(_text(f"{move} y = QuantizeLinear (m, s, z)"), MoveQuantized(), feeds={"x": ALL})
    assert not {"DequantizeLinear", "QuantizeLinear"} & operators(model).keys()


def test_nothing_between_them() -> None:
    text = _text("y = QuantizeLinear (f, s, z) r = Transpose (y)", "uint8[4, 4, 8, 2] r")
    model, _ = optimise(text, MoveQuantized(), feeds={"x": ALL})
    assert operators(model) == {"Transpose": 1, "Constant": 2} or operators(model) == {"Transpose": 1}


def test_two_inputs_of_one_scale() -> None:
    """Concat reads several; all of them have the scale."""
    text = _text(
        "g = DequantizeLinear (w, s, z) m = Concat <axis = 0> (f, g) y = QuantizeLinear (m, s, z)",
        inputs="uint8[2, 8, 4, 4] x, uint8[1, 8, 4, 4] w",
    )
    feeds: dict[str, Any] = {"x": ALL, "w": ALL[:1] // 3}
    model, _ = optimise(text, MoveQuantized(), feeds=feeds)
    assert operators(model)["Concat"] == 1
    assert not operators(model)["QuantizeLinear"]


@pytest.mark.parametrize(
    ("middle", "reason"),
    [
        (
            "s2 = Constant <value_float = 0.014> () m = Identity (f) y = QuantizeLinear (m, s2, z)",
            "it goes from uint8 with scale 0.013 and zero point 37 to uint8 with scale 0.014 and zero point 37",
        ),
        (
            "z2 = Constant <value = uint8 {38}> () y = QuantizeLinear (f, s, z2)",
            "to uint8 with scale 0.013 and zero point 38",
        ),
        (
            "s2 = Constant <value_floats = [0.5, 0.25]> () m = Identity (f) y = QuantizeLinear <axis = 0> (m, s2)",
            "has a scale for each entry of an axis",
        ),
        ("n = ReduceMax <keepdims = 0> (f) y = QuantizeLinear (f, n, z)", "scale or zero point of QuantizeLinear"),
    ],
)
def test_other_scales_stay(middle: str, reason: str) -> None:
    """Another scale, zero point or form of scale is another number."""
    model, report = optimise(_text(middle), MoveQuantized())
    assert operators(model)["QuantizeLinear"] == 1
    assert reason in notes(report)


def test_moved_elements_that_are_read_as_floats_too() -> None:
    text = _text("m = Transpose (f) y = QuantizeLinear (m, s, z)", "uint8[P, Q, R, S] y, float[P, Q, R, S] m")
    model, report = optimise(text, MoveQuantized(), feeds={"x": ALL})
    assert operators(model)["QuantizeLinear"] == 1
    assert "'m' is read elsewhere too" in notes(report)


def test_an_old_max_pool_takes_no_bytes() -> None:
    text = _text("m = MaxPool <kernel_shape = [2, 2]> (f) y = QuantizeLinear (m, s, z)")
    text = text.replace("value_float = 0.013", "value = float {0.013}")
    model, report = optimise(text, MoveQuantized(), opset=11)
    assert operators(model)["QuantizeLinear"] == 1
    assert "MaxPool of version 11 does not take uint8" in notes(report)


def test_computing_stays() -> None:
    model, _ = optimise(_text("m = Add (f, f) y = QuantizeLinear (m, s, z)"), MoveQuantized(), feeds={"x": ALL})
    assert operators(model)["QuantizeLinear"] == 1
