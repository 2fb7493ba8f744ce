"""The table of operator forms: functions that add a few nodes to a graph, each with a weight and a family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.fuzzing.builder import Builder

__all__ = ["FORMS", "Form", "form"]


@dataclass(frozen=True, slots=True)
class Form:
    """One way of adding nodes.

    Attributes:
        name: Of the function.
        family: Module it stands in.
        weight: How often it is drawn, relatively.
        add: Adds the nodes, or raises `Rejected`.
    """

    name: str
    family: str
    weight: float
    add: Callable[[Builder], None]


FORMS: list[Form] = []


def form(weight: float = 1.0) -> Callable[[Callable[[Builder], None]], Callable[[Builder], None]]:
    """Put a function into the table."""

    def register(add: Callable[[Builder], None]) -> Callable[[Builder], None]:
        FORMS.append(Form(add.__name__, add.__module__.rsplit(".", 1)[-1], weight, add))
        return add

    return register
