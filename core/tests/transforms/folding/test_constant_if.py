"""If with a constant condition."""

from __future__ import annotations

import numpy as np
import pytest

from core.tests.transforms.support import operators, optimise
from ort_py.dtypes import TensorType
from ort_py.transforms.folding.constant_folding import ConstantFolding
from ort_py.transforms.folding.constant_if import ConstantIf

X = np.array([1.0, -2.0], np.float32)
BRANCHES = """If(c) <then_branch = t () => (float[2] p) <float[1] w = {3}> { k = Mul(a, w) p = Neg(k) },
                      else_branch = e () => (float[2] q) { k = Abs(a) q = Relu(k) }>"""


@pytest.mark.parametrize(("condition", "kept"), [(1, {"Exp", "Mul", "Neg"}), (0, {"Exp", "Abs", "Relu"})])
def test_the_branch_taken_stands_in_place(condition: int, kept: set[str]) -> None:
    """Nodes and constants of one branch move out, the other branch goes."""
    text = f"g (float[2] x) => (float[2] y) <bool c = {{{condition}}}> {{ a = Exp(x) y = {BRANCHES} }}"
    model, _ = optimise(text, ConstantIf(), feeds={"x": X})
    assert set(operators(model)) == kept


def test_an_unknown_condition_keeps_the_node() -> None:
    """An input decides at run time."""
    text = f"g (float[2] x, bool c) => (float[2] y) {{ a = Exp(x) y = {BRANCHES} }}"
    model, report = optimise(text, ConstantIf(), feeds={"x": X, "c": np.array(True)})
    assert operators(model)["If"] == 1
    assert report.changes == 0


def test_an_overridable_condition_keeps_the_node() -> None:
    """A default that callers may replace is not a constant."""
    text = f"g (float[2] x, bool c) => (float[2] y) <bool c = {{1}}> {{ a = Exp(x) y = {BRANCHES} }}"
    model, _ = optimise(text, ConstantIf())
    assert operators(model)["If"] == 1


def test_branches_that_return_outer_values() -> None:
    """A branch that returns what it captured, twice, gives two outputs that are copies of it."""
    text = """g (float[2] x) => (float[2] y, float[2] z) <bool c = {1}> {
        y, z = If(c) <then_branch = t () => (float[2] p, float[2] q) { p = Identity(x) q = Identity(x) },
                      else_branch = e () => (float[2] r, float[2] s) { r = Neg(x) s = Neg(x) }>
    }"""
    model, _ = optimise(text, ConstantIf(), feeds={"x": X})
    assert operators(model) == {"Identity": 2}


def test_nested_ifs_are_inlined_inside_out() -> None:
    """An If in the branch of an If moves with it, and goes in its turn."""
    text = """g (float[2] x) => (float[2] y) <bool c = {1}> {
        y = If(c) <then_branch = t () => (float[2] p) {
                      a = Neg(x)
                      p = If(c) <then_branch = tt () => (float[2] pp) { pp = Relu(a) },
                                 else_branch = te () => (float[2] pe) { pe = Abs(a) }>
                   },
                   else_branch = e () => (float[2] q) { q = Exp(x) }>
    }"""
    model, _ = optimise(text, ConstantIf(), feeds={"x": X})
    assert operators(model) == {"Neg": 1, "Relu": 1}


def test_what_reads_the_result_is_typed_anew() -> None:
    """Branches of different ranks say nothing of the result; the one that stays says everything, however far down."""
    text = """g (float[N, 1, 4] x) => (float[P, Q] y) <bool c = {1}, int64[1] axis = {1}> {
        a = If(c) <then_branch = t () => (float[N, 4] p) { p = Squeeze(x, axis) },
                   else_branch = e () => (float[N, 1, 4] q) { q = Identity(x) }>
        b = Exp(a)
        d = Neg(b)
        y = Softmax(d)
    }"""
    model, _ = optimise(text, ConstantIf(), feeds={"x": np.ones((2, 1, 4), np.float32)})
    types = [node.outputs[0].type for node in model.graph.nodes if node.outputs[0] is not None]
    assert [len(known.shape or ()) for known in types if isinstance(known, TensorType)] == [2, 2, 2, 2]


def test_nodes_of_a_branch_fold_where_graph_outputs_have_folded_already() -> None:
    """The copy that gives a folded graph output its name stands behind the If, and the branch's nodes before it."""
    text = """g () => (float[2] v, float[2] y) <float[2] k = {1, -2}, bool c = {1}> {
        v = Relu(k)
        y = If(c) <then_branch = t () => (float[2] p) { a = Abs(v) p = Add(a, k) },
                   else_branch = e () => (float[2] q) { q = Exp(v) }>
    }"""
    model, _ = optimise(text, ConstantIf(), ConstantFolding(), feeds={})
    assert operators(model) == {"Identity": 2}
