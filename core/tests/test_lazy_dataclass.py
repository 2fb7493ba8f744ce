"""Data classes whose methods are made late; the oracle is the decorator of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import field
from functools import partial
from operator import ge, gt, le, lt
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from ort_py.lazy_dataclass import dataclass

T = TypeVar("T")
SETTINGS: list[dict[str, bool]] = [
    {},
    {"frozen": True},
    {"slots": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "kw_only": True},
    {"frozen": True, "slots": True, "order": True},
    {"slots": True, "eq": False},
    {"frozen": True, "eq": False},
    {"repr": False},
]


def _point() -> type[Any]:
    class Point:
        """A point."""

        kind: ClassVar[str] = "point"
        x: int
        y: float = 1.5
        names: list[str] = field(default_factory=list, compare=False)
        hidden: int = field(default=7, repr=False, hash=False)
        seen: int = field(default=3, init=False)
        made: dict[str, int] = field(default_factory=dict, init=False, compare=False)

        def norm(self) -> float:
            """The norm of the point."""
            return abs(self.x) + self.y

    return Point


def decorated(decorator: Any, make: Callable[[], type[Any]], settings: dict[str, bool]) -> Any:
    """A new class, decorated."""
    return decorator(**settings)(make())


def _both(make: Callable[[], type[Any]], **settings: bool) -> tuple[Any, Any]:
    """The same class by both decorators."""
    return decorated(dataclass, make, settings), decorated(dataclasses.dataclass, make, settings)


def _shown(call: Callable[[], Any]) -> Any:
    """The result of a call, or its error."""
    try:
        return call()
    except (TypeError, AttributeError) as error:
        # The words for a wrong call name the class or the method, depending on the version.
        return type(error)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_instances_are_those_of_the_standard_library(settings: dict[str, bool]) -> None:
    """Construction, text, comparison, order and hashes."""
    found = []
    for cls in _both(_point, **settings):
        one, same, other = cls(x=1), cls(x=1, names=["a"]), cls(x=2, y=0.5, hidden=9)
        pairs = [(a, b) for a in (one, same, other) for b in (one, same, other, 1)]
        found.append(
            [
                _shown(partial(cls, 1)) is TypeError,
                _shown(cls),
                _shown(partial(cls, 1, seen=2)),
                [dataclasses.asdict(item) for item in (one, same, other)],
                [repr(item) for item in (one, other) if settings.get("repr", True)],
                [a == b for a, b in pairs],
                [_shown(partial(compare, a, b)) for a, b in pairs for compare in (lt, le, gt, ge)],
                [_shown(partial(hash, item)) for item in (one, other) if settings.get("eq", True)],
                dataclasses.replace(one, y=9.0).y,
                cls.kind,
                one.norm(),
                str(inspect.signature(cls)).replace("_HAS_DEFAULT_FACTORY", "").replace(" 'None'", " None"),
                cls.__match_args__,
                hasattr(one, "__dict__"),
                one.made is not same.made,
            ]
        )
    assert found[0] == found[1]


@pytest.mark.parametrize("settings", [one for one in SETTINGS if one.get("frozen")], ids=str)
def test_fields_of_frozen_instances_do_not_change(settings: dict[str, bool]) -> None:
    """Neither by assignment nor by deletion, and other attributes are not added."""
    one = decorated(dataclass, _point, settings)(x=1)
    for name in ("x", "other"):
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field"):
            setattr(one, name, 2)
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field"):
            delattr(one, name)


@dataclass(frozen=True, slots=True)
class Base(Generic[T]):
    """A generic class with a check."""

    value: T
    checks: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.checks.append("base")


@dataclass(frozen=True, slots=True)
class Derived(Base[int]):
    """Has a field of its own, and the check of its base."""

    extra: str = "e"


class Plain(Base[int]):
    """Uses what its base has."""


def test_a_derived_class_has_the_fields_of_its_base_first() -> None:
    """The check of the base is called once, whichever class is used first."""
    assert repr(Plain(3)) == "Plain(value=3, checks=['base'])"
    assert repr(Derived(1, [], "f")) == "Derived(value=1, checks=['base'], extra='f')"
    assert Derived(1) != Base(1)


def test_instances_are_copied_and_pickled() -> None:
    """Frozen instances with slots need methods of their own for it."""
    one = Derived(1, extra="g")
    for other in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert other == one
        assert other is not one


def test_a_method_in_the_class_stays() -> None:
    """The result equals that of the standard decorator."""

    @dataclass(frozen=True)
    class Own:
        """Has an initialiser, a text, an equality and a hash."""

        x: int

        def __init__(self) -> None:
            object.__setattr__(self, "x", 5)

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 1

    assert (repr(Own()), Own() == 3, hash(Own()), Own().x) == ("own", True, 1, 5)


def test_a_class_that_contains_itself_has_a_text() -> None:
    """The inner one is shown as three dots."""

    @dataclass
    class Node:
        """Refers to another."""

        next: Any = None

    node = Node()
    node.next = node
    assert repr(node).endswith("Node(next=...)")


def test_initialisers_are_compiled_when_a_class_is_used_often(tmp_path: Path) -> None:
    """Neither importing a module nor the first instances of a class compile anything, and no process did so before."""
    program = (
        "import builtins\nfrom ort_py.lazy_dataclass import dataclass\n"
        "calls, plain = [], builtins.compile\n"
        "builtins.compile = lambda *given: calls.append(given[0]) or plain(*given)\n"
        "@dataclass(frozen=True, slots=True)\nclass A:\n    '''A.'''\n    x: int\n"
        "made = [A(1), A(x=2)]\nassert calls == []\n"
        "made += [A(number) for number in range(3, 20)]\nassert len(calls) == 1\n"
        "assert [one.x for one in made] == list(range(1, 20))\n"
        "@dataclass(frozen=True, slots=True)\nclass B:\n    '''B.'''\n    y: int\n"  # of the same code
        "assert [B(y=number).y for number in range(20)] == list(range(20)) and len(calls) == 1\n"
    )
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path)}  # away from what processes keep of their code
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


def test_a_field_without_a_default_does_not_follow_one_with_a_default() -> None:
    @dataclass
    class Wrong:
        first: int = 1
        second: int  # type: ignore[misc]

    with pytest.raises(TypeError, match="Wrong without a default"):
        inspect.signature(Wrong)


CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((1,), {}),
    ((1, 2.5, ["n"], 4), {}),
    ((1, 2.5, ["n"], 4, 5), {}),
    ((), {"x": 1, "hidden": 2}),
    ((1,), {"x": 1}),
    ((1,), {"other": 1}),
    ((), {"y": 1.0}),
    ((1,), {"seen": 1}),
]


@pytest.mark.parametrize("call", CALLS, ids=str)
@pytest.mark.parametrize("settings", SETTINGS[:5], ids=str)
def test_the_first_instances_are_filled_as_later_ones(settings: dict[str, bool], call: Any) -> None:
    """The initialiser that is not compiled yet takes and refuses the same arguments."""
    args, named = call
    late, standard = _both(_point, **settings)
    shown = [_shown(lambda: dataclasses.asdict(standard(*args, **named))) for _ in range(9)]
    assert [_shown(lambda: dataclasses.asdict(late(*args, **named))) for _ in range(9)] == shown


@pytest.mark.parametrize(
    "decorators",
    [(dataclass, dataclasses.dataclass), (dataclasses.dataclass, dataclass)],
    ids=("late", "standard"),
)
def test_classes_derive_from_those_of_the_other_decorator(decorators: tuple[Any, Any]) -> None:
    """Fields, parameters and defaults of the base come first, and a default may be replaced."""

    class Parent:
        first: int
        second: str = "s"

    base: Any = decorators[0](Parent)

    class Child(base):  # type: ignore[misc]
        second: str = "t"
        third: list[int] = field(default_factory=list)

    child = decorators[1](Child)
    assert [one.name for one in dataclasses.fields(child)] == ["first", "second", "third"]
    assert dataclasses.astuple(child(1)) == (1, "t", [])
    assert dataclasses.replace(child(1, third=[2]), first=3) == child(3, "t", [2])
    assert child.__match_args__ == ("first", "second", "third")


def test_fields_are_examined_when_they_are_asked_for() -> None:
    """The standard library sees the fields that it would have made itself."""
    late, standard = _both(_point, frozen=True, slots=True)
    assert dataclasses.is_dataclass(late)
    assert [repr(one) for one in dataclasses.fields(late)] == [repr(one) for one in dataclasses.fields(standard)]


def test_a_mutable_default_is_refused() -> None:
    """Instances would share it."""
    with pytest.raises(ValueError, match="default_factory"):

        @dataclass
        class Wrong:
            values: list[int] = []  # noqa: RUF012 - what is refused
