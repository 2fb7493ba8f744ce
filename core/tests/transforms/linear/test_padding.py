"""Pad in front of convolutions and poolings."""

from __future__ import annotations

import numpy as np
import pytest

from core.tests.transforms.support import notes, operators, optimise
from ort_py.transforms.linear.padding import FoldPad

X = np.random.default_rng(5).standard_normal((1, 1, 4, 4)).astype(np.float32)
WEIGHT = "float[1, 1, 2, 2] w = {1, 2, 3, 4}, int64[8] p = {0, 0, 1, 0, 0, 0, 0, 1}"


def test_zeros_become_pads_of_a_convolution() -> None:
    """They are added to those it has."""
    model, _ = optimise(
        f"""g (float[1, 1, 4, 4] x) => (float[1, 1, H, W] y) <{WEIGHT}> {{
            a = Pad(x, p) y = Conv<pads = [1, 1, 1, 1]>(a, w)
        }}""",
        FoldPad(),
        feeds={"x": X},
    )
    assert operators(model) == {"Conv": 1}
    assert model.graph.nodes[0].attributes["pads"] == (2, 1, 1, 2)


def test_pads_along_named_axes() -> None:
    """From opset 18 on, and with an explicit value."""
    model, _ = optimise(
        """g (float[1, 1, 4, 4] x) => (float[1, 1, H, W] y)
        <float[1, 1, 2, 2] w = {1, 2, 3, 4}, int64[2] p = {1, 2}, int64[1] a = {-1}, float v = {0}> {
            b = Pad(x, p, v, a) y = Conv<auto_pad = "VALID">(b, w)
        }""",
        FoldPad(),
        feeds={"x": X},
    )
    assert operators(model) == {"Conv": 1}
    assert model.graph.nodes[0].attributes["pads"] == (0, 1, 0, 2)


def test_pads_as_an_attribute() -> None:
    model, _ = optimise(
        """g (float[1, 1, 4, 4] x) => (float[1, 1, H, W] y) <float[1, 1, 2, 2] w = {1, 2, 3, 4}> {
            b = Pad<pads = [0, 0, 1, 1, 0, 0, 1, 1]>(x) y = Conv(b, w)
        }""",
        FoldPad(),
        opset=9,
    )
    assert operators(model) == {"Conv": 1}


def test_zeros_in_front_of_an_average_are_counted() -> None:
    """They were part of its input."""
    model, _ = optimise(
        """g (float[1, 1, 4, 4] x) => (float[1, 1, H, W] y) <int64[8] p = {0, 0, 1, 0, 0, 0, 0, 1}> {
            a = Pad(x, p) y = AveragePool<kernel_shape = [2, 2]>(a)
        }""",
        FoldPad(),
        feeds={"x": X},
    )
    assert operators(model) == {"AveragePool": 1}
    assert model.graph.nodes[0].attributes["count_include_pad"] == 1


def test_minus_infinity_in_front_of_a_maximum() -> None:
    model, _ = optimise(
        """g (float[1, 1, 4, 4] x) => (float[1, 1, H, W] y) <int64[8] p = {0, 0, 1, 0, 0, 0, 0, 1}, float v = {-inf}> {
            a = Pad(x, p, v) y = MaxPool<kernel_shape = [2, 2]>(a)
        }""",
        FoldPad(),
        feeds={"x": X},
    )
    assert operators(model) == {"MaxPool": 1}


POOL = "AveragePool<kernel_shape = [2, 2]{}>(a)"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('a = Pad<mode = "reflect">(x, p) y = Conv(a, w)', "the padding is 'reflect'"),
        ("a = Pad(x, p, one) y = Conv(a, w)", "padded with 1.0, not with 0.0"),
        ("a = Pad(x, p, v) y = Conv(a, w)", "something unknown"),
        ("a = Pad(x, q) y = Conv(a, w)", "the widths of the padding are not known"),
        ("a = Pad(x, batch) y = Conv(a, w)", "more than spatial axes"),
        ("a = Pad(x, cut) y = Conv(a, w)", "something is cut off"),
        ('a = Pad(x, p) y = Conv<auto_pad = "SAME_UPPER">(a, w)', "pads by itself: 'SAME_UPPER'"),
        ("a = Pad(x, p) b = Conv(a, w) c = ReduceMax(a) y = Add(b, c)", "read elsewhere too"),
        ("a = Pad(x, p) y = MaxPool<kernel_shape = [2, 2]>(a)", "padded with 0.0, not with -inf"),
        (f"a = Pad(x, p) y = {POOL.format(', pads = [1, 1, 1, 1]')}", "does not count its own padding"),
        (f"a = Pad(x, p) y = {POOL.format(', ceil_mode = 1')}", "reach over the end"),
        (f"a = Pad(x, p) y = {POOL.format(', dilations = [2, 2]')}", "is dilated"),
        (f"a = Pad(x, wide) y = {POOL.format('')}", "in the padding alone"),
        ("a = Pad(x, p, low) y, i = MaxPool<kernel_shape = [2, 2]>(a)", "count the padding"),
    ],
)
def test_what_must_stay(body: str, reason: str) -> None:
    """Each with the reason in the report."""
    model, report = optimise(
        f"""g (float[1, 1, 4, 4] x, float v, int64[8] q) => (float[N, C, H, W] y)
        <{WEIGHT}, float one = {{1}}, float low = {{-inf}}, int64[8] batch = {{1, 0, 0, 0, 0, 0, 0, 0}},
        int64[8] cut = {{0, 0, -1, 0, 0, 0, 0, 0}}, int64[8] wide = {{0, 0, 2, 0, 0, 0, 0, 0}}> {{ {body} }}""",
        FoldPad(),
    )
    assert operators(model)["Pad"] == 1
    assert reason in notes(report)
