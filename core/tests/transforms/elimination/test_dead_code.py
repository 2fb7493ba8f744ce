"""Nodes and constants that no output needs."""

from __future__ import annotations

import numpy as np

from core.tests.transforms.support import operators, optimise

X = np.array([1.0, -2.0], np.float32)


def test_unread_nodes_and_constants_go() -> None:
    """An unread chain is removed as a whole, with the constants that only it read."""
    model, report = optimise(
        """g (float[2] x) => (float[2] y) <float[1] w = {1}, float[1] v = {2}> {
            a = Mul(x, w) b = Neg(a) y = Add(x, v)
        }""",
        feeds={"x": X},
    )
    assert operators(model) == {"Add": 1}
    assert list(model.graph.initializers) == ["v"]
    assert report.changes == 3


def test_needed_nodes_stay() -> None:
    """Values that an output or a nested graph reads stay, and so do inputs."""
    model, report = optimise(
        """g (float[2] x, float[2] unused, bool c) => (float[2] y) {
            a = Relu(x)
            y = If(c) <then_branch = t () => (float[2] p) { p = Neg(a) },
                       else_branch = e () => (float[2] q) { q = Abs(a) }>
        }""",
        feeds={"x": X, "unused": X, "c": np.array(False)},
    )
    assert report.changes == 0
    assert [value.name for value in model.graph.inputs] == ["x", "unused", "c"]


def test_dead_branches_lose_their_captures() -> None:
    """Inside a branch dead nodes go first, then what only they read outside."""
    model, _ = optimise(
        """g (float[2] x, bool c) => (float[2] y) {
            a = Relu(x)
            y = If(c) <then_branch = t () => (float[2] p) { dead = Neg(a) p = Neg(x) },
                       else_branch = e () => (float[2] q) { q = Abs(x) }>
        }""",
        feeds={"x": X, "c": np.array(True)},
    )
    assert operators(model) == {"If": 1, "Neg": 1, "Abs": 1}


def test_overridable_initializers_stay() -> None:
    """Callers may name them, read or not."""
    model, _ = optimise("g (float[2] x, float[1] w) => (float[2] y) <float[1] w = {1}> { y = Neg(x) }")
    assert list(model.graph.initializers) == ["w"]
