"""Relu, Clip, Min and Max behind each other."""

from __future__ import annotations

import numpy as np
import pytest

from core.tests.transforms.support import notes, operators, optimise
from ort_py.transforms.elimination.bounds import MergeBounds

X = np.array([-np.inf, -7, -1, -0.5, 0, 0.5, 1, 3, 7, np.inf, np.nan], np.float32)
CONSTANTS = "float a = {-1}, float b = {2}, float c = {6}, float[1] one = {1}, float[11] v = {1,1,1,1,1,1,1,1,1,1,1}"


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("t = Relu(x) y = Relu(t)", {"Relu": 1}),
        ("t = Clip(x, a, b) y = Relu(t)", {"Clip": 1}),
        ("t = Relu(x) y = Clip(t, a, c)", {"Clip": 1}),
        ("t = Clip(x, a) y = Relu(t)", {"Relu": 1}),
        ("t = Clip(x, a, c) y = Clip(t, , b)", {"Clip": 1}),
        ("t = Clip(x, a, b) y = Clip(t, a, c)", {"Clip": 1}),
        ("t = Clip(x, a, a) y = Clip(t, b, c)", {"Clip": 1}),
        ("t = Max(x, a) y = Min(t, c)", {"Clip": 1}),
        ("t = Min(b, x) y = Max(t, one)", {"Clip": 1}),
        ("t = Max(x, a) y = Max(b, t)", {"Clip": 1}),
        ("p = Relu(x) q = Clip(p, a, c) r = Min(q, b) y = Relu(r)", {"Clip": 1}),
    ],
)
def test_two_bounds_are_one(body: str, left: dict[str, int]) -> None:
    """Those of the first as the second leaves them; what is not a number stays none."""
    model, _ = optimise(f"g (float[11] x) => (float[11] y) <{CONSTANTS}> {{ {body} }}", MergeBounds(), feeds={"x": X})
    assert operators(model) == left


def test_bounds_as_attributes() -> None:
    model, _ = optimise(
        "g (float[11] x) => (float[11] y) { t = Relu(x) y = Clip<max = 6.0>(t) }", MergeBounds(), opset=9
    )
    (node,) = model.graph.nodes
    assert node.op_type == "Clip"
    assert node.attributes == {"min": 0.0, "max": 6.0}


def test_integers() -> None:
    """Clip takes them from opset 12 on."""
    text = "g (int64[4] x) => (int64[4] y) <int64 a = {-3}, int64 b = {5}> { t = Max(x, a) y = Min(t, b) }"
    model, _ = optimise(text, MergeBounds(), feeds={"x": np.array([-9, -1, 4, 9], np.int64)})
    assert operators(model) == {"Clip": 1}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("t = Relu(x) u = Clip(t, a, b) y = Add(t, u)", "read elsewhere too"),
        ("t = Relu(x) y = Clip(t, s, b)", ""),
        ("t = Clip(x, s, b) y = Relu(t)", "a bound is not constant"),
        ("t = Clip(x, b, a) y = Relu(t)", "its bounds are 2.0 and -1.0"),
        ("t = Max(x, v) y = Relu(t)", "neither side is one number"),
        ("t = Max(x, a, b) y = Relu(t)", "more than two"),
    ],
)
def test_what_must_stay(body: str, reason: str) -> None:
    """Each with the reason in the report."""
    model, report = optimise(
        f"g (float[11] x, float s) => (float[11] y) <{CONSTANTS}> {{ {body} }}",
        MergeBounds(),
        feeds={"x": X, "s": np.array(0, np.float32)},
    )
    assert operators(model).total() == body.count("=")
    assert reason in notes(report)


def test_a_number_that_may_add_a_dimension_stays() -> None:
    """The result is a vector, the input is none."""
    model, report = optimise(
        f"g (float x) => (float[1] y) <{CONSTANTS}> {{ t = Max(x, one) y = Relu(t) }}", MergeBounds()
    )
    assert operators(model) == {"Max": 1, "Relu": 1}
    assert "another shape" in notes(report)


def test_extremes_of_old_opsets_do_not_broadcast() -> None:
    """Before opset 8, a number beside a tensor is an error, which stays for the run to tell; two numbers are merged."""
    text = "g (T x) => (T y) <float a = {-1}> { t = Max(a, x) y = Relu(t) }"
    model, report = optimise(text.replace("T", "float[3, 2]"), MergeBounds(), opset=7)
    assert dict(operators(model)) == {"Max": 1, "Relu": 1}
    assert "operands of other shapes are an error in this opset" in notes(report)
    model, _ = optimise(text.replace("T", "float"), MergeBounds(), feeds={"x": np.array(-3, np.float32)}, opset=7)
    assert dict(operators(model)) == {"Relu": 1}
