"""Optional outputs without readers are left out."""

from __future__ import annotations

import numpy as np
import pytest

from core.tests.transforms.support import operators, optimise
from ort_py.transforms.elimination.unused_outputs import DropUnusedOutputs

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
