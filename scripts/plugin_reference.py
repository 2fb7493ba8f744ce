"""Write `docs/plugin-author/reference.md`: everything that plug-ins import, with signatures and docstrings.

    python scripts/plugin_reference.py            # writes it
    python scripts/plugin_reference.py --check    # says whether it is up to date

Reads the sources, imports nothing: so the page is the same with every version of Python and of the dependencies.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent

_ROOT = Path(__file__).resolve().parent.parent
SOURCES = {"ort_py": _ROOT / "core" / "src", "ort_py_kit": _ROOT / "kit" / "src"}
TARGET = _ROOT / "docs" / "plugin-author" / "reference.md"

ROOMS = {
    "ort_py.contracts": "What a plug-in subclasses, fills in and is given.",
    "ort_py.hooks": "What a plug-in contributes, and what it may observe.",
    "ort_py_kit": "What its tests use.",
}

HEAD = """# Reference

Everything of ort-py that plug-ins import, made of the docstrings by `python scripts/plugin_reference.py`. Beside these,
plug-ins may import `ort_py.errors`, `ort_py.dtypes`, `ort_py.devices` and `ort_py.platform.forks`, which has locks and
pauses for libraries that must not be forked in the middle of a call. Nothing else of `ort_py` is promised to stay.
"""

_SPECIAL = {"__call__", "__iter__"}
"""Methods with names of Python's own that are part of a contract."""


def page() -> str:
    """The text of the page."""
    parts = [HEAD]
    for room, text in ROOMS.items():
        parts.append(f"\n## {room}\n\n{text}\n")
        for _, node, comment in _exported(room):
            parts.append("\n" + _entry(node, comment))
        if room == "ort_py.hooks":
            parts.append("\n" + _hooks())
    return "".join(parts)


def _exported(room: str) -> Iterator[tuple[str, ast.stmt, str]]:
    """Names of a room's ``__all__`` with the statements that define them, by module."""
    promised = set(importlib.import_module(room).__all__)
    tree = ast.parse((_path(room) / "__init__.py").read_text(encoding="utf-8"))
    imports = [statement for statement in ast.walk(tree) if isinstance(statement, ast.ImportFrom)]
    for statement in sorted(imports, key=lambda statement: statement.module or ""):
        file = _file(statement.module)
        if file is None:
            continue
        defined = {name: (node, comment) for name, node, comment in _definitions(file)}
        for alias in statement.names:
            if alias.name in promised and alias.name in defined:
                yield alias.name, *defined[alias.name]


def _path(module: str) -> Path:
    return SOURCES[module.partition(".")[0]] / module.replace(".", "/")


def _file(module: str | None) -> Path | None:
    """The file of a module of ours, None for packages and for other people's modules."""
    if module is None or module.partition(".")[0] not in SOURCES:
        return None
    file = _path(module).with_suffix(".py")
    return file if file.is_file() else None


def _definitions(file: Path, *, handed_on: bool = True) -> Iterator[tuple[str, ast.stmt, str]]:
    """Names that a module defines or re-exports: name, statement, and the text behind an assignment."""
    body = ast.parse(file.read_text(encoding="utf-8")).body
    for statement, following in zip(body, [*body[1:], None], strict=True):
        match statement:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield name, statement, ""
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name, statement, _comment(following)
            case ast.ImportFrom(module=str(module), names=names) if handed_on:
                wanted = {alias.name for alias in names}
                origin = _file(module)
                if origin is not None:
                    yield from (found for found in _definitions(origin, handed_on=False) if found[0] in wanted)


def _entry(node: ast.stmt, comment: str) -> str:
    match node:
        case ast.ClassDef():
            return _class(node)
        case ast.FunctionDef():
            return f"### `{node.name}`\n\n```python\n{_signature(node)}\n```\n\n{_text(node)}\n"
        case ast.Assign(targets=[target]):
            return f"### `{ast.unparse(target)}`\n\n{_plain(comment) or f'`{ast.unparse(node.value)}`'}\n"
        case ast.AnnAssign(target=target, value=value) if value is not None:
            return f"### `{ast.unparse(target)}`\n\n`{ast.unparse(value)}`\n\n{_plain(comment)}\n"
    raise TypeError(ast.dump(node))


def _class(node: ast.ClassDef) -> str:
    bases = ", ".join(ast.unparse(base) for base in node.bases if ast.unparse(base) not in {"ABC", "object"})
    lines = [f"### `{node.name}{f'({bases})' if bases else ''}`\n", _text(node), ""]
    for member, following in zip(node.body, [*node.body[1:], None], strict=True):
        match member:
            case ast.FunctionDef(name=name) if not name.startswith("_") or name in _SPECIAL:
                marks = {ast.unparse(decorator) for decorator in member.decorator_list}
                shown = name if "property" in marks else _signature(member)
                lines.append(_bullet(shown, _text(member)))
            case ast.Assign(targets=[ast.Name(id=name)]) if not name.startswith("_"):
                comment = _comment(following)
                lines.append(_bullet(f"{name} = {ast.unparse(member.value)}", _plain(comment)))
            case ast.AnnAssign(target=ast.Name(id=name)) if not name.startswith("_"):
                comment = _comment(following)
                default = f" = {ast.unparse(member.value)}" if member.value is not None else ""
                lines.append(_bullet(f"{name}: {ast.unparse(member.annotation)}{default}", _plain(comment)))
    return "\n".join(lines).rstrip() + "\n"


def _comment(following: ast.stmt | None) -> str:
    """The text that stands behind a definition, where one does."""
    if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
        return str(following.value.value)
    return ""


def _bullet(shown: str, text: str) -> str:
    return f"- `{shown}`" + (f"\n\n{indent(text, '  ')}\n" if text else "")


def _signature(node: ast.FunctionDef) -> str:
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    given = re.sub(r"^self(, )?", "", ast.unparse(node.args))
    return f"{node.name}({given}){returns}"


def _text(node: ast.ClassDef | ast.FunctionDef) -> str:
    return _plain(ast.get_docstring(node) or "")


def _plain(text: str) -> str:
    """A docstring as Markdown: sections in bold, their entries as lists, code as code."""
    text = re.sub(r"``([^`]+)``", r"`\1`", text.strip())
    lines: list[str] = []
    section = code = False
    for line in text.splitlines():
        heading = re.fullmatch(r"(Args|Attributes|Returns|Raises|Yields):", line)
        if heading:
            lines += [f"**{heading[1]}**", ""]
            section, code = heading[1] in {"Args", "Attributes", "Raises"}, False
        elif re.fullmatch(r"Example::", line):
            lines += ["**Example**", ""]
            section, code = False, True
        elif line and not line.startswith(" "):
            lines.append(line)
            section = code = False
        elif code:
            lines.append(line)
        elif section and re.match(r"    \S", line):
            name, colon, rest = line.strip().partition(":")
            lines.append(f"- `{name}`:{rest}" if colon else f"  {line.strip()}")
        else:
            lines.append(f"  {line.strip()}" if section and line.strip() else line.strip())
    return "\n".join(line.rstrip() for line in lines).strip()


def _hooks() -> str:
    """The hooks themselves, which are not names that anybody imports."""
    tree = ast.parse((_path("ort_py.hooks") / "specs.py").read_text(encoding="utf-8"))
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("ort_py_")]
    return "### Hooks\n\n" + "\n".join(_bullet(_signature(node), _text(node)) for node in found)


def main(arguments: list[str]) -> int:
    """Write the page, or with ``--check`` compare it; returns 1 where it is out of date."""
    text = page()
    if "--check" not in arguments:
        TARGET.write_text(text, encoding="utf-8", newline="\n")
        return 0
    if TARGET.is_file() and TARGET.read_text(encoding="utf-8") == text:
        return 0
    print(f"{TARGET.name} is out of date: run `python scripts/plugin_reference.py`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
