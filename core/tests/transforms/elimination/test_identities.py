"""Identities of arithmetic and logic."""

from __future__ import annotations

import numpy as np
import pytest

from core.tests.transforms.support import notes, operators, optimise
from ort_py.transforms.elimination.identities import identity_rules

X = np.random.default_rng(8).uniform(0.5, 2, (2, 3)).astype(np.float32)
FEEDS = {"x": X, "z": -X, "b": X > 1}
CONSTANTS = "float one = {1}, float two = {2}, float[2, 1] ones = {1, 1}, float[1, 1, 1] high = {1}, int64[0] none = {}"


def run(body: str, output: str = "float[2, 3]", opset: int = 21) -> tuple[dict[str, int], str]:
    """Optimise a body; give operators and notes."""
    model, report = optimise(
        f"""g (float[2, 3] x, float[2, 3] z, bool[2, 3] b) => ({output} y)
        <{CONSTANTS}, bool t = {{1}}, bool[2, 3] f = {{0, 0, 0, 0, 0, 0}}, bool[3] m = {{1, 0, 1}}> {{ {body} }}""",
        *identity_rules(),
        feeds=FEEDS,
        opset=opset,
    )
    return dict(operators(model)), notes(report)


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("p = Neg(x) q = Neg(p) y = Exp(q)", {"Exp": 1}),
        ("p = Exp(x) y = Abs(p)", {"Exp": 1}),
        ("p = Sigmoid(x) y = Relu(p)", {"Sigmoid": 1}),
        ("p = Floor(x) q = Round(p) y = Ceil(q)", {"Floor": 1}),
        ("p = Sign(x) y = Sign(p)", {"Sign": 1}),
        ("p = Abs(x) y = Abs(p)", {"Abs": 1}),
        ("p = Exp(x) y = Pow(p, one)", {"Exp": 1}),
        ("p = Exp(x) y = Pow(p, ones)", {"Exp": 1}),
        ("p = Div(one, x) y = Mul(p, z)", {"Div": 1}),
        ("p = Div(ones, x) y = Mul(z, p)", {"Div": 1}),
        ("y = Sum(x, z)", {"Add": 1}),
        ("p = Exp(x) q = ReduceSum<noop_with_empty_axes = 1>(p, none) y = Relu(q)", {"Exp": 1}),
        ("p = Not(b) y = Where(p, x, z)", {"Where": 1}),
        ("p = Exp(x) y = Where(t, p, z)", {"Exp": 1}),
        ("p = Exp(x) y = Where(f, z, p)", {"Exp": 1}),
    ],
)
def test_what_becomes_less(body: str, left: dict[str, int]) -> None:
    """With values, types and shapes as before."""
    assert run(body)[0] == left


def test_two_negations_of_truth() -> None:
    assert run("p = Not(b) q = Not(p) y = And(q, b)", "bool[2, 3]")[0] == {"And": 1}


def test_a_negation_that_others_read_stays() -> None:
    """`Where` does without it all the same."""
    found, _ = run("p = Not(b) q = Where(p, x, z) r = Cast<to = 1>(p) y = Add(q, r)")
    assert found == {"Not": 1, "Where": 1, "Cast": 1, "Add": 1}


@pytest.mark.parametrize(
    ("body", "output", "reason"),
    [
        ("y = Pow(x, high)", "float[1, 2, 3]", "another shape or type"),
        ("y = Pow(x, two)", "float[2, 3]", ""),
        ("p = ReduceSum(x) y = Where(f, z, p)", "float[2, 3]", "repeated"),
        ("y = Where(m, x, z)", "float[2, 3]", ""),
        ("p = Exp(x) y = Where(b, p, p)", "float[2, 3]", ""),
        ("p = Sqrt(x) y = Abs(p)", "float[2, 3]", ""),
        ("p = Relu(x) y = Abs(p)", "float[2, 3]", ""),
        ("p = Div(one, x) q = Mul(p, z) y = Add(p, q)", "float[2, 3]", "read elsewhere too"),
        ("p = Div(high, x) y = Mul(p, z)", "float[1, 2, 3]", ""),
        ("p = Div(two, x) y = Mul(p, z)", "float[2, 3]", ""),
        ("y = Sum(x, z, x)", "float[2, 3]", ""),
        ("p = ReduceSum(x, none) y = Neg(p)", "float[1, 1]", ""),
        ("p = Relu(x) y = Neg(p)", "float[2, 3]", ""),
        ("p = Neg(x) y = Abs(p)", "float[2, 3]", ""),
    ],
)
def test_what_must_stay(body: str, output: str, reason: str) -> None:
    """Near misses, where there is a reason with it in the report."""
    found, said = run(body, output)
    assert sum(found.values()) == body.replace("= 1>", "").count(" = ")
    assert reason in said


def test_sums_of_old_opsets_do_not_broadcast() -> None:
    """Add does where Sum before opset 8 did not: operands that are not known to have one shape are left for the run."""
    text = "g (float[2, 3] x, float[S] z) => (float[2, 3] y) { y = Sum(x, z) }"
    for shape, left, said in (("2, 3", "Add", ""), ("3", "Sum", "error in this opset"), ("A, B", "Sum", "error in")):
        model, report = optimise(text.replace("S", shape, 1), *identity_rules(), opset=7)
        assert operators(model) == {left: 1}
        assert said in notes(report)


def test_integers_are_divided_first() -> None:
    """1 / x is 0 for most of them."""
    model, report = optimise(
        "g (int64[3] x, int64[3] z) => (int64[3] y) <int64 one = {1}> { p = Div(one, x) y = Mul(p, z) }",
        *identity_rules(),
    )
    assert operators(model) == {"Div": 1, "Mul": 1}
    assert "integers are divided first" in notes(report)


def test_a_choice_that_may_not_fit_stays() -> None:
    """The choice that a constant condition drops must broadcast whatever its unknown size is; else a run must fail."""
    text = "g (float[2, 3] x, float[2, N] z) => (float[2, 3] y) <bool t = {1}> { p = Exp(x) y = Where(t, p, z) }"
    model, report = optimise(text, *identity_rules(), opset=21)
    assert operators(model) == {"Exp": 1, "Where": 1}
    assert "may not fit" in notes(report)
