"""Operators that cut the graph into islands."""

from __future__ import annotations

from core.tests.inspection.placement.flows import flow_from
from ort_py.inspection.placement.merging import RefusedNode, suggestions_of


def nodes(text: str, could: str = "") -> list[RefusedNode]:
    """Upper-case operators run on A; it refused lower-case ones, which B runs, those in `could` for their cost only."""
    return [
        RefusedNode("A" if char.isupper() or char in could else "B", char, "", char.islower() and char not in could)
        for char in text
    ]


def suggested(text: str, could: str = "") -> list[tuple[str, int, int, int]]:
    """Operator, nodes, islands before and after, for a chain."""
    flow = flow_from(len(text), [(node, node + 1) for node in range(len(text) - 1)])
    found = suggestions_of(flow, nodes(text, could), "A", ("B", "A"))
    return [(one.op_type, one.nodes, one.islands_before, one.islands_after) for one in found]


def test_the_operator_that_cuts_is_named() -> None:
    """Fourteen refused nodes in a row of convolutions: their support makes one island of 29."""
    assert suggested("C" + "xC" * 14) == [("x", 14, 29, 1)]


def test_those_that_merge_most_come_first() -> None:
    """Each counts with the support of those before it."""
    assert suggested("CxCxCxCyC") == [("x", 3, 9, 3), ("y", 1, 3, 1)]


def test_what_merges_nothing_is_not_suggested() -> None:
    """An operator between others that are refused too: alone it would only make more islands."""
    assert suggested("CxyxC") == [("x", 2, 3, 3)] or suggested("CxyxC") == []


def test_nothing_refused() -> None:
    assert suggested("CCC") == []


def test_a_refusal_for_its_cost_is_not_missing_support() -> None:
    """Convolutions that did not pay because x cut them off from each other: x is what is named."""
    assert suggested("cxcxcxc", could="c") == [("x", 3, 7, 1)]


def test_at_most_a_few() -> None:
    assert len(suggested("CaCbCcCdCeCfCgC")) == 5
