"""Lists what onnxruntime's subpackages define and ort-py's do not: ``core/src/ort_py/compat/absent.toml``.

Reads the Python files of the installed onnxruntime and of ort-py without importing either. Run it after raising the
emulated release or after adding a name: ``python scripts/absent_names.py``. The drop-in tests compare the file with
what this would write.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Names", "absent", "rendered"]

SOURCES = Path(__file__).resolve().parents[1] / "core" / "src"
TABLE = SOURCES / "ort_py" / "compat" / "absent.toml"
SUBPACKAGES = ("quantization", "tools", "transformers")
GENERATED = "ort_flatbuffers_py"
"""Classes that a compiler of file formats wrote: only onnxruntime's own converter imports them."""
_ENUMERATIONS = {"Enum", "IntEnum", "IntFlag"}


@dataclass
class Names:
    """Names that one module defines: each kind has its own stand-in.

    Attributes:
        package: Whether modules lie below it.
        classes, functions: Their names.
        values: Constants that are plain: numbers, texts, lists of them.
        enums: Members by enumeration.
        tables: Keys of each constant that maps texts to classes.
        imported: Names from other modules of onnxruntime, by module.
    """

    package: bool = False
    classes: list[str] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    enums: dict[str, dict[str, Any]] = field(default_factory=dict)
    tables: dict[str, list[str]] = field(default_factory=dict)
    imported: dict[str, list[str]] = field(default_factory=dict)

    def all(self) -> set[str]:
        """Every name."""
        imported = [name for names in self.imported.values() for name in names]
        return {*self.classes, *self.functions, *self.values, *self.enums, *self.tables, *imported}

    def without(self, present: set[str]) -> Names:
        """The names that a module lacks."""

        def lacks(name: str) -> bool:
            return name not in present

        return Names(
            self.package,
            [name for name in self.classes if lacks(name)],
            [name for name in self.functions if lacks(name)],
            {name: value for name, value in self.values.items() if lacks(name)},
            {name: value for name, value in self.enums.items() if lacks(name)},
            {name: value for name, value in self.tables.items() if lacks(name)},
            {
                module: kept
                for module, names in self.imported.items()
                if (kept := [name for name in names if lacks(name)])
            },
        )


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a module, those in its conditions too, not those in its classes and functions."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If | ast.Try):
            if isinstance(statement, ast.If) and ast.unparse(statement.test) == "__name__ == '__main__'":
                continue
            yield from _statements(statement.body)
            yield from _statements(statement.orelse)


def _literal(node: ast.expr | None) -> Any:
    try:
        return None if node is None else ast.literal_eval(node)
    except ValueError:
        return None


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float) or (
        isinstance(value, list) and bool(value) and all(isinstance(item, str | int | float) for item in value)
    )


def _base(module: str, is_package: bool, level: int) -> str:
    parts = module.split(".")
    return ".".join(parts[: len(parts) - level + is_package])


def _read(path: Path, module: str, modules: set[str]) -> Names:
    is_package = path.name == "__init__.py"
    found = Names(is_package)
    mappings: dict[str, list[str]] = {}
    for statement in _statements(ast.parse(path.read_bytes()).body):
        if isinstance(statement, ast.ClassDef):
            bases = {ast.unparse(base).rpartition(".")[2] for base in statement.bases}
            if bases & _ENUMERATIONS:
                found.enums[statement.name] = {
                    item.targets[0].id: value
                    for item in statement.body
                    if isinstance(item, ast.Assign)
                    and isinstance(item.targets[0], ast.Name)
                    and (value := _literal(item.value)) is not None
                }
            else:
                found.classes.append(statement.name)
        elif isinstance(statement, ast.FunctionDef):
            found.functions.append(statement.name)
        elif isinstance(statement, ast.Assign) and isinstance(target := statement.targets[0], ast.Name):
            value = statement.value
            if _is_plain(plain := _literal(value)):
                found.values[target.id] = plain
            elif isinstance(value, ast.Dict) and all(isinstance(_literal(key), str) for key in value.keys):
                mappings[target.id] = [_literal(key) for key in value.keys]
        elif isinstance(statement, ast.Expr) and isinstance(call := statement.value, ast.Call):
            if (
                isinstance(call.func, ast.Attribute)
                and call.func.attr == "update"
                and isinstance(call.func.value, ast.Name)
            ):
                more = [mappings.get(other.id, []) for other in call.args if isinstance(other, ast.Name)]
                if call.func.value.id in mappings:
                    mappings[call.func.value.id] += [key for keys in more for key in keys]
        elif isinstance(statement, ast.ImportFrom):
            origin = statement.module or ""
            if statement.level:
                origin = f"{_base(module, is_package, statement.level)}.{origin}".strip(".")
            elif origin.startswith("onnxruntime."):
                origin = origin.removeprefix("onnxruntime.")
            else:  # some import their neighbours without saying the package
                origin = f"{module.rpartition('.')[0]}.{origin}"
            if origin in modules:
                below = {alias.name for alias in statement.names if f"{origin}.{alias.name}" in modules}
                names = [a.name for a in statement.names if a.name not in below and not (a.asname or a.name[0] in "*_")]
                if names:
                    found.imported.setdefault(origin, []).extend(names)
    found.tables = mappings
    for kind in (found.classes, found.functions):
        kind[:] = sorted({name for name in kind if not name.startswith("_")})
    for table in (found.values, found.enums, found.tables):
        for name in [name for name in table if name.startswith("_")]:
            del table[name]
    return found


def _bound(path: Path) -> set[str]:
    """Names that a module of ort-py binds."""
    bound: set[str] = set()
    for statement in _statements(ast.parse(path.read_bytes()).body):
        if isinstance(statement, ast.ClassDef | ast.FunctionDef):
            bound.add(statement.name)
        elif isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*":
            bound |= _bound(SOURCES / f"{(statement.module or '').replace('.', '/')}.py")
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            bound |= {(alias.asname or alias.name).partition(".")[0] for alias in statement.names}
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            bound |= {target.id for target in targets if isinstance(target, ast.Name)}
    return bound


def absent() -> dict[str, Names]:
    """Names that ort-py lacks, by module below ``onnxruntime``."""
    specification = importlib.util.find_spec("onnxruntime")
    if specification is None or not specification.submodule_search_locations:
        raise SystemExit("onnxruntime is not installed.")
    root = Path(next(iter(specification.submodule_search_locations)))
    files: dict[str, Path] = {}
    for subpackage in SUBPACKAGES:
        for path in sorted((root / subpackage).rglob("*.py")):
            folders = path.relative_to(root).parts[:-1]
            if GENERATED in folders or not all(
                (root.joinpath(*folders[: n + 1]) / "__init__.py").exists() for n in range(len(folders))
            ):
                continue
            files[".".join((*folders, *(() if path.name == "__init__.py" else (path.stem,))))] = path
    modules = set(files)
    lacking: dict[str, Names] = {}
    read = {module: _read(path, module, modules) for module, path in files.items()}
    for module, names in read.items():
        for origin, imported in names.imported.items():
            own = _own_file(origin)
            given = read[origin].all() | (_bound(own) if own else set())
            imported[:] = [name for name in imported if name in given]
        names.imported = {origin: imported for origin, imported in names.imported.items() if imported}
        own = _own_file(module)
        left = names if own is None else names.without(_bound(own))
        if own is None or left != Names(left.package):
            lacking[module] = left
    return dict(sorted(lacking.items()))


def _own_file(module: str) -> Path | None:
    base = TABLE.parents[1].joinpath(*module.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.exists()), None)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return (
        '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
        if isinstance(value, str)
        else repr(value)
    )


def _key(key: str) -> str:
    return f'"{key}"' if "." in key else key


def rendered(modules: dict[str, Names]) -> str:
    """The file's text."""
    lines = [
        "# Modules and names of onnxruntime's subpackages that ort-py lacks. Written by scripts/absent_names.py.",
    ]
    for module, names in modules.items():
        lines.append(f'\n["{module}"]')
        if names.package:
            lines.append("package = true")
        for kind in ("classes", "functions", "values", "enums", "tables", "imported"):
            content = getattr(names, kind)
            if not content:
                continue
            if isinstance(content, list):
                lines.append(f"{kind} = {_toml(content)}")
            else:
                lines += [f"{kind}.{_key(key)} = {_toml(item)}" for key, item in content.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TABLE.write_text(rendered(absent()), encoding="utf-8")
    sys.stdout.write(f"{TABLE}\n")
