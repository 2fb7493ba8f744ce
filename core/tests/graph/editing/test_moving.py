"""Nodes that leave a nested graph: consistent afterwards, with the results there were."""

from __future__ import annotations

import numpy as np
import pytest

from ort_py.errors import InvalidGraph
from ort_py.graph.checking.verify import verify
from ort_py.graph.editing.edit import Editor
from ort_py_kit.graphs import reference_run, typed_model

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
LOOP = """g (float[2, 3] x, int64 n) => (float[2, 3] y) <bool yes = {1}> {
    a = Neg(x)
    y = Loop(n, yes, x) <body = b (int64 i, bool go, float[2, 3] s) => (bool go, float[2, 3] t) <float[1] k = {3}> {
        p = Exp(a) q = Mul(p, k) u = Add(q, s) t = Sub(u, k)
    }>
    z = Abs(y)
}"""


def editors(text: str = LOOP) -> tuple[Editor, Editor]:
    """Editors of the model's main graph, and of the one nested in it."""
    outer = Editor(typed_model(text).graph)
    (inner,) = outer.subgraphs()
    return outer, inner


def check(outer: Editor, **feeds: object) -> None:
    """The graph is consistent and computes what it did."""
    verify(outer.graph)
    feeds = {"x": X, "n": np.array(2), **feeds}
    for left, right in zip(
        reference_run(outer.graph.model, feeds), reference_run(typed_model(LOOP), feeds), strict=True
    ):
        np.testing.assert_array_equal(left, right)


def test_nodes_stand_in_front_of_the_one_that_held_them() -> None:
    """In order, under their names, with the constant that they and others read; the editors know where they are."""
    outer, inner = editors()
    view = inner.view
    inner.move_out(["q", "p"])
    assert [node.name for node in outer.nodes] == ["a", "p", "q", "y", "z"]
    assert [node.name for node in inner.nodes] == ["u", "t"]
    assert set(outer.graph.initializers) == {"yes", "k"}
    assert not inner.graph.initializers
    assert inner.node("p") is None
    moved = outer.node("q")
    assert moved is not None
    assert moved.path == ()
    assert [node.name for node in outer.readers("q")] == ["y"]
    assert outer.producer("q") == moved
    assert inner.producer("q") is None
    with pytest.raises(Exception, match="changed after this view was taken"):
        _ = view.nodes[0]
    check(outer)


def test_a_node_whose_name_is_taken_outside_gets_another() -> None:
    """Values have names that are unique in the model; nodes need not."""
    outer, inner = editors()
    inner.graph.nodes[0].name = "a"
    inner.move_out(["a"])
    assert [node.name for node in outer.nodes] == ["a", "a_1", "y", "z"]
    assert outer.graph.nodes[1].sources == ("a",)
    check(outer)


def test_what_is_returned_goes_on_being_returned() -> None:
    """The graph returns a value of the one around it then, or a constant of it."""
    outer, inner = editors(
        """g (float[2, 3] x, int64 n) => (float[2, 3] y, float[2, 3] v, float[R, 1] w) <bool yes = {1}> {
            y, v, w = Loop(n, yes, x, x) <
                body = b (int64 i, bool go, float[2, 3] s, float[2, 3] o) =>
                    (bool go, float[2, 3] t, float[2, 3] p, float[1] k) <float[1] k = {3}> {
                    p = Mul(x, k) t = Add(o, s)
                }
            >
        }"""
    )
    inner.move_out(["p"])
    assert [value.graph is outer.graph for value in inner.graph.outputs] == [False, False, True, True]
    assert outer.uses("p") == 1
    assert outer.uses("k") == 2
    assert outer.remove_unused() == 0
    verify(outer.graph)
    y, v, w = reference_run(outer.graph.model, {"x": X, "n": np.array(2)})
    np.testing.assert_array_equal(y, X + X + 3 * X)
    np.testing.assert_array_equal(v, 3 * X)
    np.testing.assert_array_equal(w, [[3], [3]])


def test_nodes_that_hold_graphs_take_them_along() -> None:
    branches = (
        "then_branch = t () => (float[2, 3] b1) {{ b1 = Neg({0}) }}, "
        "else_branch = e () => (float[2, 3] b2) {{ b2 = Exp(x) }}"
    )
    text = """g (float[2, 3] x, int64 n, bool p) => (float[2, 3] y) <bool yes = {1}> {
        y = Loop(n, yes, x) <body = b (int64 i, bool go, float[2, 3] s) => (bool go, float[2, 3] t) {
            v = If(p) <BRANCHES> t = Add(s, v)
        }>
    }"""
    outer, inner = editors(text.replace("BRANCHES", branches.format("x")))
    inner.move_out(["v"])
    assert [node.op_type for node in outer.nodes] == ["If", "Loop"]
    assert len(outer.subgraphs()) == 3
    verify(outer.graph)
    _, inner = editors(text.replace("BRANCHES", branches.format("s")))
    with pytest.raises(InvalidGraph, match="reads 's', which stays there"):
        inner.move_out(["v"])


@pytest.mark.parametrize(("nodes", "value"), [(["q"], "p"), (["p", "q", "u"], "s")])
def test_what_stays_cannot_be_read_outside(nodes: list[str], value: str) -> None:
    """Neither a result of a node that stays nor an input of the graph; nothing has changed then."""
    outer, inner = editors()
    with pytest.raises(InvalidGraph, match=f"it reads '{value}', which stays there"):
        inner.move_out(nodes)
    check(outer)


def test_nothing_is_around_the_main_graph() -> None:
    outer, _ = editors()
    with pytest.raises(InvalidGraph, match="There is no graph around 'g'"):
        outer.move_out(["a"])
