"""Equal constants, and nodes that compute what an earlier node computes."""

from __future__ import annotations

import numpy as np

from core.tests.transforms.support import operators, optimise
from ort_py.transforms.elimination.duplicates import EliminateCommonSubexpressions, MergeDuplicateInitializers

MATRIX = np.ones((2, 2), np.float32)
WEIGHTS = "float[2, 2] w = {1, 2, 3, 4}, float[2, 2] v = {1, 2, 3, 4}"


def test_equal_constants_are_one() -> None:
    """All readers read the first; what computes the same can then be seen to."""
    model, _ = optimise(
        f"g (float[2, 2] x) => (float[2, 2] y) <{WEIGHTS}> {{ a = MatMul(x, w) b = MatMul(x, v) y = Add(a, b) }}",
        MergeDuplicateInitializers(),
        EliminateCommonSubexpressions(),
        feeds={"x": MATRIX},
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
        feeds={"x": MATRIX},
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


X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_equal_nodes_become_one() -> None:
    """Chains of equal nodes collapse in one visit, equal small constants counting as one."""
    model, _ = optimise(
        """g (float[2, 3] x) => (float[2, 3] y) <float v = {2}, float w = {2}> {
            a = Mul(x, v) b = Mul(x, w) c = Neg(a) d = Neg(b) y = Add(c, d)
        }""",
        EliminateCommonSubexpressions(),
        feeds={"x": X},
    )
    assert operators(model) == {"Mul": 1, "Neg": 1, "Add": 1}


def test_different_attributes_stay_apart() -> None:
    """Nodes that differ in an attribute, an input's order or the opset's meaning are not equal."""
    model, report = optimise(
        """g (float[2, 3] x) => (float[2, 3] y) {
            a = Softmax<axis = 0>(x) b = Softmax<axis = 1>(x) c = Sub(a, b) d = Sub(b, a) y = Mul(c, d)
        }""",
        EliminateCommonSubexpressions(),
        feeds={"x": X},
    )
    assert report.changes == 0
    assert len(model.graph.nodes) == 5


def test_random_nodes_stay_apart() -> None:
    """Two random draws are two draws, though their nodes look the same."""
    model, _ = optimise(
        """g (float[2, 3] x) => (float[2, 3] y) {
            a = RandomNormalLike(x) b = RandomNormalLike(x) c = Add(a, b) y = Add(c, x)
        }""",
        EliminateCommonSubexpressions(),
    )
    assert operators(model)["RandomNormalLike"] == 2


def test_two_outputs_stay_two_nodes() -> None:
    """Two outputs of the graph need two values anyway."""
    model, report = optimise(
        "g (float[2, 3] x) => (float[2, 3] y, float[2, 3] z) { y = Neg(x) z = Neg(x) }",
        EliminateCommonSubexpressions(),
        feeds={"x": X},
    )
    assert report.changes == 0
    assert operators(model) == {"Neg": 2}


def test_an_inner_value_becomes_the_output() -> None:
    """Where only the later node is an output, the earlier one takes its name."""
    model, _ = optimise(
        "g (float[2, 3] x) => (float[2, 3] y, float[2, 3] z) { a = Neg(x) z = Abs(a) y = Neg(x) }",
        EliminateCommonSubexpressions(),
        feeds={"x": X},
    )
    assert operators(model) == {"Neg": 1, "Abs": 1}
