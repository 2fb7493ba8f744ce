"""Patterns: what they match, and what they say where they nearly do."""

from __future__ import annotations

import numpy as np
import pytest

from ort_py.contracts import Const, Match, Maybe, OneOf, Op, Pattern, Var
from ort_py.contracts.pattern_match import Miss, find_match
from ort_py.graph.editing.edit import Editor
from ort_py_kit.graphs import typed_model

GELU = """g (float[2, 3] x) => (float[2, 3] y) <float root = {1.4142135}, float one = {1}, float half = {0.5}> {
    a = Div(x, root) b = Erf(a) c = Add(b, one) d = Mul(x, c) y = Mul(d, half)
}"""


def gelu() -> Op:
    """The exporters' Gelu."""
    x = Var("x")
    return Op("Mul", Op("Mul", x, Op("Add", Op("Erf", Op("Div", x, 2**0.5), name="erf"), 1.0)), 0.5)


def find(text: str, pattern: Op, output: str = "y") -> Match | Miss:
    """Match with the node that writes `output` as anchor."""
    graph = Editor(typed_model(text).graph)
    anchor = graph.producer(output)
    assert anchor is not None
    return find_match(pattern, anchor, graph)


def found(text: str, pattern: Op, output: str = "y") -> Match:
    """The match, which there must be."""
    match = find(text, pattern, output)
    assert isinstance(match, Match), match
    return match


def missed(text: str, pattern: Op, output: str = "y") -> Miss:
    """The miss, which there must be."""
    miss = find(text, pattern, output)
    assert isinstance(miss, Miss), miss
    return miss


def test_a_match_knows_its_nodes_and_values() -> None:
    """Captured values and nodes by name, all nodes with the anchor last, and what has to be written."""
    match = found(GELU, gelu())
    assert match["x"].name == match.name("x") == "x"
    erf = match.node("erf")
    assert erf is not None
    assert erf.op_type == "Erf"
    assert match.node("nothing") is None
    assert sorted(node.op_type for node in match.nodes) == ["Add", "Div", "Erf", "Mul", "Mul"]
    assert match.nodes[-1] == match.anchor
    assert match.result == "y"


@pytest.mark.parametrize("swapped", ["Mul(half, d)", "Mul(d, half)"])
@pytest.mark.parametrize("inner", ["Mul(c, x)", "Mul(x, c)"])
def test_the_order_of_inputs_does_not_count_where_onnx_says_so(swapped: str, inner: str) -> None:
    """Every mixture of orders of a chain of Mul and Add is found."""
    text = GELU.replace("Mul(d, half)", swapped).replace("Mul(x, c)", inner).replace("Add(b, one)", "Add(one, b)")
    assert found(text, gelu())["x"].name == "x"


def test_the_order_of_inputs_counts_elsewhere() -> None:
    assert missed(GELU.replace("Div(x, root)", "Div(root, x)"), gelu()).near


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("{1.4142135}", "{1.5}", "'root', which Div 'a' reads, is 1.5, not 1.414"),
        ("Mul(x, c)", "Mul(root, c)", "is not 'root'"),
        ("Add(b, one)", "Sub(b, one)", "is computed by Sub 'c', not by Add"),
        (" y = Mul", " z = Neg(b) y = Mul", "'b', which Erf 'b' writes, is read by 'z' too"),
        ("float[2, 3] y)", "float[2, 3] y, float[2, 3] b)", "the graph returns 'b', which Erf 'b' writes"),
    ],
)
def test_a_near_miss_says_why(old: str, new: str, reason: str) -> None:
    """The reason is that of the way to match that came furthest."""
    miss = missed(GELU.replace(old, new), gelu())
    assert reason in miss.reason


@pytest.mark.parametrize("text", ["Mul(x, half)", "Relu(x)"])
def test_a_far_miss_is_nobodys_business(text: str) -> None:
    """Where only the last node fits, or not even that, no user wants to hear of it."""
    assert not missed(f"g (float[2, 3] x) => (float[2, 3] y) <float half = {{0.5}}> {{ y = {text} }}", gelu()).near


OPTIONAL = "g (float[2, 3] x, float[3, 2] w, float[2] b) => (float[2, 2] y) { y = %s }"


@pytest.mark.parametrize(("call", "bias"), [("Gemm(x, w)", ""), ("Gemm(x, w, b)", "b")])
def test_optional_inputs(call: str, bias: str) -> None:
    """A Var may be absent where it says so."""
    match = found(OPTIONAL % call, Op("Gemm", "x", "w", Var("bias", optional=True)))
    assert match.name("bias") == bias
    assert (match.get("bias") is None) == (not bias)
    if not bias:
        with pytest.raises(KeyError):
            match["bias"]


@pytest.mark.parametrize(
    ("call", "pattern", "reason"),
    [
        ("Gemm(x, w)", Op("Gemm", "x", "w", "bias"), "an input of Gemm 'y' is absent"),
        ("Gemm(x, w)", Op("Gemm", "x", "w", Const("bias")), "an input of Gemm 'y' is absent"),
        ("Gemm(x, w, b)", Op("Gemm", "x", "w", None), "'b', which Gemm 'y' reads, is not absent"),
        ("Gemm(x, w, b)", Op("Gemm", "x", "w"), "Gemm 'y' has 3 inputs, not 2"),
        ("Gemm(x, w, b)", Op("Gemm", "x", "w", Const("bias")), "'b', which Gemm 'y' reads, is not a constant"),
        ("Gemm<transA = 0>(x, w)", Op("Gemm", "x", "w", attributes={"transA": 1}), "transA of Gemm 'y' is 0, not 1"),
        ("Gemm(x, w)", Op("Gemm", "x", "w", where=lambda node: "too odd"), "Gemm 'y': too odd"),
        ("Gemm(x, w)", Op("Gemm", Var(where=lambda value: False), "w"), "'x', which Gemm 'y' reads does not fit"),
    ],
)
def test_conditions_that_do_not_hold(call: str, pattern: Op, reason: str) -> None:
    """Absent, present, constant, attributes, and what the author asks for."""
    assert reason in missed(OPTIONAL % call, pattern).reason


def test_more_inputs_may_follow() -> None:
    """`rest` lets a pattern look at the first inputs only."""
    found("g (float[2] x) => (float[6] y) { y = Concat<axis = 0>(x, x, x) }", Op("Concat", "x", rest=True))


def test_constants() -> None:
    """A condition on the content, and the array under its name."""
    text = "g (float[2, 3] x) => (float[2, 3] y) <float[3] w = {1, 2, 3}> { y = Add(x, w) }"
    match = found(text, Op("Add", "x", Const("w", where=lambda array: array.ndim == 1)))
    np.testing.assert_array_equal(match.array("w"), [1, 2, 3])
    assert match.array("x") is None
    assert "does not fit" in missed(text, Op("Add", "x", Const("w", where=lambda array: array.ndim == 2))).reason
    assert "is a tensor of shape (3,), not 1" in missed(text, Op("Add", "x", 1.0)).reason


@pytest.mark.parametrize("middle", ["a", "Relu(a)", "Neg(a)"])
def test_alternatives(middle: str) -> None:
    """One of several patterns, with what is captured in it."""
    value = "b" if "(" in middle else "a"
    second = middle if "(" in middle else "Abs(x)"
    text = f"g (float[2, 3] x) => (float[2, 3] y) {{ a = Exp(x) b = {second} y = Sqrt({value}) }}"
    inner = Op("Exp", "x")
    match = found(text, Op("Sqrt", OneOf(Op("Relu", inner, name="act"), Op("Neg", inner, name="act"), inner)))
    assert match["x"].name == "x"
    assert (match.node("act") is None) == (value == "a")


@pytest.mark.parametrize(("middle", "count"), [("y = Sqrt(a)", 2), ("b = Cast<to = 1>(a) y = Sqrt(b)", 3)])
def test_a_node_may_be_missing(middle: str, count: int) -> None:
    """`Maybe` takes the node where it is there, and what it would read otherwise."""
    text = f"g (float[2, 3] x) => (float[2, 3] y) {{ a = Exp(x) {middle} }}"
    match = found(text, Op("Sqrt", Maybe(Op("Cast", Op("Exp", "x")))))
    assert len(match.nodes) == count


def test_one_pattern_is_one_node() -> None:
    """An Op that stands in two places must be the same node there."""
    shared = Op("Exp", "x", name="shared")
    pattern = Op("Mul", Op("Neg", shared), Op("Abs", shared))
    same = "g (float[2] x) => (float[2] y) { a = Exp(x) b = Neg(a) c = Abs(a) y = Mul(b, c) }"
    twins = "g (float[2] x) => (float[2] y) { a = Exp(x) d = Exp(x) b = Neg(a) c = Abs(d) y = Mul(b, c) }"
    assert len(found(same, pattern).nodes) == 4
    assert "not from" in missed(twins, pattern).reason


def test_other_outputs() -> None:
    """A value may be asked to be a certain output of its node."""
    text = "g (float[4] x) => (float[2] y) { a, b = Split<axis = 0, num_outputs = 2>(x) y = Neg(b) }"
    found(text, Op("Neg", Op("Split", "x", output=1)))
    assert "is not output 0 of Split" in missed(text, Op("Neg", Op("Split", "x"))).reason


def test_what_goes_is_no_input_of_what_comes() -> None:
    """A value that a Var stands for must not be written by a node of the pattern: it would be gone."""
    text = "g (float[2] x) => (float[2] y) { a = Exp(x) y = Add(a, a) }"
    assert "'a', which Exp 'a' writes, is 'other' too" in missed(text, Op("Add", Op("Exp", "x"), "other")).reason
    found(text, Op("Add", Op("Exp", "x", exposed=True), "other"))


def test_exposed_results_may_be_read_elsewhere() -> None:
    """The author writes them, or keeps the node."""
    text = "g (float[2] x) => (float[2] y, float[2] z) { a = Exp(x) y = Neg(a) z = Abs(a) }"
    found(text, Op("Neg", Op("Exp", "x", exposed=True)))


def test_values_of_outer_graphs_have_no_producer_here() -> None:
    """A pattern does not reach out of a branch."""
    text = """g (float[2] x, bool c) => (float[2] y) {
        a = Exp(x)
        y = If(c) <then_branch = t () => (float[2] p) { p = Neg(a) }, else_branch = e () => (float[2] q) { q = Abs(a) }>
    }"""
    (then, _) = Editor(typed_model(text).graph).subgraphs()
    anchor = then.producer("p")
    assert anchor is not None
    miss = find_match(Op("Neg", Op("Exp", "x")), anchor, then)
    assert isinstance(miss, Miss)
    assert not miss.near


def test_sizes_count_each_node_once() -> None:
    """The size decides which matches are near: alternatives count by the first, optional nodes do not count."""
    shared = Op("Exp", "x")
    cases: list[tuple[Pattern, int]] = [
        (gelu(), 5),
        (Op("Mul", shared, Op("Neg", shared)), 3),
        (Op("Neg", Maybe(Op("Cast", "x"))), 1),
        (Op("Neg", OneOf(Op("Abs", shared), Var())), 3),
    ]
    assert [pattern.size() for pattern, _ in cases if isinstance(pattern, Op)] == [size for _, size in cases]
