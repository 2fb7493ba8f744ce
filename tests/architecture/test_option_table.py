"""`docs/user/options.md` says what the tables of options say, and the tables say what the sources do."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import option_table
import pytest

from ort_py.options import RunOptions, SessionOptions, specs_of
from ort_py.options.config_entries import RUN_ENTRIES, SESSION_ENTRIES
from ort_py.options.option_set import OptionSet
from ort_py.options.spec import Effect
from tests.support.source_tree import ROOT, python_files

TABLES = (ROOT / "core/src/ort_py/options", ROOT / "core/src/ort_py/discovery/known_names.py")
"""Where options are declared and checked: what is named there is not thereby used."""


def nodes() -> Iterator[ast.AST]:
    """All syntax of the core outside of the tables."""
    for file in python_files("core/src/ort_py"):
        if not any(file.is_relative_to(table) for table in TABLES):
            yield from ast.walk(ast.parse(file.read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def texts() -> set[str]:
    """Every string constant that some code contains."""
    return {node.value for node in nodes() if isinstance(node, ast.Constant) and isinstance(node.value, str)}


@pytest.fixture(scope="module")
def attributes_read() -> set[str]:
    """Every attribute that some code reads."""
    return {node.attr for node in nodes() if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}


def test_the_page_is_current() -> None:
    """Written again it is the same."""
    text = option_table.TARGET.read_text(encoding="utf-8")
    assert text == option_table.page(), "run `python -m scripts.option_table`"


def test_the_page_has_every_option() -> None:
    """A row for each attribute and each key."""
    rows = {line.split("`")[1] for line in option_table.page().splitlines() if line.startswith("| `")}
    names = {spec.name for kind in (SessionOptions, RunOptions) for spec in specs_of(kind)}
    assert names | set(SESSION_ENTRIES) | set(RUN_ENTRIES) <= rows


def test_config_keys_have_an_effect_where_code_names_them(texts: set[str]) -> None:
    """A key that is said to have none is named nowhere, and one that is said to have one is named somewhere."""
    table = {**SESSION_ENTRIES, **RUN_ENTRIES}
    in_checks = {"memory.enable_memory_arena_shrinkage", "session.fast_math"}  # read by functions of the table's room
    named = {key for key in table if key in texts} | in_checks
    assert named == {key for key, spec in table.items() if spec.effect is not Effect.NONE}


@pytest.mark.parametrize("kind", [SessionOptions, RunOptions])
def test_attributes_have_an_effect_where_code_reads_them(kind: type[OptionSet], attributes_read: set[str]) -> None:
    """An attribute that is said to have none is read nowhere, and one that is said to have one is read somewhere."""
    read_by_the_room = {"enable_mem_pattern", "enable_mem_reuse", "fast_math", "memory_limit_bytes"}
    specs = specs_of(kind)
    read = {spec.name for spec in specs if spec.name in attributes_read | read_by_the_room}
    assert read == {spec.name for spec in specs if spec.effect is not Effect.NONE}
