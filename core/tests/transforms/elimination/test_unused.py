"""Nodes, constants and outputs that nothing reads."""

from __future__ import annotations

import numpy as np
import pytest

from core.tests.transforms.support import operators, optimise
from ort_py.transforms.elimination.unused import DropUnusedOutputs

VECTOR = np.array([1.0, -2.0], np.float32)


def test_unread_nodes_and_constants_go() -> None:
    """An unread chain is removed as a whole, with the constants that only it read."""
    model, report = optimise(
        """g (float[2] x) => (float[2] y) <float[1] w = {1}, float[1] v = {2}> {
            a = Mul(x, w) b = Neg(a) y = Add(x, v)
        }""",
        feeds={"x": VECTOR},
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
        feeds={"x": VECTOR, "unused": VECTOR, "c": np.array(False)},
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
        feeds={"x": VECTOR, "c": np.array(True)},
    )
    assert operators(model) == {"If": 1, "Neg": 1, "Abs": 1}


def test_overridable_initializers_stay() -> None:
    """Callers may name them, read or not."""
    model, _ = optimise("g (float[2] x, float[1] w) => (float[2] y) <float[1] w = {1}> { y = Neg(x) }")
    assert list(model.graph.initializers) == ["w"]


X = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)


def test_unused_ones_are_left_out() -> None:
    model, _ = optimise(
        "g (float[1, 1, 4, 4] x) => (float[1, 1, 3, 3] y) { a, i = MaxPool<kernel_shape = [2, 2]>(x) y = Neg(a) }",
        DropUnusedOutputs(),
        feeds={"x": X},
    )
    assert len(model.graph.nodes[0].outputs) == 1


def test_positions_stay() -> None:
    """An unused output before a used one is left out in its place."""
    model, _ = optimise(
        """g (float[2, 3] x) => (float[2, 3] y, float[2, 1] d) <float[3] s = {1, 1, 1}> {
            a, m, d = LayerNormalization(x, s) y = Neg(a)
        }""",
        DropUnusedOutputs(),
        feeds={"x": X.reshape(2, 8)[:, :3]},
    )
    node = model.graph.nodes[0]
    assert [value is None for value in node.outputs] == [False, True, False]


@pytest.mark.parametrize(
    "body",
    [
        "a, i = MaxPool<kernel_shape = [2, 2]>(x) j = Cast<to = 1>(i) y = Add(a, j)",
        "a, b = Split<axis = 3, num_outputs = 2>(x) y = Neg(a)",
    ],
)
def test_used_and_required_ones_stay(body: str) -> None:
    model, report = optimise(f"g (float[1, 1, 4, 4] x) => (float[A, B, C, D] y) {{ {body} }}", DropUnusedOutputs())
    assert report.changes == 0
    assert len(model.graph.nodes[0].outputs) == 2


def test_nodes_nobody_needs_are_left_to_others() -> None:
    """A node without any read output is dead code, not this rule's business."""
    model, _ = optimise(
        "g (float[2, 3] x) => (float[2, 3] y) { y = Neg(x) a, b = Dropout(x) }",
        DropUnusedOutputs(),
        feeds={"x": np.ones((2, 3), np.float32)},
    )
    assert operators(model) == {"Neg": 1}
