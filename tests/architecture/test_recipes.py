"""The recipe "Add an operator" of CONTRIBUTING.md, followed to the letter in a copy of the operator library.

A block ```` ```python file=PATH ```` is a file to write, a ``diff`` block lines to add behind others, a ``sh`` block a
command that has to succeed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.source_tree import ROOT

_BLOCK = re.compile(r"^(?P<indent> *)```(?P<kind>\w+)(?: file=(?P<file>\S+))?\n(?P<text>.*?)^ *```$", re.M | re.S)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block without its indentation."""

    kind: str
    file: str
    text: str


def _recipe(title: str) -> list[Block]:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return [
        Block(match["kind"], match["file"] or "", re.sub(f"^{match['indent']}", "", match["text"], flags=re.M))
        for match in _BLOCK.finditer(section)
    ]


def _add_lines(file: Path, diff: str) -> None:
    lines = diff.splitlines(keepends=True)
    before = "".join(line[1:] for line in lines if line.startswith(" "))
    text = file.read_text(encoding="utf-8")
    assert text.count(before) == 1, f"the lines to add behind stand {text.count(before)} times in {file.name}"
    file.write_text(text.replace(before, "".join(line[1:] for line in lines)), encoding="utf-8")


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Block]]:
    """A copy of the repository's parts that the recipe touches, with the recipe's files written."""
    copy = tmp_path_factory.mktemp("recipe")
    for part in ("pyproject.toml", "conftest.py", "providers/array", "docs/changes", "scripts"):
        source, target = ROOT / part, copy / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    blocks = _recipe("Add an operator")
    for block in blocks:
        if block.kind == "diff":
            _add_lines(copy / block.file, block.text)
        elif block.file:
            assert not (copy / block.file).exists(), f"{block.file} is there already"
            (copy / block.file).write_text(block.text, encoding="utf-8")
    return copy, blocks


def test_the_recipe_touches_the_files_it_names(followed: tuple[Path, list[Block]]) -> None:
    """A module and its name in the list of families, the schema likewise, a test, a fragment; and a command."""
    kinds = ["python", "diff", "python", "diff", "python", "text", "sh"]
    assert [block.kind for block in followed[1]] == kinds


def test_the_commands_of_the_recipe_succeed(followed: tuple[Path, list[Block]]) -> None:
    """The new operator's tests pass, run by the command the page gives."""
    copy, blocks = followed
    environment = dict(os.environ)
    # The copy of the library goes before the installed one; what is relative was so to this process's folder.
    given = [str(Path(path).absolute()) for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    environment["PYTHONPATH"] = os.pathsep.join([str(copy / "providers" / "array" / "src"), *given])
    for block in blocks:
        if block.kind != "sh":
            continue
        for command in block.text.splitlines():
            program, *arguments = command.split()
            assert program == "python"
            outcome = subprocess.run(
                [sys.executable, *arguments], cwd=copy, env=environment, capture_output=True, text=True, check=False
            )
            assert outcome.returncode == 0, outcome.stdout + outcome.stderr
            assert "2 passed" in outcome.stdout


def test_the_fragment_of_the_recipe_is_well_formed(followed: tuple[Path, list[Block]]) -> None:
    """The commit hook would take it."""
    check = [sys.executable, "scripts/check_fragments.py"]
    outcome = subprocess.run(check, cwd=followed[0], capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr


def test_the_code_of_the_recipe_is_in_the_house_style(followed: tuple[Path, list[Block]]) -> None:
    """The linter has nothing to say."""
    written = [block.file for block in followed[1] if block.kind in {"python", "diff"}]
    ruff = [sys.executable, "-m", "ruff"]
    for arguments in (["check"], ["format", "--check"]):
        outcome = subprocess.run(
            [*ruff, *arguments, *written], cwd=followed[0], capture_output=True, text=True, check=False
        )
        assert outcome.returncode == 0, outcome.stdout
