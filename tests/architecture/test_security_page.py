"""The tests that the security page names exist, and every guarantee and limit is on it."""

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
    """Each is a function of the file that the page names."""
    named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", PAGE)
    assert len(named) > 20
    functions = {path: _functions(path) for path, _ in named}
    assert [f"{path}::{name}" for path, name in named if name not in functions[path]] == []


def _functions(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_guarantee_has_a_row() -> None:
    """The table of tests names the number of each guarantee."""
    guarantees = {int(number) for number in re.findall(r"^(\d)\. \*\*", PAGE, re.MULTILINE)}
    groups = re.findall(r"^\|.*\(([\d, ]+)\) \|", PAGE, re.MULTILINE)
    rows = {int(number) for group in groups for number in group.split(", ")}
    assert guarantees == rows


def test_every_limit_is_on_the_page() -> None:
    """The page explains every field of `Limits`, for those who run a service."""
    assert [field.name for field in fields(Limits) if f"`{field.name}`" not in PAGE] == []
