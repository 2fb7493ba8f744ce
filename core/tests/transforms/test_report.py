"""The report of the optimisation."""

from __future__ import annotations

import json

import pytest

from ort_py.transforms.builtin import builtin_transforms
from ort_py.transforms.pipeline import run_transforms
from ort_py.transforms.report import OptimisationReport, PassReport, Rewrite, RewriteRefusal
from ort_py_kit.graphs import ReferenceContext, typed_model

TEXT = """g (float[2] x) => (float[2] y) <float one = {1}, float two = {2}> {
    a = Identity(x) b = Add(one, two) c = Mul(a, b) d, m = Dropout(c) n = Not(m) e = Cast<to = 1>(n) y = Add(d, e)
}"""


def report(*disabled: str) -> OptimisationReport:
    """The report of optimising a small model with everything."""
    return run_transforms(
        typed_model(TEXT), builtin_transforms(), 99, ReferenceContext(), disabled=disabled, check=True
    )


def test_every_pass_counts_nodes() -> None:
    """Each goes on where the one before ended, from the model's nodes to those that are left."""
    made = report()
    nodes = made.nodes_before
    for one in made.passes:
        assert one.nodes_before == nodes
        nodes = one.nodes_after
    assert nodes == made.nodes_after == 5
    assert made.nodes_before == 7


def test_every_rewrite_is_told() -> None:
    """The nodes that went and those that came."""
    by_name = report()
    assert str(by_name["EliminateIdentity"].rewrites[0]) == "a -> nothing"
    assert by_name["ConstantFolding"].changes == 1
    assert str(by_name["EliminateDropout"].refusals[0]) == "d: its mask is read"


def test_passes_are_found_by_name() -> None:
    with pytest.raises(KeyError, match="Nobody"):
        report()["Nobody"]


def test_the_text_leaves_out_what_found_nothing() -> None:
    """Totals, passes with changes or near matches, what was switched off."""
    text = str(report("ConstantFolding"))
    assert text.startswith("7 nodes became 6 in 2 rounds")
    assert "EliminateIdentity: 1 changes, " in text
    assert "left: d: its mask is read" in text
    assert "switched off: ConstantFolding" in text
    assert "TransposeMerging" not in text


def test_the_dictionary_is_plain() -> None:
    """It survives JSON, and says what the report says."""
    made = report()
    found = made.to_dict()
    assert json.loads(json.dumps(found)) == found
    assert found["nodes_after"] == 5
    (first,) = [one for one in found["passes"] if one["name"] == "ConstantFolding"]
    assert first["rewrites"] == [{"before": ["b"], "after": []}]


def test_lists_are_bounded() -> None:
    """A model of thousands of near matches needs no page on each; the numbers count all."""
    one = PassReport("Rule")
    for index in range(1500):
        one.add((str(index),), (), 1, 0)
    one.keep_refusals({str(index): "why" for index in range(500)})
    one.note(tuple(map(str, range(50))))
    assert (one.changes, len(one.rewrites)) == (1500, 1000)
    assert (one.refused, len(one.refusals), len(one.notes)) == (500, 200, 20)
    assert "left: 497 more" in str(one)


def test_names_cannot_steer_a_terminal() -> None:
    """Control characters and line ends in names of nodes are escapes wherever the report is text."""
    name, shown = "a\n\x1b[2J", r"a\n\x1b[2J"
    assert str(Rewrite((name,), ())) == f"{shown} -> nothing"
    assert str(RewriteRefusal(name, "near")) == f"{shown}: near"
    one = PassReport("Rule", refusals=[RewriteRefusal(name, "near")], notes=(f"about {name}",))
    assert str(one).split("\n")[1:] == [f"  left: {shown}: near", f"  about {shown}"]
    whole = OptimisationReport([one], exhausted=[name], notes=(name,))
    assert "\x1b" not in str(whole)
    assert str(whole).split("\n")[-2:] == [shown, f"given up: {shown}"]
