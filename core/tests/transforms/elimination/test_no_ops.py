"""Nodes that return their input as it is."""

from __future__ import annotations

import numpy as np
import pytest

from core.tests.transforms.support import notes, operators, optimise
from ort_py.transforms.elimination.no_ops import EliminateDropout, EliminateIdentity, noop_rules

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_identity_between_nodes_goes() -> None:
    """Readers of an Identity read its input."""
    model, _ = optimise(
        "g (float[2, 3] x) => (float[2, 3] y) { a = Relu(x) b = Identity(a) y = Neg(b) }",
        EliminateIdentity(),
        feeds={"x": X},
    )
    assert [node.op_type for node in model.graph.nodes] == ["Relu", "Neg"]


def test_output_takes_over_its_name() -> None:
    """An Identity that only names an output goes; the node before it writes the output's name."""
    model, _ = optimise(
        "g (float[2, 3] x) => (float[2, 3] y) { a = Relu(x) y = Identity(a) }", EliminateIdentity(), feeds={"x": X}
    )
    (node,) = model.graph.nodes
    assert node.outputs == model.graph.outputs


@pytest.mark.parametrize(
    "text",
    [
        "g (float[2, 3] x) => (float[2, 3] y) { y = Identity(x) }",
        "g (float[2, 3] x) => (float[1] y) <float[1] w = {1}> { y = Identity(w) }",
        "g (float[2, 3] x) => (float[2, 3] y, float[2, 3] z) { z = Relu(x) y = Identity(z) }",
    ],
)
def test_identity_that_names_an_output_stays(text: str) -> None:
    """An output never becomes a second name of an input, a constant or another output."""
    model, report = optimise(text, EliminateIdentity())
    assert operators(model)["Identity"] == 1
    assert report.changes == 0


def test_identity_in_a_branch_goes() -> None:
    """Nested graphs are visited, also where they read values from outside."""
    model, _ = optimise(
        """g (float[2, 3] x, bool c) => (float[2, 3] y) {
            a = Identity(x)
            y = If(c) <then_branch = t () => (float[2, 3] p) { q = Identity(a) p = Neg(q) },
                       else_branch = e () => (float[2, 3] r) { r = Relu(a) }>
        }""",
        EliminateIdentity(),
        feeds={"x": X, "c": np.array(True)},
    )
    assert operators(model)["Identity"] == 0


def test_dropout_in_inference_goes() -> None:
    """Dropout without training mode returns its input."""
    model, _ = optimise(
        "g (float[2, 3] x) => (float[2, 3] y) { a = Dropout(x) y = Neg(a) }", EliminateDropout(), feeds={"x": X}
    )
    assert operators(model) == {"Neg": 1}


def test_dropout_with_a_mask_stays() -> None:
    """A mask that somebody reads has to be computed."""
    model, report = optimise(
        "g (float[2, 3] x) => (float[2, 3] y, bool[2, 3] m) { a, m = Dropout(x) y = Neg(a) }", EliminateDropout()
    )
    assert operators(model)["Dropout"] == 1
    assert "its mask is read" in notes(report)


def test_dropout_in_training_stays() -> None:
    """A training mode that is set, or only known at run time, keeps the node."""
    text = "g (float[2, 3] x, bool t) => (float[2, 3] y) <float r = {0.5}> { a = Dropout(x, r, t) y = Neg(a) }"
    model, report = optimise(text, EliminateDropout())
    assert operators(model)["Dropout"] == 1
    assert "training mode" in notes(report)


NOOPS = [
    "Cast<to = 1>(a)",
    "Concat<axis = 0>(a)",
    "Expand(a, shape)",
    "Flatten(a)",
    "Max(a)",
    "Mean(a)",
    "Pad(a, zeros)",
    "Reshape(a, shape)",
    "Slice(a, start, end)",
    "Slice(a, start, size, axis, step)",
    "Sum(a)",
    "Transpose<perm = [0, 1]>(a)",
]
CONSTANTS = (
    "int64[2] shape = {2, 3}, int64[4] zeros = {0, 0, 0, 0}, int64[1] start = {0}, "
    "int64[1] end = {9223372036854775807}, int64[1] size = {3}, int64[1] axis = {1}, int64[1] step = {1}, "
    "int64[1, 2] table = {2, 3}, int64[1, 1] origin = {0}, "
    "int64[2] turned = {3, 2}, int64[4] ones = {0, 1, 0, 0}, int64[1] short = {2}"
)


@pytest.mark.parametrize("call", NOOPS)
def test_noop_goes(call: str) -> None:
    """A node that returns its input for what it is given goes."""
    text = f"g (float[2, 3] x) => (float[2, 3] y) <{CONSTANTS}> {{ a = Relu(x) b = {call} y = Neg(b) }}"
    model, _ = optimise(text, *noop_rules(), feeds={"x": X})
    assert [node.op_type for node in model.graph.nodes] == ["Relu", "Neg"]


@pytest.mark.parametrize(
    "call",
    [
        "Cast<to = 11>(a)",
        "Concat<axis = 0>(a, a)",
        "Pad(a, ones)",
        "Reshape(a, turned)",
        "Slice(a, start, short, axis)",
        "Slice(a, start, size, axis, other)",
        "Transpose(a)",
    ],
)
def test_other_uses_of_the_operators_stay(call: str) -> None:
    """The same operators with other attributes or constants are left alone."""
    text = f"g (float[2, 3] x, int64[1] other) => (int64[N] y) <{CONSTANTS}> {{ a = Relu(x) b = {call} y = Shape(b) }}"
    model, report = optimise(text, *noop_rules())
    assert len(model.graph.nodes) == 3
    assert report.passes[0].changes == 0


@pytest.mark.parametrize(
    "call",
    ["Expand(a, table)", "Reshape(a, table)", "Slice(a, origin, end, axis)"],
)
def test_what_a_run_refuses_stays(call: str) -> None:
    """A list of sizes or positions with two axes, which inference reads as if it were flat."""
    text = f"""g (float[2, 3] x) => (float[2, 3] y) <{CONSTANTS}> {{
        a = Relu(x) b = {call} y = Neg(b)
    }}"""
    model, _ = optimise(text, *noop_rules())
    assert len(model.graph.nodes) == 3


def test_reshape_to_unknown_sizes_stays() -> None:
    """Equal ranks do not make equal shapes: sizes must be known, or called by one name."""
    text = "g (float[N, M] x, int64[2] s) => (float[A, B] y) { a = Relu(x) b = Reshape(a, s) y = Neg(b) }"
    model, _ = optimise(text, *noop_rules())
    assert operators(model)["Reshape"] == 1


def test_symbolic_sizes_count_as_equal() -> None:
    """A Reshape to the very shape of its input goes, though a size is only known by name."""
    text = """g (float[N, 3] x) => (float[N, 3] y) { a = Relu(x) s = Shape(a) b = Reshape(a, s) y = Neg(b) }"""
    model, _ = optimise(text, *noop_rules(), feeds={"x": X})
    assert operators(model) == {"Relu": 1, "Neg": 1}


@pytest.mark.parametrize(
    "call",
    ["Add(a, zero)", "Add(zero, a)", "Sub(a, zero)", "Mul(a, one)", "Mul(one, a)", "Div(a, one)", "Add(a, zeros)"],
)
def test_neutral_constants_go(call: str) -> None:
    """Adding nothing and multiplying with one, in any order where the operator allows it."""
    model, _ = optimise(
        f"""g (float[2, 3] x) => (float[2, 3] y) <float zero = {{0}}, float one = {{1}}, float[1, 1] zeros = {{0}}> {{
            a = Relu(x) b = {call} y = Neg(b)
        }}""",
        *noop_rules(),
        feeds={"x": X},
    )
    assert operators(model) == {"Relu": 1, "Neg": 1}


@pytest.mark.parametrize(
    "call",
    ["Sub(zero, a)", "Div(one, a)", "Add(a, one)", "Mul(a, zero)", "Add(a, three)", "Add(a, wide)", "Add(one, zero)"],
)
def test_other_constants_stay(call: str) -> None:
    """The other way round, other numbers, and what broadcasts the value to more than it was."""
    model, _ = optimise(
        f"""g (float[2, 3] x) => (float[A, B, C] y)
        <float zero = {{0}}, float one = {{1}}, float[3] three = {{0, 0, 1}}, float[1, 1, 1] wide = {{0}}> {{
            a = Relu(x) b = {call} c = Add(a, b) y = Abs(c)
        }}""",
        *noop_rules(),
    )
    assert len(model.graph.nodes) == 4
