"""Reports of comparisons as text: names of a model are escaped."""

from __future__ import annotations

from ort_py.inspection.comparison.deviation import Deviation, ValueSummary
from ort_py.inspection.comparison.report import (
    BisectionReport,
    ComparedNode,
    ComparedOutput,
    ComparedSide,
    ComparisonReport,
    Difference,
    Trial,
)

NAME, SHOWN = "a\n\x1b[2J", r"a\n\x1b[2J"


def test_names_in_a_comparison_cannot_steer_a_terminal() -> None:
    """Values, nodes, inputs, outputs and the model's title each stay on their line."""
    node = ComparedNode(NAME, "Relu", "", "CPUExecutionProvider")
    assert str(node).count(SHOWN) == 1
    assert str(ValueSummary(NAME)) == f"{SHOWN}: no array"
    side = ComparedSide(NAME, {})
    difference = Difference(0, NAME, (node,), (node,), Deviation(), inputs=(ValueSummary(NAME),))
    output = ComparedOutput(0, NAME, Deviation())
    text = str(ComparisonReport(NAME, side, side, differences=[difference], differing=1, outputs=[output]))
    assert all(line.isprintable() for line in text.split("\n"))
    assert text.count(SHOWN) == 8


def test_names_in_a_bisection_cannot_steer_a_terminal() -> None:
    """An error keeps its lines; nothing else of it or of the model's names gets through."""
    output = ComparedOutput(0, NAME, Deviation(agrees=False, reason="type"))
    report = BisectionReport(
        NAME, "CPU", ("a", "b"), [Trial("c", False)], outputs=[output], failure="what\n  why: \x1b[2J", note="none"
    )
    lines = str(report).split("\n")
    assert all(line.isprintable() for line in lines)
    assert r"  why: \x1b[2J" in lines
    assert any(line.startswith(f"  output {SHOWN}: ") for line in lines)
