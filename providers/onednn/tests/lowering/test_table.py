"""The table of lowering functions."""

from __future__ import annotations

import inspect

import pytest

from ort_py_onednn.lowering import table


@pytest.mark.parametrize("kind", sorted(table._PLACES))
def test_every_place_is_a_function_that_lowers_an_operation(kind: str) -> None:
    """It takes a planner and an operation, and it is found under the name that the table has."""
    found = table.LOWERINGS[kind]
    module, _, name = table._PLACES[kind].partition(".")
    assert (found.__module__, found.__name__) == (f"ort_py_onednn.lowering.{module}", name)
    assert list(inspect.signature(found).parameters)[:2] == ["planner", "operation"]


def test_a_kind_without_a_place_is_an_error() -> None:
    """Fusion makes kinds of this table only."""
    with pytest.raises(KeyError, match="NoSuchKind"):
        table.LOWERINGS["NoSuchKind"]
