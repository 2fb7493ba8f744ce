"""The table finds the constraint of each operator in its family, and imports no other family for it."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

from core.tests.interpreters import answer
from ort_py.constraints import families
from ort_py.constraints.table import constraint_of

FAMILIES = [one.name for one in pkgutil.iter_modules(families.__path__)]


@pytest.mark.parametrize("family", FAMILIES)
def test_operators_of_a_family_are_found(family: str) -> None:
    """`numbers` has some of `elementwise` once more, because it follows their contents."""
    table = importlib.import_module(f"ort_py.constraints.families.{family}").TABLE
    numbers = importlib.import_module("ort_py.constraints.families.numbers").TABLE
    assert table
    for key, constraint in table.items():
        assert constraint_of(*key) is numbers.get(key, constraint)


@pytest.mark.parametrize("key", [("", "Nothing"), ("own", "Conv"), ("com.microsoft", "Gather")])
def test_other_operators_have_none(key: tuple[str, str]) -> None:
    assert constraint_of(*key) is None


def test_families_of_other_operators_are_not_imported() -> None:
    code = (
        "import sys\n"
        "from ort_py.constraints.table import constraint_of\n"
        "constraint_of('', 'Conv')\n"
        "print([name.rpartition('.')[2] for name in sys.modules if name.startswith('ort_py.constraints.families.')])"
    )
    assert answer(code) == "['windows']"
