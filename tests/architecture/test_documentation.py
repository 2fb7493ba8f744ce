"""Every module has a docstring, packages do not print, long files are named, and the pages' links are valid."""

from __future__ import annotations

import ast
import re
import warnings
from pathlib import Path

import pytest

from tests.support.source_tree import ROOT, parsed, python_files

PACKAGES = ("core/src", "kit/src", "providers", "plugins-example", "examples", "scripts", "tests")


def _own_pages() -> list[Path]:
    names = ("*.md", "core/*.md", "kit/*.md", "providers/*/*.md", "plugins-example/*/*.md", "docs/**/*.md")
    return sorted(page for pattern in names for page in ROOT.glob(pattern))


def test_every_module_has_a_docstring() -> None:
    """The first thing in a file says what it does."""
    missing = [str(file.relative_to(ROOT)) for file in python_files(*PACKAGES) if not ast.get_docstring(parsed(file))]
    assert missing == []


def test_only_the_command_line_prints() -> None:
    """Packages speak through `logging`, reports and exceptions."""
    wrong = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file in python_files("core/src", "kit/src", "providers", "plugins-example")
        if "cli" not in file.parts and "tests" not in file.parts
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert wrong == []


ONE_IDEA = {
    "core/src/ort_py/api/session.py": "the class that users hold: documentation of each method, and a few lines of it",
    "core/src/ort_py/engine/engine.py": "the life of an engine, from building to release, in the order of its stages",
    "core/src/ort_py/planning/plan.py": "the records that a plan is made of, without behaviour",
    "providers/array/src/ort_py_array/attention/core.py": "attention over blocks of scores: a loop and its arithmetic",
}
"""Modules of more than 400 lines that were looked at and are one idea, with the idea."""


class LongModule(UserWarning):
    """A module of more than 400 lines that was not yet reviewed for a second idea."""


@pytest.mark.filterwarnings("default:.* lines:UserWarning")
def test_long_modules_are_named() -> None:
    """A warning names them; whether such a module is one idea is judged by a person, who then lists it."""
    folders = ("core/src", "kit/src", "providers", "plugins-example")
    files = [file for file in python_files(*folders) if "tests" not in file.parts]
    lengths = {file.relative_to(ROOT).as_posix(): len(file.read_text("utf-8").splitlines()) for file in files}
    long = {file for file, length in lengths.items() if length > 400}
    for file in sorted(long - ONE_IDEA.keys()):
        warnings.warn(f"{file} has {lengths[file]} lines", LongModule, stacklevel=1)
    assert ONE_IDEA.keys() - long == set(), "listed, but no longer than 400 lines"


def test_links_between_pages_lead_somewhere() -> None:
    """Relative links name files and folders that exist."""
    broken = []
    for page in _own_pages():
        targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        missing = [target for target in targets if "://" not in target and not (page.parent / target).exists()]
        broken += [f"{page.relative_to(ROOT)}: {target}" for target in missing]
    assert broken == []


def test_paths_named_in_the_papers_exist() -> None:
    """Files and folders of the repository that pages name in code spans are there; patterns and placeholders aside."""
    roots = "core|kit|providers|plugins-example|examples|scripts|tests|docs|requirements"
    missing = []
    for page in _own_pages():
        if page.parent.name == "changes":
            continue
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        named = re.findall(rf"`((?:{roots})/[\w./-]+)`", text)
        for path in named:  # a package's own page speaks of its own folders
            if not (ROOT / path).exists() and not (page.parent / path).exists():
                missing.append(f"{page.relative_to(ROOT)}: {path}")  # noqa: PERF401 - a comprehension hides the rule
    assert missing == []


def test_change_fragments_are_well_formed() -> None:
    from check_fragments import fragments, problems_of

    assert [problem for file in fragments() for problem in problems_of(file)] == []


def test_malformed_fragments_are_refused(tmp_path: Path) -> None:
    """Name, type, form and emptiness, each with its own words."""
    from check_fragments import problems_of

    def problems(name: str, text: str) -> str:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return " ".join(problems_of(tmp_path / name))

    assert problems("2.added.md", "ort-py-core: something new.\n") == ""
    assert "is called <id>.<type>.md" in problems("notes.md", "ort-py-core: something new.\n")
    assert "type 'new' is not one of" in problems("2.new.md", "ort-py-core: something new.\n")
    assert "begin with a distribution and a colon" in problems("2.fixed.md", "Something new.\n")
    assert "is empty" in problems("2.removed.md", "\n")


def test_the_table_of_the_core_counts_its_rooms() -> None:
    """Each folder of the core is in one row, and the lines of a row are those of its folders, within a tenth."""
    core = ROOT / "core" / "src" / "ort_py"
    page = (ROOT / "core" / "README.md").read_text(encoding="utf-8")
    section = page.partition("## What the core is, counted")[2].partition("\n## ")[0]
    rows = re.findall(r"^\|[^|]+\|([^|]*`[^|]*)\| ([\d,]+) \|", section, re.MULTILINE)
    counted = {tuple(re.findall(r"`(\w+)/`", rooms)): int(lines.replace(",", "")) for rooms, lines in rows}
    folders = {file.parent.name for file in core.glob("*/__init__.py")}
    assert sorted(room for rooms in counted for room in rooms) == sorted(folders)
    for rooms, lines in counted.items():
        files = [file for room in rooms for file in (core / room).rglob("*.py")]
        found = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)
        assert abs(found - lines) <= lines / 10, (rooms, found)
