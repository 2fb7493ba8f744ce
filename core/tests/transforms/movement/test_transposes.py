"""Transposes of transposes become one, or none."""

from __future__ import annotations

import numpy as np

from core.tests.transforms.support import notes, operators, optimise
from ort_py.transforms.elimination.no_ops import noop_rules
from ort_py.transforms.movement.transposes import MergeTransposes

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def test_permutations_are_put_together() -> None:
    """Three in a row are one."""
    model, _ = optimise(
        """g (float[2, 3, 4] x) => (float[4, 2, 3] y) {
            a = Transpose<perm = [1, 2, 0]>(x) b = Transpose<perm = [1, 0, 2]>(a) y = Transpose<perm = [0, 2, 1]>(b)
        }""",
        MergeTransposes(),
        feeds={"x": X},
    )
    (node,) = model.graph.nodes
    assert node.attributes["perm"] == (2, 0, 1)


def test_there_and_back_is_nothing() -> None:
    model, _ = optimise(
        "g (float[2, 3, 4] x) => (float[2, 3, 4] y) { a = Transpose(x) b = Transpose(a) y = Neg(b) }",
        MergeTransposes(),
        *noop_rules(),
        feeds={"x": X},
    )
    assert operators(model) == {"Neg": 1}


def test_the_first_one_stays_where_it_is_read() -> None:
    """The second one reads the source itself."""
    model, _ = optimise(
        """g (float[2, 3, 4] x) => (float[2, 3, 4] y, float[3, 4, 2] z) {
            z = Transpose<perm = [1, 2, 0]>(x) y = Transpose<perm = [2, 0, 1]>(z)
        }""",
        MergeTransposes(),
        feeds={"x": X},
    )
    assert operators(model) == {"Transpose": 2}
    assert all(node.inputs == model.graph.inputs for node in model.graph.nodes)


def test_unknown_ranks_stay() -> None:
    """The default permutation of an unknown rank could be any."""
    model, report = optimise(
        """g (float[2, 3] x, int64[N] s) => (float[] y) {
            r = Reshape(x, s) a = Transpose(r) b = Transpose(a) y = ReduceSum<keepdims = 0>(b)
        }""",
        MergeTransposes(),
    )
    assert operators(model)["Transpose"] == 2
    assert "the rank is unknown" in notes(report)
