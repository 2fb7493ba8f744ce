"""The support table: cases by operator, what passed, and the known failures with their reasons."""

from __future__ import annotations

from typing import Any

from ort_py_kit.support_table import SupportTable

NAME = "MyExecutionProvider"


def record(case: str, *ran: str, reason: str = "") -> dict[str, Any]:
    """The record that a case leaves."""
    return {"provider": NAME, "case": case, "ran": [["", one] for one in ran], "expected_failure": reason}


def filled() -> SupportTable:
    """Two that pass, one that fails, one that is known to, and one of which nothing is run."""
    table = SupportTable()
    table.add(record("node/test_relu", "Relu"), passed=True, expected=False)
    table.add(record("node/test_both", "Relu", "Add"), passed=True, expected=False)
    table.add(record("node/test_add", "Add"), passed=False, expected=False)
    table.add(record("node/test_exp", "Exp", reason="rounds"), passed=False, expected=True)
    table.add({**record("node/test_tan"), "not_run": True}, passed=False, expected=False)
    return table


def test_operators_are_counted() -> None:
    """Cases with nodes that it runs, and those that passed."""
    lines = filled().markdown().splitlines()
    assert "| Relu | ai.onnx | 2 | 2 |" in lines
    assert "| Add | ai.onnx | 2 | 1 |" in lines
    assert "| Exp | ai.onnx | 1 | 0 |" in lines


def test_known_failures_are_listed() -> None:
    assert "- `node/test_exp`: rounds" in filled().markdown().splitlines()


def test_the_summary_is_a_line_a_provider() -> None:
    """Cases, those it takes part in, and failures of both kinds."""
    assert filled().summary() == [
        f"{NAME}: 5 ONNX cases, runs nodes of 4 (3 operators); 1 not run; 1 fail, 1 fail as expected"
    ]


def version(name: str, ran: int, *, claimed: bool = True, elsewhere: int = 0) -> dict[str, Any]:
    """The record that a version of an operator leaves."""
    return {"provider": NAME, "version": f"version/{name}", "ran": ran, "not_run": elsewhere, "claimed": claimed}


def test_versions_are_counted_and_unreached_ones_are_named() -> None:
    """Versions that are not claimed say nothing."""
    table = SupportTable()
    table.add_version(version("Relu-6", 2, elsewhere=1), passed=True)
    table.add_version(version("Relu-1", 0), passed=False)
    table.add_version(version("Exp-1", 0, claimed=False), passed=True)
    assert table.summary() == [
        f"{NAME}: right at 1 versions of operators, with 2 cases (1 more of them ran elsewhere)",
        f"{NAME}: claimed versions that no case reached: version/Relu-1",
    ]


def test_nothing_run_is_an_empty_table() -> None:
    table = SupportTable()
    assert table.providers == []
    assert table.summary() == []
