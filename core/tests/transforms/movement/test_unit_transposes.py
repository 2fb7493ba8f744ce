"""Transposes of axes with one element around Reshape and Flatten."""

from __future__ import annotations

import numpy as np
import pytest

from core.tests.transforms.support import notes, operators, optimise
from ort_py.transforms.movement.unit_transposes import MergeUnitTransposes

_X = np.arange(12, dtype=np.float32)


@pytest.mark.parametrize(
    ("text", "shape", "left"),
    [
        (
            "g (float[2, 1, 1, 6] x) => (float[2, 6] y) { t = Transpose<perm = [0, 3, 1, 2]>(x) y = Flatten(t) }",
            (2, 1, 1, 6),
            {"Flatten": 1},
        ),
        (
            "g (float[N, 1, 1, 6] x) => (float[N, 6] y) <int64[2] s = {0, 6}> "
            "{ t = Transpose<perm = [0, 3, 1, 2]>(x) y = Reshape(t, s) }",
            (2, 1, 1, 6),
            {"Reshape": 1},
        ),
        (
            "g (float[2, 1, 1, 6] x) => (float[2, 6, 1] y) <int64[3] s = {0, 0, -1}> "
            "{ t = Transpose<perm = [0, 3, 1, 2]>(x) y = Reshape(t, s) }",
            (2, 1, 1, 6),
            {"Reshape": 1},
        ),
        (
            "g (float[N, 6] x) => (float[N, 1, 1, 6] y) <int64[4] s = {-1, 6, 1, 1}> "
            "{ r = Reshape(x, s) y = Transpose<perm = [0, 2, 3, 1]>(r) }",
            (2, 6),
            {"Reshape": 1},
        ),
    ],
)
def test_one_reshape_is_left(text: str, shape: tuple[int, ...], left: dict[str, int]) -> None:
    """Before and behind, with sizes that are copied, and with one that is not known."""
    model, _ = optimise(text, MergeUnitTransposes(), feeds={"x": _X.reshape(shape)})
    assert operators(model) == left


@pytest.mark.parametrize(
    ("text", "shape", "reason"),
    [
        (
            "g (float[2, 1, 2, 3] x) => (float[2, 6] y) { t = Transpose<perm = [0, 3, 1, 2]>(x) y = Flatten(t) }",
            (2, 1, 2, 3),
            "",
        ),
        (
            "g (float[2, 1, 6] x) => (float[12, 1] y) { t = Transpose<perm = [0, 2, 1]>(x) y = Flatten<axis = 2>(t) }",
            (2, 1, 6),
            "",
        ),
        (
            "g (float[N, 1, M] x) => (float[N, M] y) <int64[2] s = {0, 0}> "
            "{ t = Transpose<perm = [0, 2, 1]>(x) y = Reshape(t, s) }",
            (2, 1, 6),
            "it copies a size that is not known from an axis that is moved",
        ),
        (
            "g (float[N, M] x) => (float[N, 1, M] y) <int64[3] s = {0, 0, 1}> "
            "{ r = Reshape(x, s) y = Transpose<perm = [0, 2, 1]>(r) }",
            (2, 6),
            "more than one size is not known, or one is 0",
        ),
    ],
)
def test_near_misses_stay(text: str, shape: tuple[int, ...], reason: str) -> None:
    """Elements that move, a split between moved axes, sizes that are not known."""
    model, report = optimise(text, MergeUnitTransposes(), feeds={"x": _X.reshape(shape)})
    assert operators(model)["Transpose"] == 1
    assert reason in notes(report)


def test_a_transpose_that_others_read_stays_beside() -> None:
    """The Reshape reads past it; who else reads it goes on."""
    text = """g (float[2, 1, 6] x) => (float[12] y, float[2, 6, 1] z) <int64[1] s = {-1}> {
        t = Transpose<perm = [0, 2, 1]>(x) y = Reshape(t, s) z = Neg(t)
    }"""
    model, _ = optimise(text, MergeUnitTransposes(), feeds={"x": _X.reshape(2, 1, 6)})
    reshape = next(node for node in model.graph.nodes if node.op_type == "Reshape")
    assert reshape.inputs[0] is model.graph.inputs[0]
