"""Transposes behind operators, where fewer are left; and products that read transposed matrices."""

from __future__ import annotations

import numpy as np
import pytest

from core.tests.transforms.support import notes, operators, optimise
from ort_py.transforms.elimination.unused import EliminateDeadCode
from ort_py.transforms.movement.transpose_pushing import PushTransposes
from ort_py.transforms.movement.transposed_products import FoldTransposedOperands
from ort_py.transforms.movement.transposes import MergeTransposes

X = np.random.default_rng(10).standard_normal((2, 3, 4)).astype(np.float32)
FEEDS = {"x": X, "z": np.ascontiguousarray(X.transpose(0, 2, 1)), "m": X[0]}
GO = "Transpose<perm = [0, 2, 1]>"
TURN = "Transpose<perm = [1, 2, 0]>"
CONSTANTS = """float two = {2}, float[3] v = {1, 2, 3}, float[4, 1] c = {1, 2, 3, 4}, int64[1] i0 = {0},
    int64[1] i1 = {1}, int64[1] i2 = {2}, int64[2] both = {1, 2},
    int64[6] pads = {0, 1, 0, 0, 0, 2}, int64 axis = {1}"""


def run(body: str, output: str) -> tuple[dict[str, int], str]:
    """Optimise a body; give operators and notes."""
    model, report = optimise(
        f"g (float[2, 3, 4] x, float[2, 4, 3] z, float[3, 4] m) => (float{output} y) <{CONSTANTS}> {{ {body} }}",
        PushTransposes(),
        MergeTransposes(),
        FoldTransposedOperands(),
        EliminateDeadCode(),
        feeds=FEEDS,
    )
    return dict(operators(model)), notes(report)


@pytest.mark.parametrize(
    "between",
    [
        "Relu(t)",
        "Clip(t, two)",
        "Mul(t, two)",
        "Add(v, t)",
        "Sub(t, c)",
        "Pow(t, two)",
        "Softmax(t)",
        "Softmax<axis = 1>(t)",
        "ReduceMax(t, i1)",
        "ReduceMean(t, both)",
        "Cast<to = 1>(t)",
        "Pad(t, pads)",
        "Slice(t, i0, i2, i1)",
        "Slice(t, i0, i2)",
        "Concat<axis = 1>(t, t)",
        "Where(b, t, t)",
    ],
)
@pytest.mark.parametrize(("first", "second"), [(GO, GO), (TURN, "Transpose<perm = [2, 0, 1]>")])
def test_a_pair_around_an_operator_is_gone(between: str, first: str, second: str) -> None:
    """The operator between them computes on the input directly."""
    if first == TURN and between in ("Add(v, t)", "Sub(t, c)"):
        between = {"Add(v, t)": "Add(m0, t)", "Sub(t, c)": "Sub(t, m0)"}[between].replace("m0", "two")
    front = "b = Constant<value = bool[1] {1}>() " if "b," in between else ""
    found, _ = run(f"{front}t = {first}(x) r = {between} y = {second}(r)", "[P, Q, R]")
    assert "Transpose" not in found


def test_pairs_around_parts() -> None:
    """Split makes several values, each transposed back."""
    found, _ = run(
        f"t = {GO}(x) a, b = Split<axis = 1, num_outputs = 2>(t) p = {GO}(a) q = {GO}(b) y = Mul(p, q)", "[2, 3, 2]"
    )
    assert found == {"Split": 1, "Mul": 1}


def test_transposes_of_both_operands_are_one() -> None:
    """One behind the operator instead of two in front."""
    found, _ = run(f"a = {GO}(x) e = Exp(x) b = {GO}(e) y = Add(a, b)", "[2, 4, 3]")
    assert found == {"Exp": 1, "Add": 1, "Transpose": 1}


def test_a_pair_around_a_residual_addition() -> None:
    """The other operand is transposed instead of both ends."""
    found, _ = run(f"t = {GO}(x) r = Relu(t) s = Add(r, z) y = {GO}(s)", "[2, 3, 4]")
    assert found == {"Relu": 1, "Add": 1, "Transpose": 1}


def test_a_reduction_may_leave_nothing_to_transpose() -> None:
    """For [b, 4, 3], without the axis of 4, the order is that of the input."""
    found, _ = run(f"t = {GO}(x) y = ReduceSum<keepdims = 0>(t, i1)", "[2, 3]")
    assert found == {"ReduceSum": 1}


def test_squeeze_and_unsqueeze() -> None:
    """The axes they add and remove are those of the input then."""
    found, _ = run(f"t = {GO}(x) u = Unsqueeze(t, i1) e = Exp(u) s = Squeeze(e, i1) y = {GO}(s)", "[2, 3, 4]")
    assert found == {"Unsqueeze": 1, "Exp": 1, "Squeeze": 1}


def test_a_region_may_read_its_own_results_through_a_transpose() -> None:
    """Both the result and its transposed form are available, in the right order."""
    model, _ = optimise(
        """g (float[3, 3, 3] x) => (float[3, 3, 3] y, float[3, 3, 3] w) {
            t = Transpose<perm = [2, 1, 0]>(x) r = Relu(t) b = Transpose<perm = [2, 1, 0]>(r) m = Mul(b, r) y = Exp(m)
            n = Neg(r) w = Transpose<perm = [2, 1, 0]>(n)
        }""",
        PushTransposes(),
        feeds={"x": np.random.default_rng(14).standard_normal((3, 3, 3)).astype(np.float32)},
    )
    assert operators(model)["Transpose"] <= 2


def test_what_is_returned_keeps_its_name() -> None:
    """A graph output in the region is transposed at the border, if that still pays."""
    model, _ = optimise(
        f"g (float[2, 3, 4] x) => (float[2, 4, 3] r, float[2, 3, 4] y, float[2, 3, 4] w) {{"
        f" t = {GO}(x) r = Relu(t) e = Exp(r) y = {GO}(e) n = Neg(r) w = {GO}(n) }}",
        PushTransposes(),
        feeds={"x": X},
    )
    assert operators(model)["Transpose"] == 1


@pytest.mark.parametrize(
    ("body", "output"),
    [
        (f"t = {GO}(x) y = Relu(t)", "[2, 4, 3]"),
        (f"t = {GO}(x) y = Add(t, z)", "[2, 4, 3]"),
        (f"t = {GO}(x) a, b = Split<axis = 1, num_outputs = 2>(t) y = Add(a, b)", "[2, 2, 3]"),
    ],
)
def test_as_many_elsewhere_stay(body: str, output: str) -> None:
    found, said = run(body, output)
    assert found["Transpose"] >= 1
    assert "as many Transposes would be needed" in said


def test_an_operator_of_positions_stays() -> None:
    """The axis of a cumulated sum is a value, so Transposes are not pushed through it."""
    found, _ = run(f"t = {GO}(x) r = CumSum(t, axis) y = {GO}(r)", "[2, 3, 4]")
    assert found["Transpose"] == 2


@pytest.mark.parametrize(
    ("body", "output", "flags"),
    [
        ("t = Transpose(m) y = MatMul(t, m)", "[4, 4]", {"transA": 1}),
        ("t = Transpose<perm = [1, 0]>(m) y = MatMul(m, t)", "[3, 3]", {"transB": 1}),
        ("t = Transpose(m) y = Gemm<transA = 1, alpha = 2.0>(t, m2)", "[3, 2]", {"transA": 0, "alpha": 2.0}),
        ("t = Transpose(m) y = Gemm<transA = -1>(t, m2)", "[3, 2]", {"transA": 0}),
    ],
)
def test_a_product_reads_a_transposed_matrix(body: str, output: str, flags: dict[str, float]) -> None:
    model, _ = optimise(
        f"g (float[3, 4] m, float[4, 2] m2) => (float{output} y) {{ {body} }}",
        FoldTransposedOperands(),
        feeds={"m": FEEDS["m"], "m2": X[0, :2].T.copy()},
    )
    (node,) = model.graph.nodes
    assert node.op_type == "Gemm"
    assert node.attributes == flags


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "g (float[3, 4] m) => (float[4, 4] y) { t = Transpose(m) p = MatMul(t, m) k = ReduceMax(t) y = Add(p, k) }",
            "too",
        ),
        ("g (float[4, 4] m) => (float[4, 4] y) { t = Transpose(m) y = Gemm(t, m, t) }", "too"),
        ("g (int32[3, 4] m) => (int32[4, 4] y) { t = Transpose(m) y = MatMul(t, m) }", "Gemm has no kernel"),
        ("g (float[3, 4] m, float[2, 3, 4] x) => (float[P, Q, R] y) { t = Transpose(m) y = MatMul(x, t) }", ""),
    ],
)
def test_products_that_stay(text: str, reason: str) -> None:
    """Matrices read elsewhere, of other types, or stacked."""
    model, report = optimise(text, FoldTransposedOperands())
    assert operators(model)["Transpose"] == 1
    assert reason in notes(report)


def test_products_of_older_opsets_stay() -> None:
    """Gemm needed something to add then."""
    text = "g (float[3, 4] m) => (float[4, 4] y) { t = Transpose(m) y = MatMul(t, m) }"
    model, report = optimise(text, FoldTransposedOperands(), opset=9)
    assert operators(model)["Transpose"] == 1
    assert "needs something to add" in notes(report)
