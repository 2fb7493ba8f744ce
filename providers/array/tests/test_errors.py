"""Every error of the library says what to do about it: found in the source, so that no branch has to be run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import ort_py_array
from ort_py import errors

_SOURCE = Path(ort_py_array.__file__).parent

_ERRORS = {name for name, one in vars(errors).items() if isinstance(one, type) and issubclass(one, errors.OrtPyError)}


def _without_fix(text: str) -> Iterator[int]:
    """Lines in which an error of `ort_py.errors` is made without `fix`."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if name in _ERRORS and not any(keyword.arg == "fix" for keyword in node.keywords):
                yield node.lineno


def test_an_error_without_fix_is_found() -> None:
    """Also where the class is reached through its module, or the error is handed on."""
    text = 'raise InvalidArgument("a", where=w)\nx = errors.NotImplemented("b")\nraise InvalidGraph("c", fix="d")\n'
    assert list(_without_fix(text)) == [1, 2]


def test_every_error_says_what_to_do() -> None:
    """No kernel leaves its reader alone with what went wrong."""
    missing = [
        f"{path.relative_to(_SOURCE)}:{line}"
        for path in sorted(_SOURCE.rglob("*.py"))
        for line in _without_fix(path.read_text(encoding="utf-8"))
    ]
    assert missing == []
