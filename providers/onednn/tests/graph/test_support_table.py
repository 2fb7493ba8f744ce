"""The table of families agrees with the rules that they declare."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

from ort_py_onednn.graph import support
from ort_py_onednn.graph.support.table import FAMILIES

_OTHERS = {"rule", "table"}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_listed_with_the_operators_it_declares(family: str) -> None:
    """A rule that is not listed would never be found."""
    rules = importlib.import_module(f"{support.__name__}.{family}").RULES
    assert {f"{domain}:{operator}".removeprefix(":") for domain, operator in rules} == set(FAMILIES[family].split())


def test_every_module_with_rules_is_listed() -> None:
    """A family is a module of the package."""
    modules = {module.name for module in pkgutil.iter_modules(support.__path__)} - _OTHERS
    assert {name for name in modules if hasattr(importlib.import_module(f"{support.__name__}.{name}"), "RULES")} == set(
        FAMILIES
    )
