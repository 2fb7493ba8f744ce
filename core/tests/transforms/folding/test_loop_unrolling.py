"""Loops with a small constant trip count."""

from __future__ import annotations

import numpy as np
import pytest

from core.tests.transforms.support import notes, operators, optimise
from ort_py.dtypes import TensorType
from ort_py.transforms.elimination.no_ops import EliminateIdentity
from ort_py.transforms.folding.constant_folding import ConstantFolding
from ort_py.transforms.folding.loop_unrolling import UnrollLoops

X = np.random.default_rng(13).standard_normal(3).astype(np.float32)
BODY = """body = b (int64 i, bool c, float[3] s) => (bool d, float[3] t, float[3] row) <float[3] k = {1, 2, 4}> {
    d = Identity(c) f = Cast<to = 1>(i) g = Mul(k, x) a = Add(s, g) t = Add(a, f) row = Mul(t, t)
}"""


def run(loop: str, constants: str = "int64 n = {3}, bool yes = {1}", *, opset: int = 21) -> tuple[dict[str, int], str]:
    """Optimise a loop over x; give operators and notes."""
    model, report = optimise(
        f"g (float[3] x, bool p, int64 m) => (float[3] y, float[R, 3] rows) <{constants}> {{ {loop} }}",
        UnrollLoops(),
        EliminateIdentity(),
        ConstantFolding(),
        feeds={"x": X, "p": np.array(True), "m": np.array(2)},
        opset=opset,
    )
    return dict(operators(model)), notes(report)


def test_iterations_stand_one_behind_the_other() -> None:
    """Values carried, values from outside, the body's constants and the number of the iteration all arrive."""
    found, _ = run(f"y, rows = Loop<{BODY}>(n, yes, x)")
    assert found == {"Mul": 6, "Add": 6, "Unsqueeze": 3, "Concat": 1}


def test_a_condition_may_be_absent() -> None:
    text = f"g (float[3] x) => (float[3] y, float[R, 3] rows) <int64 n = {{2}}> {{ y, rows = Loop<{BODY}>(n, , x) }}"
    model, _ = optimise(text, UnrollLoops())
    assert "Loop" not in operators(model)


def test_one_iteration() -> None:
    found, _ = run(f"y, rows = Loop<{BODY}>(n, yes, x)", "int64 n = {1}, bool yes = {1}")
    assert found == {"Mul": 2, "Add": 2, "Unsqueeze": 1}


def test_older_opsets() -> None:
    """Unsqueeze had its axes as an attribute."""
    found, _ = run(f"y, rows = Loop<{BODY}>(n, yes, x)", opset=11)
    assert found == {"Mul": 6, "Add": 6, "Unsqueeze": 3, "Concat": 1}


def test_a_carried_value_that_is_only_passed_on() -> None:
    """The input itself is the result."""
    body = """body = b (int64 i, bool c, float[3] s, float[3] q) => (bool d, float[3] s, float[3] t, float[3] u)
    <bool d = {1}> { t = Add(q, s) u = Neg(q) }"""
    found, _ = run(f"y, z, rows = Loop<{body}>(n, yes, x, x)")
    assert found == {"Identity": 1, "Neg": 3, "Add": 2, "Unsqueeze": 3, "Concat": 1}


@pytest.mark.parametrize(
    ("loop", "constants", "reason"),
    [
        (f"y, rows = Loop<{BODY}>(n, yes, x)", "int64 n = {9}, bool yes = {1}", "it runs 9 times"),
        (f"y, rows = Loop<{BODY}>(n, yes, x)", "int64 n = {3}, bool yes = {0}", "not known to be true"),
        (f"y, rows = Loop<{BODY}>(n, p, x)", "int64 n = {3}", "not known to be true"),
        (f"y, rows = Loop<{BODY}>(m, , x)", "int64 n = {3}", ""),
        (
            f"y, rows = Loop<{BODY.replace('d = Identity(c)', 'h = Size(s) d = Less(h, i)')}>(n, , x)",
            "int64 n = {3}",
            "may become false",
        ),
    ],
)
def test_what_must_stay(loop: str, constants: str, reason: str) -> None:
    """Each with the reason in the report."""
    model, report = optimise(
        f"g (float[3] x, bool p, int64 m) => (float[3] y, float[R, 3] rows) <{constants}> {{ {loop} }}", UnrollLoops()
    )
    assert operators(model)["Loop"] == 1
    assert reason in notes(report)


def test_a_large_body_stays() -> None:
    """Eight times ten nodes are more than a loop costs."""
    chain = " ".join(f"a{index + 1} = Neg(a{index})" for index in range(10))
    body = f"body = b (int64 i, bool c, float[3] a0) => (bool c, float[3] a10) {{ {chain} }}"
    model, report = optimise(
        f"g (float[3] x) => (float[3] y) <int64 n = {{8}}> {{ y = Loop<{body}>(n, , x) }}", UnrollLoops()
    )
    assert operators(model)["Loop"] == 1
    assert "8 times 10 nodes" in notes(report)


def test_a_body_with_graphs_stays() -> None:
    """An If inside keeps the loop."""
    body = """body = b (int64 i, bool c, float[3] s) => (bool c, float[3] t) {
        t = If (q) <then_branch = u () => (float[3] v) { v = Neg(s) },
                    else_branch = e () => (float[3] w) { w = Abs(s) }>
    }"""
    model, report = optimise(
        f"g (float[3] x, bool q) => (float[3] y) <int64 n = {{2}}> {{ y = Loop<{body}>(n, , x) }}", UnrollLoops()
    )
    assert operators(model)["Loop"] == 1
    assert "holds graphs" in notes(report)


def test_a_body_that_declares_another_type_stays() -> None:
    """A sequence for a declared tensor: the run decides what becomes of it, as without the rule."""
    body = "b (int64 i, bool c, float s) => (bool d, float t) { d = Identity(c) t = Tanh(s) }"
    model, report = optimise(
        f"g (float[2] x) => (float[K] z) <int64 n = {{3}}, bool yes = {{1}}> "
        f"{{ q = SequenceConstruct(x) y = Loop<body = {body}>(n, yes, q) z = Add(x, y) }}",
        UnrollLoops(),
    )
    assert "Loop" in operators(model)
    assert "declares another type" in notes(report)


def test_a_wrongly_declared_result_takes_its_real_shape() -> None:
    """A run passes over the declaration; unrolling made an error of it."""
    model, _ = optimise(
        """g (float[3] x) => (float[A, B, C] rows) <int64 n = {1}, bool yes = {1}> {
            y, rows = Loop<body = b (int64 i, bool c, float[] s) => (bool d, float[] t, float[] row) {
                d = Identity(c) t = Neg(s) row = Abs(s)
            }>(n, yes, x)
        }""",
        UnrollLoops(),
        feeds={"x": X},
    )
    assert "Loop" not in operators(model)
    (rows,) = (value.type for value in model.graph.outputs)
    assert isinstance(rows, TensorType)
    assert rows.shape == (1, 3)


def test_a_body_that_cannot_take_what_it_is_given_stays() -> None:
    """The node fails in a run, where it is reached; making the session does not."""
    model, report = optimise(
        """g (float[3] x) => (float[A, B] y) <int64 n = {2}, bool yes = {1}> {
            y = Loop<body = b (int64 i, bool c, float[2, 3] s) => (bool d, float[3, 2] t) {
                d = Identity(c) t = Transpose<perm = [1, 0]>(s)
            }>(n, yes, x)
        }""",
        UnrollLoops(),
    )
    assert operators(model)["Loop"] == 1
    assert "cannot be typed" in notes(report)


def test_a_result_of_another_rank_than_the_body_declares_stays() -> None:
    """A run passes over the declaration, and stacks what the body computes."""
    model, report = optimise(
        """g (float[A, B] x) => (float[C, D, E] z) <int64 n = {3}, bool yes = {1}> {
            y, rows = Loop<body = b (int64 i, bool c, float[3] s) => (bool d, float[2, 3] t, float[] row) {
                d = Identity(c) t = Add(s, s) row = Mul(s, s)
            }>(n, yes, x)
            z = Identity(rows)
        }""",
        UnrollLoops(),
        feeds={"x": np.ones((2, 3), np.float32)},
    )
    assert operators(model)["Loop"] == 1
    assert "contradicts itself" in notes(report)
