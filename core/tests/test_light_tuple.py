"""Named tuples that are made quickly: as those of the standard library."""

from __future__ import annotations

import copy
import inspect
import pickle
import typing
from collections.abc import Callable
from typing import Any

import pytest

from ort_py.light_tuple import NamedTuple


class Point(NamedTuple):
    """A point."""

    x: int
    y: int = 2
    label: str = "p"

    def doubled(self) -> Point:
        """Twice as far."""
        return self._replace(x=2 * self.x, y=2 * self.y)

    @staticmethod
    def origin() -> Point:
        return Point(0, 0)

    @property
    def both(self) -> tuple[int, int]:
        return self[:2]


class Standard(typing.NamedTuple):
    """A point."""

    x: int
    y: int = 2
    label: str = "p"


class Nothing(NamedTuple):
    pass


PAIR: Any = (Point, Standard)
MAKER: Any = type(NamedTuple)


@pytest.mark.parametrize(
    "ask",
    [
        lambda cls: cls(1),
        lambda cls: cls(1, label="q"),
        lambda cls: repr(cls(1)).partition("(")[2],
        lambda cls: cls._fields,
        lambda cls: cls._field_defaults,
        lambda cls: cls.__match_args__,
        lambda cls: cls.__doc__,
        lambda cls: cls.__bases__,
        lambda cls: cls.__slots__,
        lambda cls: cls._make([3, 4, "z"]),
        lambda cls: cls(1)._asdict(),
        lambda cls: cls(1)._replace(y=5),
        lambda cls: (cls(1) == (1, 2, "p"), hash(cls(1)) == hash((1, 2, "p")), cls(1) < cls(2)),
        lambda cls: [(one.name, one.default) for one in inspect.signature(cls.__new__).parameters.values()],
        typing.get_type_hints,
        lambda cls: cls.x.__doc__,
        lambda cls: pickle.loads(pickle.dumps(cls(1, 7))),
        lambda cls: copy.deepcopy(cls(1, 8)),
    ],
)
def test_like_the_standard_library(ask: Callable[[Any], Any]) -> None:
    light, standard = (ask(cls) for cls in PAIR)
    assert light == standard
    assert type(light).__name__ in (type(standard).__name__, "Point")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda cls: cls(),
        lambda cls: cls(1, 2, "p", 4),
        lambda cls: cls(1, z=1),
        lambda cls: cls._make([1]),
        lambda cls: cls(1)._replace(z=1),
        lambda cls: setattr(cls(1), "x", 2),
        lambda cls: setattr(cls(1), "other", 2),
    ],
)
def test_what_is_wrong_is_refused_likewise(wrong: Callable[[Any], Any]) -> None:
    with pytest.raises((TypeError, ValueError, AttributeError)) as expected:
        wrong(Standard)
    with pytest.raises(expected.type):
        wrong(Point)


def test_methods_of_the_class() -> None:
    assert Point(1).doubled() == Point(2, 4)
    assert Point.origin() == (0, 0, "p")
    assert Point(3).both == (3, 2)


def test_a_class_without_fields() -> None:
    assert Nothing() == ()


def test_a_pattern_takes_fields_by_place() -> None:
    match Point(5, 6):
        case Point(5, y):
            assert y == 6


def test_a_field_without_a_default_behind_one_with_a_default_is_refused() -> None:
    with pytest.raises(TypeError, match="without a default follows one with a default"):
        MAKER("Wrong", (NamedTuple,), {"__annotations__": {"a": "int", "b": "int"}, "a": 1})


def test_fields_are_public() -> None:
    with pytest.raises(ValueError, match="begins with an underscore"):
        MAKER("Wrong", (NamedTuple,), {"__annotations__": {"_a": "int"}})


def test_other_bases_are_refused() -> None:
    with pytest.raises(TypeError, match="has bases besides NamedTuple"):
        MAKER("Wrong", (NamedTuple, int), {})
