"""Values that a Loop carries without changing them."""

from __future__ import annotations

import numpy as np
import pytest

from core.tests.transforms.support import operators, optimise
from ort_py.graph.ir import Graph, Model, walk
from ort_py.transforms.folding.loop_constants import ReadLoopConstants

X = np.random.default_rng(17).standard_normal((1, 3)).astype(np.float32)
BODY = """body = b (int64 i, bool c, float[1, 3] s, w, u) => (bool c, float[1, 3] t, w, float[3] v, float[1, 3] row) {
    m = MatMul(s, w) t = Add(m, u) v = Neg(u) row = Relu(t)
}"""
WEIGHT = "float[3, 3] k = {1, 2, 3, 4, 5, 6, 7, 8, 9}, float[3] o = {1, 1, 1}, bool yes = {1}"


def run(loop: str, outputs: str = "float[1, 3] y, float[R, 1, 3] rows", count: int = 2) -> Model:
    """Optimise a loop over x that runs `count` times; results are compared."""
    model, _ = optimise(
        f"g (float[1, 3] x, int64 n) => ({outputs}) <{WEIGHT}> {{ {loop} }}",
        ReadLoopConstants(),
        feeds={"x": X, "n": np.array(count)},
    )
    return model


def body_of(model: Model) -> Graph:
    """The body of the one loop."""
    return next(graph for graph in walk(model.graph) if graph.owner is not None)


@pytest.mark.parametrize("count", [1, 3])
def test_a_body_reads_a_weight_where_it_lies(count: int) -> None:
    """However often it runs; and the product's operand has a type, which it had not."""
    model = run(f"y, w, v, rows = Loop<{BODY}>(n, yes, x, k, o)", count=count)
    (product,) = [node for node in body_of(model).nodes if node.op_type == "MatMul"]
    weight = product.inputs[1]
    assert weight is not None
    assert weight.name == "k"
    assert weight.constant
    assert weight.graph is model.graph
    assert operators(model) == {"Loop": 1, "MatMul": 1, "Add": 1, "Neg": 1, "Relu": 1}, "handing it on takes no step"


def test_what_changes_is_carried() -> None:
    """The sum and the offset are new in each iteration."""
    model = run(f"y, w, v, rows = Loop<{BODY}>(n, yes, x, k, o)")
    (total,) = [node for node in body_of(model).nodes if node.op_type == "Add"]
    assert total.inputs[1] in body_of(model).inputs


def test_a_reader_of_the_result_reads_what_went_in() -> None:
    """It need not wait for the loop."""
    model = run(
        f"y, w, v, rows = Loop<{BODY}>(n, yes, x, k, o) z = MatMul(x, w)",
        "float[1, 3] y, float[R, 1, 3] rows, float[1, 3] z",
    )
    (product,) = [node for node in model.graph.nodes if node.op_type == "MatMul"]
    assert [value.name for value in product.inputs if value is not None] == ["x", "k"]


def test_a_result_of_the_model_stays_the_loops() -> None:
    """Its name and its content are what they were."""
    model = run(f"y, w, v, rows = Loop<{BODY}>(n, yes, x, k, o)", "float[1, 3] y, w, float[R, 1, 3] rows")
    assert [value.name for value in model.graph.outputs] == ["y", "w", "rows"]


def test_computed_values_are_read_where_they_are_made() -> None:
    model = run(f"q = Transpose<perm = [1, 0]>(k) y, w, v, rows = Loop<{BODY}>(n, yes, x, q, o)")
    (product,) = [node for node in body_of(model).nodes if node.op_type == "MatMul"]
    assert product.inputs[1] is not None
    assert product.inputs[1].name == "q"


def test_what_nobody_reads_inside_stays() -> None:
    """Carrying costs nothing: nothing is changed, and nothing is changed twice."""
    body = "body = b (int64 i, bool c, float[1, 3] s, w) => (bool c, float[1, 3] t, w) { t = Neg(s) }"
    model = run(f"y, w = Loop<{body}>(n, yes, x, k)", "float[1, 3] y")
    assert operators(model) == {"Loop": 1, "Neg": 1}


def test_a_copy_is_what_it_copies() -> None:
    """A body may give what it hands on another name."""
    body = """body = b (int64 i, bool c, float[1, 3] s, w) => (bool c, float[1, 3] t, z) {
        t = MatMul(s, w) v = Identity(w) z = Identity(v)
    }"""
    model = run(f"y, w = Loop<{body}>(n, yes, x, k)", "float[1, 3] y")
    (product,) = [node for node in body_of(model).nodes if node.op_type == "MatMul"]
    assert product.inputs[1] is not None
    assert product.inputs[1].name == "k"


def test_a_copy_of_something_else_changes() -> None:
    """Two values that change places in each iteration."""
    body = """body = b (int64 i, bool c, float[1, 3] s, float[1, 3] w) => (bool c, float[1, 3] t, float[1, 3] z) {
        d = Neg(s) e = Neg(w) z = Identity(s) t = Identity(w)
    }"""
    model = run(f"p = Neg(x) y, w = Loop<{body}>(n, yes, x, p)", "float[1, 3] y, float[1, 3] w")
    assert all(value in body_of(model).inputs for node in body_of(model).nodes for value in node.inputs)
