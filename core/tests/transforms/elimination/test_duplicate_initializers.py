"""Constants of equal content become one."""

from __future__ import annotations

import numpy as np

from core.tests.transforms.support import optimise
from ort_py.transforms.elimination.common_subexpressions import EliminateCommonSubexpressions
from ort_py.transforms.elimination.duplicate_initializers import MergeDuplicateInitializers

X = np.ones((2, 2), np.float32)
WEIGHTS = "float[2, 2] w = {1, 2, 3, 4}, float[2, 2] v = {1, 2, 3, 4}"


def test_equal_constants_are_one() -> None:
    """All readers read the first; what computes the same can then be seen to."""
    model, _ = optimise(
        f"g (float[2, 2] x) => (float[2, 2] y) <{WEIGHTS}> {{ a = MatMul(x, w) b = MatMul(x, v) y = Add(a, b) }}",
        MergeDuplicateInitializers(),
        EliminateCommonSubexpressions(),
        feeds={"x": X},
    )
    assert list(model.graph.initializers) == ["w"]
    assert len(model.graph.nodes) == 2


def test_other_shapes_types_and_contents_stay() -> None:
    """Equal bytes are not equal tensors."""
    model, report = optimise(
        """g (float[2, 2] x) => (float[2, 2] y)
        <float[2, 2] w = {0, 0, 0, 0}, float[4, 1] v = {0, 0, 0, 0}, int32[2, 2] u = {0, 0, 0, 0}> {
            a = MatMul(x, w) s = Shape(v) c = Cast<to = 1>(u) t = Add(a, c) r = ReduceMax<keepdims = 0>(s)
            f = Cast<to = 1>(r) y = Mul(t, f)
        }""",
        MergeDuplicateInitializers(),
        feeds={"x": X},
    )
    assert len(model.graph.initializers) == 3
    assert report.changes == 0


def test_names_that_are_promised_stay() -> None:
    """A constant that the graph returns keeps its name, one that callers may override its readers."""
    text = f"""<ir_version: 10, opset_import: ["" : 21]>
    g (float[2, 2] x, float[2, 2] v) => (float[2, 2] y, float[2, 2] u)
    <{WEIGHTS}, float[2, 2] u = {{1, 2, 3, 4}}> {{ a = MatMul(x, w) b = MatMul(x, v) y = Add(a, b) }}"""
    model, report = optimise(text, MergeDuplicateInitializers())
    assert set(model.graph.initializers) == {"w", "v", "u"}
    assert report.changes == 0
