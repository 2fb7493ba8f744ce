"""Tests of `scripts/prose.py`, which checks the English of docstrings and pages."""

from __future__ import annotations

from pathlib import Path

import pytest
from prose import LIMITS, ROOT, Docstring, Text, beyond_limits, docstrings, faults, lint, table, texts_of


def _docstrings(*texts: str, folder: str = "core/src/ort_py/graph") -> list[Docstring]:
    return [Docstring(Path(folder, "module.py"), 1, text) for text in texts]


@pytest.mark.parametrize("text", ["What it holds.", "Which node fails.", "Of two names, the first.", "As in NumPy."])
def test_docstrings_that_open_with_a_clause_are_counted(text: str) -> None:
    """Clauses are neither sentences nor noun phrases."""
    assert faults(text) == (True, False)


@pytest.mark.parametrize("text", ["It is told.", "Nobody reads it.", "This is no tensor.", "A list\nthat shall grow."])
def test_docstrings_with_unwanted_words_are_counted(text: str) -> None:
    """Words count anywhere in the docstring and in any case."""
    assert faults(text) == (False, True)


@pytest.mark.parametrize("text", ["Whatsoever.", "Often useful.", "This is north.", "The node that fails."])
def test_longer_words_are_not_counted(text: str) -> None:
    assert faults(text) == (False, False)


def test_a_share_beyond_its_limit_is_a_problem() -> None:
    """Each kind of file and each count has a limit, and the message names both."""
    problems = beyond_limits(_docstrings("What it holds.", "The node."))
    assert len(problems) == 1
    assert problems[0].startswith("sources: 50.00 % of docstrings have such openings")
    assert beyond_limits(_docstrings("The node.")) == []


def test_counts_are_given_by_room() -> None:
    """Rooms of the core are its folders; tests are counted apart."""
    found = [*_docstrings("What it holds."), *_docstrings("It is told.", folder="core/tests/graph")]
    rows = [" ".join(row.split()) for row in table(found)]
    assert [row.split(" docstrings")[0] for row in rows] == [
        "core/graph 1",
        "core/tests 1",
        "all sources 1",
        "all tests 1",
    ]
    assert "1 openings (100.0 %) 0 with words" in rows[0]


def test_proselint_reads_prose_and_names_the_line() -> None:
    """A finding has the file and the line of its text."""
    problems = lint([Text("a.py", 5, "A sentence."), Text("b.md", 1, "One line.\nIt is held for ever here.")])
    assert [problem.split(": ")[0] for problem in problems] == ["b.md:2"]
    assert "archaism" in problems[0]


def test_a_finding_that_ends_within_a_word_is_dropped() -> None:
    """proselint's pattern for an archaism also matches "for every"."""
    assert lint([Text("a.py", 1, "There is one for every node.")]) == []


def test_code_is_not_prose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code spans, fenced blocks and indented blocks of pages are left out; lines keep their numbers."""
    monkeypatch.setattr("prose.ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("Use `for ever`.\n\n```\nfor ever\n```\n\n    for ever\n\nIt waits for ever.\n", encoding="utf-8")
    (text,) = texts_of(page)
    assert text.content.splitlines()[8] == "It waits for ever."
    assert text.content.count("for ever") == 1


def test_docstrings_of_modules_classes_and_functions_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each docstring comes with its line."""
    monkeypatch.setattr("prose.ROOT", tmp_path)
    module = tmp_path / "module.py"
    module.write_text(
        '"""One."""\n\nclass A:\n    """Two."""\n    def f(self):\n        """Three."""\n', encoding="utf-8"
    )
    assert [(one.line, one.text) for one in docstrings(module)] == [(1, "One."), (4, "Two."), (6, "Three.")]


def test_the_repository_is_within_its_limits() -> None:
    """The share of such docstrings is within the limits."""
    folders = ("core", "providers", "tests", "scripts", "benchmarks", "examples", "plugins-example")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py") if ".venv" not in file.parts]
    assert LIMITS.keys() == {"sources", "tests"}
    assert beyond_limits([one for file in files for one in docstrings(file)]) == []


def test_parts_of_words_are_no_findings() -> None:
    """proselint itself finds "for ever" in "for every"."""
    assert lint([Text("a.md", 1, "It is there for every platform.")]) == []
