"""Dependencies between modules: no circles of imports, and only owners use private names of sessions and engines."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.source_tree import ROOT, parsed, python_files

SOURCES = {"core/src/ort_py": ROOT / "core" / "src", "kit/src/ort_py_kit": ROOT / "kit" / "src"}

LARGEST_CIRCLE = 2
"""Two modules that know each other are one idea in two files; three are a knot."""

OWNED = {"session", "engine"}
"""What variables and attributes that hold a session or an engine are called."""


def _modules() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for package, root in SOURCES.items():
        for file in python_files(package):
            parts = list(file.relative_to(root).with_suffix("").parts)
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def _imported(file: Path, modules: dict[str, Path]) -> set[str]:
    """Modules of the core and the kit that a file imports, inside functions and for types only too."""
    found: set[str] = set()
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names & set(modules) or {node.module}
    return found & set(modules)


def _circles() -> list[set[str]]:
    """Groups of modules each of which imports, by way of others, all of the group."""
    modules = _modules()
    graph = {name: _imported(file, modules) - {name} for name, file in modules.items()}
    reached: dict[str, set[str]] = {}
    for start, direct in graph.items():
        seen: set[str] = set()
        pending = [*direct]
        while pending:
            name = pending.pop()
            if name not in seen:
                seen.add(name)
                pending += graph[name]
        reached[start] = seen
    groups = {frozenset({name, *(one for one in seen if name in reached[one])}) for name, seen in reached.items()}
    return [set(group) for group in groups if len(group) > LARGEST_CIRCLE]


def test_no_circle_of_imports_is_larger_than_two_modules() -> None:
    """Imports for types count, and those inside functions: who needs another's type knows it."""
    assert sorted(map(sorted, _circles())) == []


def _name(node: ast.expr) -> str:
    """The last word of ``session``, ``self._session`` or ``session.engine``."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _touches(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of each access to a private name of a session or an engine, by attribute or by `getattr`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner, private = node.value, node.attr
        elif (
            isinstance(node, ast.Call)
            and _name(node.func) in {"getattr", "setattr", "hasattr", "delattr"}
            and len(node.args) > 1
            and isinstance(node.args[1], ast.Constant)
        ):
            owner, private = node.args[0], str(node.args[1].value)
        else:
            continue
        if private.startswith("_") and not private.startswith("__") and _name(owner).lstrip("_") in OWNED:
            yield node.lineno, ast.unparse(node)


def test_nobody_touches_private_names_of_sessions_and_engines() -> None:
    """Members that other modules need of a session or an engine are public."""
    folders = ("core/src", "kit/src", "providers", "benchmarks", "examples")
    files = [file for file in python_files(*folders) if "tests" not in file.parts]
    wrong = [f"{file.relative_to(ROOT)}:{line}: {text}" for file in files for line, text in _touches(parsed(file))]
    assert wrong == []


def test_private_names_are_found_by_any_spelling() -> None:
    """The search itself finds attributes, attributes of attributes, and `getattr`."""
    program = (
        "session._x; self._session._x; session.engine._x; getattr(engine, '_x'); self._x; session.x; session.__dict__"
    )
    assert len(list(_touches(ast.parse(program)))) == 4
