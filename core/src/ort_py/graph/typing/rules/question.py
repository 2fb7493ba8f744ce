"""The question that a rule is asked: one node with the types of its inputs, and what is known of their contents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ort_py.dtypes import DataType, Dim, Shape, TensorType, ValueType

Answer: TypeAlias = "Sequence[ValueType | None]"
"""Types of the first outputs; None for an unknown type."""

Rule: TypeAlias = "Callable[[Question], Answer]"

LARGEST = 2**31 - 1
"""Numbers beyond are left to ONNX's inference, which is not shown all of them."""


MOST_AXES = 64
"""Axes that arrays can have."""

MALFORMED = (ArithmeticError, LookupError, TypeError, ValueError)
"""Exceptions of a rule whose node has attributes or inputs that do not fit the operator."""


class Uncovered(Exception):
    """A rule leaves the node to ONNX's inference."""


class Unknown(Exception):
    """Nothing follows, because the type of an input is not known."""


UNKNOWN = object()
"""Stands for the type of an input that is there, while its type is not known."""


class Question:
    """One node.

    Attributes:
        version: Version of the operator's schema in force.
        types: Types of the inputs; None where an input is absent, and `UNKNOWN`.
        count: How many outputs the node has.
    """

    __slots__ = ("_contents", "attributes", "count", "op_type", "types", "version")

    def __init__(
        self,
        op_type: str,
        version: int,
        attributes: dict[str, Any],
        types: list[Any],
        count: int,
        contents: Callable[[int], np.ndarray[Any, Any] | None],
    ) -> None:
        self.op_type = op_type
        self.version = version
        self.attributes = attributes
        self.types = types
        self.count = count
        self._contents = contents

    def tensor(self, place: int) -> TensorType:
        """Type of an input that must be there, and be a tensor."""
        known = self.types[place] if place < len(self.types) else None
        if known.__class__ is not TensorType:
            raise Unknown if known is UNKNOWN else Uncovered
        return known

    def shape(self, place: int) -> Shape | None:
        """Shape of an input that must be there, and be a tensor; None where it is not known."""
        known = self.types[place] if place < len(self.types) else None
        return None if known is UNKNOWN else self.tensor(place).shape

    def is_given(self, place: int) -> bool:
        """Return whether an optional input is there."""
        return place < len(self.types) and self.types[place] is not None

    def numbers(self, place: int) -> list[int] | None:
        """Content of an input that is a list of numbers, or one number; None where it is not known."""
        if self.types[place] is UNKNOWN:
            return None
        kind = self.tensor(place)
        if kind.data_type not in _INTEGERS or len(kind.shape or ()) > 1:
            raise Uncovered
        array = self._contents(place)
        if array is None:
            return None
        return [int(one) for one in array.reshape(-1).tolist()]

    def values(self, place: int) -> list[Any] | None:
        """Content of an input of any numbers, in order; None where it is not known."""
        array = self._contents(place)
        return None if array is None else list(array.reshape(-1).tolist())

    def integer(self, name: str, default: int) -> int:
        """An attribute that is one number."""
        found = self.attributes.get(name, default)
        if not isinstance(found, int) or abs(found) > LARGEST:
            raise Uncovered
        return found

    def flag(self, name: str, *, default: bool) -> bool:
        """An attribute that is 0 or 1."""
        found = self.attributes.get(name, int(default))
        if found not in (0, 1):
            raise Uncovered
        return bool(found)

    def integers(self, name: str) -> list[int] | None:
        """An attribute that is a list of numbers; None where the node does not set it."""
        found = self.attributes.get(name)
        if found is None:
            return None
        if not isinstance(found, tuple) or any(not isinstance(one, int) or abs(one) > LARGEST for one in found):
            raise Uncovered
        return list(found)


_INTEGERS = (DataType.INT64, DataType.INT32)


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from the front."""
    if not -rank <= axis < rank:
        raise Uncovered
    return axis + rank if axis < 0 else axis


def axes_of(axes: Sequence[int], rank: int) -> list[int]:
    """Axes counted from the front, none of which may occur twice."""
    found = [axis_of(axis, rank) for axis in axes]
    if len(set(found)) < len(found):
        raise Uncovered
    return found


def agreed(one: Dim, other: Dim) -> Dim:
    """A size that is the same in two shapes: the number if one has it, else the first name."""
    if isinstance(other, int):
        if isinstance(one, int) and one != other:
            raise Uncovered
        return other
    return other if one is None else one


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """The shape of several broadcast to each other."""
    first = shapes[0]
    if all(shape == first for shape in shapes) and None not in first:
        return first
    rank = max([len(shape) for shape in shapes])
    sizes: list[Dim] = []
    for place in range(-rank, 0):
        number, names, unknown = 1, set[str](), False
        for shape in shapes:
            if len(shape) < -place:
                continue
            size = shape[place]
            if size.__class__ is int:
                if size != 1:
                    if number not in (1, size):
                        raise Uncovered
                    number = size
            elif isinstance(size, str):
                names.add(size)
            else:
                unknown = True
        if number != 1 or not (names or unknown):
            sizes.append(number)
        else:
            sizes.append(None if unknown or len(names) > 1 else names.pop())
    return tuple(sizes)


def unknown_sizes(rank: int) -> Shape:
    """A shape of which only the number of axes is known."""
    if not 0 < rank <= MOST_AXES:
        raise Uncovered
    return (None,) * rank
