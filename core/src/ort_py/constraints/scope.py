"""The arguments of a constraint: one node, with the known facts about its input tensors.

A constraint reads shapes and contents, says what must hold, and returns what it knows of the outputs. The same
constraint serves a node of a run, whose shapes are numbers, and a node of a region, whose shapes are `Size`s. It is
independent of regions or of how programs are run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from ort_py.constraints.program import CONTENT_LIMIT
from ort_py.constraints.sizes import (
    UNKNOWN,
    Amount,
    Condition,
    Size,
    Unknown,
    all_of,
    any_of,
    at_least,
    choose,
    equal,
    less,
    negated,
    product,
)
from ort_py.dtypes import DataType
from ort_py.lazy_dataclass import dataclass

Dims: TypeAlias = tuple[Amount, ...]
"""A shape of known rank."""

MALFORMED = (KeyError, TypeError, ValueError, OverflowError, AttributeError)
"""Raised by constraints if an attribute that the specification demands is missing, or is of another type."""


class Violation(Exception):
    """A node breaks a constraint of its operator, whatever the inputs of the run are."""


class Unchecked(Exception):
    """A constraint cannot be evaluated: a rank, or a list of sizes, is not known before the node runs."""


@dataclass(slots=True)
class Tensor:
    """Known facts about one tensor.

    Attributes:
        content: Its elements in order, where they are few and followed; None otherwise.
        constant: Gives its value, or the least and greatest values of its columns, where it is a constant.
        border: Number of the region's input that it is; None where it is computed or constant.
        elements: Gives `content` when it is first asked for; None where it cannot be had.
        bounds: Least and greatest value of its elements, where they follow from what made it.
        with_rank: Gives the shape if the tensor has this rank; None where no rank may be assumed.
            Only an input of the region whose rank the model does not state has it: each run compares the rank.
    """

    shape: Dims | None = None
    data_type: DataType | None = None
    content: Dims | None = None
    constant: Callable[[], np.ndarray[Any, Any] | None] | None = None
    border: int | None = None
    elements: Callable[[], Dims] | None = None
    bounds: tuple[Amount, Amount] | None = None
    with_rank: Callable[[int], Dims] | None = None


class Ledger(Protocol):
    """A record of constraints that are not decided yet."""

    def require(self, condition: Condition, text: str, numbers: Sequence[Amount]) -> None:
        """Note a condition that must hold in each run."""

    def require_elements(self, border: int, low: Amount, high: Amount, text: str) -> None:
        """Note that all elements of one of the region's inputs must lie between two numbers, both included."""

    def spend(self, work: Amount) -> None:
        """Note multiplications of a run."""

    def note_late(self, condition: Condition) -> None:
        """Do what `NodeScope.note_late` does."""


@dataclass(slots=True, eq=False)
class NodeScope:
    """One node while its constraint is evaluated."""

    op_type: str
    since_version: int
    attributes: Mapping[str, Any]
    inputs: Sequence[Tensor | None]
    outputs: int
    _ledger: Ledger

    # What is known ----------------------------------------------------------------------------------------------------

    def has(self, place: int) -> bool:
        return place < len(self.inputs) and self.inputs[place] is not None

    def tensor(self, place: int) -> Tensor:
        """An input."""
        found = self.inputs[place] if place < len(self.inputs) else None
        if found is None:
            raise Violation(f"input {place} is missing")
        return found

    def shape(self, place: int) -> Dims:
        """The shape of an input.

        Raises:
            Unchecked: Its rank is not known.
        """
        found = self.tensor(place).shape
        if found is None:
            raise Unchecked(f"the rank of input {place} is not known")
        return found

    def optional_shape(self, place: int) -> Dims | None:
        """The shape of an input that may be absent."""
        return self.shape(place) if self.has(place) else None

    def content(self, place: int) -> Dims:
        """The elements of an input of integers: axes, a shape, sizes.

        Raises:
            Unchecked: They are not known before the node runs.
            Violation: The input has more than one axis, or is absent.
        """
        self.tensor(place)
        found = self.optional_content(place)
        if found is None:
            raise Unchecked(f"the values of input {place} are not known before the node runs")
        return found

    def optional_content(self, place: int) -> Dims | None:
        """The same, None where the elements are not known or the input is absent.

        Raises:
            Violation: The input has more than one axis.
        """
        if not self.has(place):
            return None
        tensor = self.tensor(place)
        if tensor.shape is not None and len(tensor.shape) > 1:
            raise Violation(f"input {place} has {len(tensor.shape)} axes where a list of numbers has one")
        return content_of(tensor)

    def ints(self, name: str, default: Sequence[int] = ()) -> tuple[int, ...]:
        found = self.attributes.get(name)
        return tuple(default) if found is None else tuple(int(one) for one in found)

    def integer(self, name: str, default: int = 0) -> int:
        return int(self.attributes.get(name, default))

    def text(self, name: str, default: str = "") -> str:
        return str(self.attributes.get(name, default))

    # What must hold ---------------------------------------------------------------------------------------------------

    def require(self, condition: Condition, text: str, *numbers: Amount) -> None:
        """State a condition.

        Args:
            text: Message for the case that it does not: a format string.
            numbers: Arguments of the format string.

        Raises:
            Violation: It does not hold whatever the inputs are.
        """
        if condition is True:
            return
        if condition is False:
            raise Violation(text.format(*numbers))
        self._ledger.require(condition, text, numbers)

    def require_elements(self, tensor: Tensor, low: Amount, high: Amount, what: str) -> None:
        """State that all elements of a tensor lie between two numbers, both included.

        Args:
            what: Name of an element, e.g. ``"an index"``.

        Raises:
            Violation: An element lies outside whatever the inputs are.
            Unchecked: The elements are computed inside of the region.
        """
        text = what + " is out of range: {} is not between {} and {}"
        array = None if tensor.constant is None else tensor.constant()
        if array is not None:
            if array.size:
                least, most = int(array.min()), int(array.max())
                self.require(at_least(least, low), text, least, low, high)
                self.require(at_least(high, most), text, most, low, high)
            return
        content = content_of(tensor)
        if content is not None:
            for element in content:
                self.require(all_of(at_least(element, low), at_least(high, element)), text, element, low, high)
        elif tensor.bounds is not None:
            first, last = tensor.bounds
            self.require(all_of(at_least(first, low), at_least(high, last)), text, last, low, high)
        elif tensor.border is not None:
            self._ledger.require_elements(tensor.border, low, high, text)
        else:
            raise Unchecked(f"{what} is computed during the run")

    def require_same(self, place: int, shape: Dims, what: str) -> None:
        """State the shape of an input."""
        self._assume_rank(place, len(shape))
        found = self.shape(place)
        if len(found) != len(shape):
            raise Violation(f"{what} has {len(found)} axes instead of {len(shape)}")
        for axis, (one, wanted) in enumerate(zip(found, shape, strict=True)):
            self.require(equal(one, wanted), what + " has {} entries along axis {} instead of {}", one, axis, wanted)

    def require_rank(self, place: int, low: int, high: int | None = None) -> Dims:
        """The shape of an input, which must have so many axes.

        An input of the region whose rank the model does not state is taken to have the rank that is demanded, where
        only one is.

        Raises:
            Violation: It has fewer or more.
        """
        if low == high:
            self._assume_rank(place, low)
        shape = self.shape(place)
        if len(shape) < low or (high is not None and len(shape) > high):
            wanted = f"{low}" if low == high else f"at least {low}" if high is None else f"{low} to {high}"
            raise Violation(f"input {place} has {len(shape)} axes; {wanted} are needed")
        return shape

    def _assume_rank(self, place: int, rank: int) -> None:
        """Give an input of the region whose rank the model does not state the only rank that the operator takes."""
        tensor = self.tensor(place)
        if tensor.shape is None and tensor.with_rank is not None:
            tensor.shape = tensor.with_rank(rank)

    def spend(self, work: Amount) -> None:
        """Note multiplications that the node takes."""
        self._ledger.spend(work)

    # Arithmetic of axes and shapes ------------------------------------------------------------------------------------

    def axis(self, axis: int, rank: int, *, inclusive: bool = False) -> int:
        """Count an axis from the front.

        Raises:
            Violation: There is no such axis.
        """
        if not -rank <= axis <= (rank if inclusive else rank - 1):
            raise Violation(f"axis {axis} is out of range for {rank} axes")
        return axis + rank if axis < 0 else axis

    def axes(self, axes: Sequence[Amount], rank: int, *, distinct: bool = True) -> tuple[int, ...]:
        """Axes counted from the front.

        Raises:
            Violation: One does not exist, or is named twice.
            Unchecked: One is not known before the run.
        """
        found: list[int] = []
        for axis in axes:
            if not isinstance(axis, int):
                raise Unchecked("axes are computed while the model runs")
            found.append(self.axis(axis, rank))
        if distinct and len(set(found)) != len(found):
            raise Violation(f"axes {tuple(found)} name one axis twice")
        return tuple(found)

    def broadcast(self, *shapes: Dims) -> Dims:
        """The shape that several broadcast to."""
        rank = max((len(shape) for shape in shapes), default=0)
        result: list[Amount] = []
        for axis in range(-rank, 0):
            whole: Amount = 1
            for shape in shapes:
                size = shape[axis] if len(shape) >= -axis else 1
                if size is whole or (isinstance(size, int) and size == 1):
                    continue
                if isinstance(whole, int) and whole == 1:
                    whole = size
                    continue
                fits = any_of(equal(size, whole), equal(size, 1), equal(whole, 1))
                self.require(fits, "sizes {} and {} do not broadcast", size, whole)
                whole = choose(equal(whole, 1), size, whole)
            result.append(whole)
        for shape in shapes:
            for size, whole in zip(shape[::-1], result[::-1], strict=False):
                if isinstance(size, Size) and size is not whole:
                    self.note_late(all_of(equal(size, 1), negated(equal(whole, 1))))
        return tuple(result)

    def note_late(self, condition: Condition) -> None:
        """Note when a size repeats an operand, or is smaller than the window of a pool, though it may be any size."""
        self._ledger.note_late(condition)

    def spreads_to(self, place: int, target: Dims, what: str) -> None:
        """State that an input broadcasts to a shape without enlarging it."""
        shape = self.shape(place)
        if len(shape) > len(target):
            raise Violation(f"{what} has {len(shape)} axes, more than the {len(target)} that it is broadcast to")
        for size, wanted in zip(shape, target[len(target) - len(shape) :], strict=True):
            fits = any_of(equal(size, 1), equal(size, wanted))
            self.require(fits, what + " of size {} does not broadcast to {}", size, wanted)


Outputs: TypeAlias = Sequence["Tensor | Dims | None"]
"""A constraint's knowledge of each output: a tensor, a shape alone, or nothing."""

Constraint: TypeAlias = Callable[[NodeScope], Outputs]
"""The constraints of one operator: raises `Violation` or `Unchecked`, notes what is to be checked in each run."""


def content_of(tensor: Tensor) -> Dims | None:
    """The elements of a tensor in order, None where they are not followed."""
    if tensor.content is None and tensor.constant is not None and _is_short(tensor.shape):
        array = tensor.constant()
        if array is not None and array.dtype.kind in "iubf":
            tensor.content = tuple(array.reshape(-1).tolist())
    if tensor.content is None and tensor.elements is not None:
        tensor.content = tensor.elements()
    return tensor.content


def _is_short(shape: Dims | None) -> bool:
    count = None if shape is None else product(shape)
    return isinstance(count, int) and count <= CONTENT_LIMIT


def replaced(shape: Dims, axis: int, size: Amount) -> Dims:
    """A shape with another size along an axis."""
    return (*shape[:axis], size, *shape[axis + 1 :])


def clamped(value: Amount, low: Amount, high: Amount) -> Amount:
    """A number moved into a range."""
    if isinstance(value, Unknown) or isinstance(low, Unknown) or isinstance(high, Unknown):
        return UNKNOWN
    raised = choose(less(value, low), low, value)
    return choose(less(high, raised), high, raised)
