"""The page on rules for plug-in authors: its code runs as it stands there."""

from __future__ import annotations

import re
from typing import Any

from ort_py_kit.rules import apply_rules
from tests.support.source_tree import ROOT

PAGE = ROOT / "docs" / "plugin-author" / "rules.md"
_BLOCK = re.compile(r"^```python file=(?P<file>\S+)\n(?P<text>.*?)^```$", re.M | re.S)


def _code() -> dict[str, Any]:
    """All of the page's code, run in one namespace."""
    names: dict[str, Any] = {}
    for match in _BLOCK.finditer(PAGE.read_text(encoding="utf-8")):
        exec(compile(match["text"], f"{PAGE.name}:{match['file']}", "exec"), names)
    return names


def test_the_tests_of_the_page_pass() -> None:
    """It fuses, computes the same, and leaves the near miss."""
    names = _code()
    tests = [value for name, value in names.items() if name.startswith("test_")]
    assert len(tests) == 3
    for test in tests:
        test()


def test_the_rule_without_a_pattern_works() -> None:
    """Twice negated is not negated; where an output would be an input's second name, it says so."""
    rule = _code()["EliminateDoubleNegation"]()
    model, _ = apply_rules("g (float[2] x) => (float[2] y) { a = Neg(x) b = Neg(a) y = Abs(b) }", rule)
    assert [node.op_type for node in model.graph.nodes] == ["Abs"]
    model, report = apply_rules("g (float[2] x) => (float[2] y) { a = Neg(x) y = Neg(a) }", rule)
    assert len(model.graph.nodes) == 2
    assert "second name of an input" in str(report)
