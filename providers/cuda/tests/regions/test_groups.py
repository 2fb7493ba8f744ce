"""Nodes that become regions, and the reasons why others do not."""

from __future__ import annotations

import pytest

from ort_py_cuda.regions.groups import MOST_NODES, group_refusal, groups, node_groups, refusal
from providers.cuda.tests.regions.parts import view_of


def grouped(text: str) -> list[list[str]]:
    """Operators of each group."""
    graph = view_of(text)
    return [[graph.nodes[one].op_type for one in group] for group in node_groups(graph, range(len(graph.nodes)))]


def test_one_operator_is_no_region() -> None:
    """Its own kernel does the same."""
    assert grouped("g (float[n] x) => (float[n] y) { y = Exp(x) }") == []


def test_a_copy_does_not_count() -> None:
    """Identity and one operator are one operator."""
    assert grouped("g (float[n] x) => (float[n] y) { a = Identity(x) y = Exp(a) }") == []


def test_a_product_separates() -> None:
    """The nodes before it and after it are two regions."""
    text = """g (float[n, 4] x, float[4, 4] w) => (float[n, 4] y) {
        a = Exp(x) b = Neg(a) c = MatMul(b, w) d = Tanh(c) y = Add(d, c)
    }"""
    assert grouped(text) == [["Exp", "Neg"], ["Tanh", "Add"]]


def test_claims_say_what_they_are() -> None:
    graph = view_of("g (float[n] x) => (float[n] y) { a = Exp(x) y = Neg(a) }")
    (claim,) = groups(graph, [0, 1])
    assert claim.nodes == (0, 1)
    assert claim.reason == "one kernel for 2 nodes"


def test_only_nodes_that_may_be_taken_are() -> None:
    graph = view_of("g (float[n] x) => (float[n] y) { a = Exp(x) b = Neg(a) c = Sin(b) y = Cos(c) }")
    assert node_groups(graph, [0, 1, 3]) == [(0, 1)]


def test_what_a_reduction_leaves_without_axes_ends_a_region() -> None:
    """Behind ``keepdims=0`` axes have other numbers."""
    text = """g (float[n, 4] x) => (float[n] y) <int64[1] axes = {-1}> {
        a = Exp(x) b = ReduceSum<keepdims = 0>(a, axes) c = Neg(b) y = Tanh(c)
    }"""
    assert grouped(text) == [["Exp", "ReduceSum"], ["Neg", "Tanh"]]


def test_reductions_over_other_rows_are_another_region() -> None:
    """One kernel has rows of one length."""
    text = """g (float[n, 4, 5] x) => (float[n, 1, 1] y) <int64[1] last = {2}, int64[2] two = {1, 2}> {
        a = Exp(x) b = ReduceSum(a, last) c = ReduceMax(b, two) y = Neg(c)
    }"""
    assert grouped(text) == [["Exp", "ReduceSum"], ["ReduceMax", "Neg"]]


def test_a_larger_result_behind_a_reduction_is_another_region() -> None:
    """Rows that are used several times are computed once."""
    text = """g (float[1, 4] x, float[3, 4] y) => (float[3, 4] z) {
        a = Exp(x) b = Softmax(a) c = Add(b, y) z = Neg(c)
    }"""
    assert grouped(text) == [["Exp", "Softmax"], ["Add", "Neg"]]


def test_long_chains_are_cut() -> None:
    """A kernel's code and arguments are bounded."""
    chain = " ".join(f"a{i} = Sin({f'a{i - 1}' if i else 'x'})" for i in range(MOST_NODES + 5))
    text = f"g (float[n] x) => (float[n] a{MOST_NODES + 4}) {{ {chain} }}"
    assert [len(one) for one in grouped(text)] == [MOST_NODES, 5]


REFUSALS = [
    ("g (float[n, n] x) => (float y) { y = Det(x) }", "no generated code for Det"),
    (
        "g (string[n] x) => (string[n] y) { y = Identity(x) }",
        "'x' is tensor(string), which generated code has no type for",
    ),
    ("g (int64[n] x) => (int64[n] y) { y = Add(x, x) }", "it computes with sizes, which are used on the host"),
    ("g (float[n, 3] x) => (float y) { y = Softmax<axis = 0>(x) }", "its axes are not the last ones"),
    ("g (float[n, 3] x, int64[1] a) => (float y) { y = ReduceSum(x, a) }", "its axes are not constant"),
    ("g (float[2, 70000] x) => (float y) { y = Softmax(x) }", "2 rows of 70000 elements are too few for a block each"),
    ("g (float[n, 3] x) => (float y) <int64[1] a = {0}> { y = ReduceSum(x, a) }", "its axes are not the last ones"),
    ("g (double[n] x) => (bfloat16[n] y) { y = Cast<to = 16>(x) }", "double becomes bfloat16 in two roundings there"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "reason"), REFUSALS)
def test_refusals(text: str, reason: str) -> None:
    graph = view_of(text)
    assert refusal(graph.nodes[-1], graph) == reason


def test_versions_that_nobody_has_read() -> None:
    """An operator's older form is left to the library."""
    older = view_of("g (float[n, 3] x) => (float[n, 3] y) { y = Softmax(x) }", 11)
    assert refusal(older.nodes[0], older) == "no generated code for version 11 of Softmax"


def test_what_is_left_of_a_claim() -> None:
    """One node does not form a region, and two unconnected ones are not one kernel."""
    graph = view_of("g (float[n] x) => (float[n] y) { a = Exp(x) b = Neg(a) c = Sin(b) y = Cos(c) }")
    assert group_refusal([graph.nodes[0]], graph) == "a region of one operator is that operator's kernel"
    assert group_refusal([graph.nodes[0], graph.nodes[3]], graph) == "what is left is not one kernel"
    assert group_refusal([graph.nodes[0], graph.nodes[1]], graph) is None
