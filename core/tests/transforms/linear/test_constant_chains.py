"""Chains of additions or multiplications with constants."""

from __future__ import annotations

import numpy as np
import pytest

from core.tests.transforms.support import notes, operators, optimise
from ort_py.transforms.linear.constant_chains import MergeConstantChains

X = np.random.default_rng(6).standard_normal((2, 3)).astype(np.float32)


def run(body: str, kind: str = "float", feed: np.ndarray = X) -> tuple[dict[str, int], str]:
    """Optimise a chain over some constants; give operators and notes."""
    constants = (
        "a = {3}, T b = {5}, T[3] v = {2, 4, 8}, T[2, 1] c = {7, 9}, T big = {1000000}, T less = {-1000000}, "
        "T half = {0.5}, T small = {0.25}, T less_than_one = {0.3}"
    )
    model, report = optimise(
        f"g (T[2, 3] x) => (T[2, 3] y) <T {constants}> {{ {body} }}".replace("T", kind),
        MergeConstantChains(),
        feeds={"x": feed},
    )
    return dict(operators(model)), notes(report)


@pytest.mark.parametrize("first", ["Mul(x, a)", "Mul(a, x)", "Div(x, small)"])
@pytest.mark.parametrize("second", ["Mul(t, v)", "Mul(b, t)", "Div(t, half)"])
def test_factors(first: str, second: str) -> None:
    """One Mul of two that make numbers larger; quotients by powers of two are products."""
    assert run(f"t = {first} y = {second}")[0] == {"Mul": 1}


def test_factors_that_make_smaller() -> None:
    assert run("p = Mul(x, small) q = Mul(p, less_than_one) y = Div(q, v)")[0] == {"Mul": 1}


@pytest.mark.parametrize("chain", ["t = Mul(x, a) y = Mul(t, b)", "t = Div(x, half) y = Mul(t, b)"])
def test_scalars_stay_scalars(chain: str) -> None:
    """The product of two constants without axes has none: the result keeps the shape of the input."""
    text = f"g (float x) => (float y) <float a = {{3}}, float b = {{5}}, float half = {{0.5}}> {{ {chain} }}"
    model, _ = optimise(text, MergeConstantChains(), feeds={"x": np.array(1.5, np.float32)})
    assert dict(operators(model)) == {"Mul": 1}


def test_a_long_chain() -> None:
    assert run("p = Mul(x, a) q = Mul(p, v) r = Mul(q, b) y = Mul(r, b)")[0] == {"Mul": 1}


@pytest.mark.parametrize("kind", ["int32", "int64", "uint64"])
def test_integers_wrap_around(kind: str) -> None:
    """The order does not matter to them, beyond their range either."""
    dtype = np.dtype(kind)
    feed = np.array([[1, np.iinfo(dtype).max, 3], [5, 7, np.iinfo(dtype).max // 3]], dtype)
    text = "g (T[2, 3] x) => (T[2, 3] y) <T a = {1000000007}, T b = {998244353}> { t = Mul(x, a) y = Mul(t, b) }"
    model, _ = optimise(text.replace("T", kind), MergeConstantChains())
    (node,) = model.graph.nodes
    factor = node.inputs[1]
    assert factor is not None
    assert factor.weight is not None
    together = factor.weight.array()
    with np.errstate(over="ignore"):
        expected = feed * np.array(1000000007, dtype) * np.array(998244353, dtype)
        np.testing.assert_array_equal(feed * together, expected)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("t = Add(x, big) y = Add(t, less)", "rounded after each"),
        ("t = Add(x, a) y = Sub(t, a)", "rounded after each"),
        ("t = Add(x, a) y = Add(t, b)", "rounded after each"),
        ("t = Mul(x, a) y = Div(t, b)", "quotient"),
        ("t = Mul(x, a) y = Mul(t, half)", "overflow or underflow"),
        ("t = Mul(x, less_than_one) y = Mul(t, b)", "overflow or underflow"),
        ("t = Add(x, a) u = Add(t, b) y = Add(u, t)", "read elsewhere too"),
        ("t = Mul(x, v) y = Mul(t, c)", "larger than each of them"),
        ("t = Sub(a, x) y = Add(t, b)", ""),
        ("t = Add(x, a) y = Mul(t, b)", ""),
        ("t = Mul(x, a) y = Add(t, b)", ""),
    ],
)
def test_what_must_stay(body: str, reason: str) -> None:
    """Adding and subtracting a large number rounds; other pairs do not form a chain."""
    found, said = run(body)
    assert sum(found.values()) == body.count("=")
    assert reason in said


def test_factors_that_leave_the_range_stay() -> None:
    model, report = optimise(
        "g (float[2, 3] x) => (float[2, 3] y) <float a = {1e-30}> { t = Mul(x, a) y = Mul(t, a) }",
        MergeConstantChains(),
    )
    assert operators(model) == {"Mul": 2}
    assert "leave the range" in notes(report)


def test_divided_integers_stay() -> None:
    model, report = optimise(
        "g (int64[3] x) => (int64[3] y) <int64 a = {3}> { t = Div(x, a) y = Div(t, a) }",
        MergeConstantChains(),
    )
    assert operators(model) == {"Div": 2}
    assert "integers are divided" in notes(report)


def test_half_precision_stays() -> None:
    """One more rounding of a constant is felt there."""
    model, report = optimise(
        "g (float16[3] x) => (float16[3] y) <float16 a = {3}> { t = Mul(x, a) y = Mul(t, a) }",
        MergeConstantChains(),
    )
    assert operators(model) == {"Mul": 2}
    assert "float16" in notes(report)
