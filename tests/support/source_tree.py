"""The repository's own Python files, parsed: for tests that look at the code instead of running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["ROOT", "Import", "code_words", "imports_of", "parsed", "python_files"]

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Import:
    """One imported module, with the place of the statement. `typing_only`: it never runs."""

    module: str
    file: Path
    line: int
    typing_only: bool

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line} imports {self.module}"


def python_files(*folders: str) -> list[Path]:
    """All Python files below folders of the repository, in order."""
    return sorted(file for folder in folders for file in (ROOT / folder).rglob("*.py"))


@cache
def parsed(file: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(file.read_text(encoding="utf-8"), str(file))


def imports_of(file: Path) -> Iterator[Import]:
    """Every import of a file, those inside functions too; ``from a.b import c`` counts as ``a.b.c``."""
    typing_only = _typing_only_lines(parsed(file))
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            yield Import(name, file, node.lineno, node.lineno in typing_only)


def code_words(file: Path) -> Iterator[tuple[str, int]]:
    """Names, imported modules and strings that are not documentation, each with its line."""
    documentation = {
        id(node.value)
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(parsed(file)):
        match node:
            case ast.Name(id=word) | ast.Attribute(attr=word) | ast.arg(arg=word) | ast.alias(name=word):
                yield word, node.lineno
            case ast.FunctionDef(name=word) | ast.ClassDef(name=word):
                yield word, node.lineno
            case ast.Constant(value=str(word)) if id(node) not in documentation:
                yield word, node.lineno


def _typing_only_lines(tree: ast.Module) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for statement in node.body:
                lines.update(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
    return lines
