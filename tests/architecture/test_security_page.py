"""The security page names tests that prove its sentences: they exist."""

from __future__ import annotations

import ast
import re
from dataclasses import fields

import pytest

from ort_py import Limits
from tests.support.source_tree import ROOT

pytestmark = pytest.mark.quick

PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def test_every_test_that_the_page_names_exists() -> None:
    """Each is a function of the file that it is said to be in."""
    named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", PAGE)
    assert len(named) > 20
    functions = {path: _functions(path) for path, _ in named}
    assert [f"{path}::{name}" for path, name in named if name not in functions[path]] == []


def _functions(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_guarantee_has_a_row() -> None:
    """A number of each guarantee but those about code that is never loaded stands in the table of tests."""
    guarantees = {int(number) for number in re.findall(r"^(\d)\. \*\*", PAGE, re.MULTILINE)}
    groups = re.findall(r"^\|.*\(([\d, ]+)\) \|", PAGE, re.MULTILINE)
    rows = {int(number) for group in groups for number in group.split(", ")}
    assert guarantees - rows <= {5}


def test_every_limit_is_on_the_page() -> None:
    """A field of `Limits` that is not explained here would be missed by who runs a service."""
    assert [field.name for field in fields(Limits) if f"`{field.name}`" not in PAGE] == []
