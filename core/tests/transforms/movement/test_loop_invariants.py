"""Loop invariants are computed in front of the loop."""

from __future__ import annotations

import numpy as np
import pytest

from core.tests.transforms.support import notes, operators, optimise
from ort_py.contracts import Level
from ort_py.graph.ir import Model, walk
from ort_py.transforms.builtin import builtin_transforms
from ort_py.transforms.folding.loop_constants import ReadLoopConstants
from ort_py.transforms.movement.loop_invariants import MoveLoopInvariants
from ort_py.transforms.movement.reshapes import MergeReshapes

X = np.random.default_rng(23).standard_normal((3, 3)).astype(np.float32)
HEAD = "b (int64 i, bool c, float[3, 3] s) => (bool c, float[3, 3] t)"


def loop(body: str, constants: str = "", arguments: str = "n, yes, x") -> str:
    """A loop over x with a body that computes t of s and of outer values."""
    return f"y = Loop({arguments}) <body = {HEAD} <{constants}> {{ {body} }}>".replace("<> ", "")


def run(nodes: str, *, count: int = 2, size: str = "3", constants: str = "bool yes = {1}") -> tuple[Model, str]:
    """Optimise nodes that compute y of x and q, with a trip count n; compare results, and give the notes."""
    model, report = optimise(
        f"g (float[3, 3] x, float[{size}, 3] q, int64 n, bool p) => (float[3, 3] y) <{constants}> {{ {nodes} }}",
        MoveLoopInvariants(),
        feeds={"x": X, "q": X[::-1].copy(), "n": np.array(count), "p": np.array(True)},
    )
    return model, notes(report)


def inside(model: Model) -> list[str]:
    """Operators in nested graphs."""
    return sorted(node.op_type for graph in walk(model.graph) if graph.owner is not None for node in graph.nodes)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_what_reads_outer_values_only_moves(count: int) -> None:
    """With the constants it reads, and what reads nothing but its result; names stay."""
    model, _ = run(
        loop("a = MatMul(x, q) m = Mul(a, two) v = Tanh(m) t = Add(s, v)", "float[1] two = {2}"), count=count
    )
    assert [node.op_type for node in model.graph.nodes] == ["MatMul", "Mul", "Tanh", "Loop"]
    assert inside(model) == ["Add"]
    assert "two" in model.graph.initializers
    assert model.graph.nodes[2].outputs[0] is not None
    assert model.graph.nodes[2].outputs[0].name == "v"


def test_what_reads_an_input_of_the_body_stays() -> None:
    """The number of the iteration, what is carried, and what is made of them."""
    model, _ = run(loop("f = Cast<to = 1>(i) a = Add(f, q) b = Neg(s) d = Mul(a, b) t = Mul(d, x)"))
    assert operators(model) == {"Loop": 1, "Cast": 1, "Add": 1, "Neg": 1, "Mul": 2}
    assert [node.op_type for node in model.graph.nodes] == ["Loop"]


@pytest.mark.parametrize("count", [0, 2])
def test_it_leaves_nested_loops_as_far_as_it_can(count: int) -> None:
    """Out of both where it reads the outermost graph, out of one where it reads what the outer loop carries."""
    inner = "Loop(n, yes, s) <body = b2 (int64 j, bool e, float[3, 3] u) => (bool e, float[3, 3] w) {"
    model, _ = run(loop(f"t = {inner} a = MatMul(x, q) b = Neg(s) d = Add(u, b) w = Add(a, d) }}>"), count=count)
    outer = next(node for node in model.graph.nodes if node.op_type == "Loop").subgraphs[0]
    assert [node.op_type for node in model.graph.nodes] == ["MatMul", "Loop"]
    assert [node.op_type for node in outer.nodes] == ["Neg", "Loop"]


@pytest.mark.parametrize("count", [1, 3])
def test_a_body_returns_what_has_moved(count: int) -> None:
    """The values are carried values, which the next iteration must not write to, and rows of a result."""
    model, _ = optimise(
        """g (float[3, 3] x, int64 n) => (float[3, 3] y, float[3, 3] z, float[R, 3, 3] rows) <bool yes = {1}> {
            y, z, rows = Loop(n, yes, x, x) <
                body = b (int64 i, bool c, float[3, 3] s, float[3, 3] k) =>
                    (bool c, float[3, 3] t, float[3, 3] v, float[3, 3] v) {
                v = MatMul(x, x) h = Mul(k, s) t = Tanh(h)
            }>
        }""",
        MoveLoopInvariants(),
        feeds={"x": X, "n": np.array(count)},
    )
    assert [node.op_type for node in model.graph.nodes] == ["MatMul", "Loop"]


def test_a_scan_is_a_loop() -> None:
    """Its body is computed for each row."""
    model, _ = optimise(
        """g (float[3, 3] x, float[3] q) => (float[3] y, float[3, 3] rows) {
            y, rows = Scan(q, x) <num_scan_inputs = 1, body = b (float[3] s, float[3] r) => (float[3] t, float[3] o) {
                e = Exp(q) d = Mul(e, q) t = Add(s, d) o = Mul(r, d)
            }>
        }""",
        MoveLoopInvariants(),
        feeds={"x": X, "q": X[0]},
    )
    assert [node.op_type for node in model.graph.nodes] == ["Exp", "Mul", "Scan"]


def test_a_branch_inside_keeps_its_nodes() -> None:
    """Whether it is taken is not known before the iteration."""
    branch = "() => (float[3, 3] {0}) {{ {0} = MatMul(x, q) }}"
    branches = f"then_branch = d {branch.format('d1')}, else_branch = e {branch.format('e1')}"
    model, report = run(loop(f"v = If(p) <{branches}> t = Add(s, v)"))
    assert inside(model) == ["Add", "If", "MatMul", "MatMul"]
    assert "If is not among the operators that move" in report


@pytest.mark.parametrize("never", ["Loop(none, yes, x)", "Loop(n, no, x)", "Loop(none, , x)"])
def test_a_loop_that_never_runs_computes_nothing(never: str) -> None:
    text = loop("a = MatMul(x, x) t = Add(s, a)").replace("Loop(n, yes, x)", never)
    model, _ = run(text, constants="bool yes = {1}, int64 none = {0}, bool no = {0}")
    assert [node.op_type for node in model.graph.nodes] == ["Loop"]


@pytest.mark.parametrize(
    ("arguments", "moves"),
    [("n, yes", False), ("three, p", False), ("three, yes", True), ("three, ", True)],
)
def test_shapes_that_may_not_fit_move_where_the_loop_runs(arguments: str, moves: bool) -> None:
    """A loop that may run zero times must not fail for them."""
    text = loop("a = MatMul(q, q) t = Add(s, a)", arguments=f"{arguments}, x")
    model, report = run(text, size="N", constants="int64 three = {3}, bool yes = {1}")
    assert ([node.op_type for node in model.graph.nodes] == ["MatMul", "Loop"]) == moves
    assert ("'a' stays in 'y': its shapes are not known to fit" in report) == (not moves)


def test_zero_iterations_hide_what_would_fail() -> None:
    """A model that runs because its loop does not goes on running."""
    model, _ = optimise(
        """g (float[A] x, float[B] q, int64 n) => (float[C] y) <bool yes = {1}> {
            y = Loop(n, yes, x) <body = b (int64 i, bool c, float[D] s) => (bool c, float[D] t) {
                a = Add(x, q) t = Add(s, a)
            }>
        }""",
        MoveLoopInvariants(),
        feeds={"x": X[0], "q": X[0, :2], "n": np.array(0)},
    )
    assert [node.op_type for node in model.graph.nodes] == ["Loop"]


def test_what_is_carried_through_reshapes_does_not_change() -> None:
    """Exporters add an axis and take it away again: other rules see that nothing is left, this one what follows."""
    model, _ = optimise(
        """g (float[N, 3] x, float[3, 4] q, int64 n) => (float[N, 4] y) <bool yes = {1}, int64[1] zero = {0}> {
            y0 = MatMul(x, q) y, z = Loop(n, yes, y0, x) <
                body = b (int64 i, bool c, float[N, 4] s, float[N, 3] k) => (bool c, float[N, 4] t, float[N, 3] l) {
                e = MatMul(k, q) t = Add(s, e) u = Unsqueeze(k, zero) l = Squeeze(u, zero)
            }>
        }""",
        MergeReshapes(),
        ReadLoopConstants(),
        MoveLoopInvariants(),
        feeds={"x": X, "q": np.ones((3, 4), np.float32), "n": np.array(2)},
    )
    assert inside(model) == ["Add", "Identity"]


def test_it_runs_behind_the_rules_that_look_at_pairs() -> None:
    """It belongs to the level of the fusions and runs last, so that they see an unchanged body."""
    last = builtin_transforms()[-1]
    assert isinstance(last, MoveLoopInvariants)
    assert last.level == Level.EXTENDED


def test_the_report_counts_nodes() -> None:
    """Each that has moved is a change; the number of nodes stays."""
    text = loop("a = MatMul(x, x) v = Tanh(a) t = Add(s, v)")
    _, report = optimise(
        f"g (float[3, 3] x, int64 n) => (float[3, 3] y) <bool yes = {{1}}> {{ {text} }}", MoveLoopInvariants()
    )
    done = next(one for one in report.passes if one.name == "LoopInvariants")
    assert (done.changes, done.nodes_before, done.nodes_after) == (2, 4, 4)
