"""Optimisation profiles: the shapes of inputs that an engine is built for, and what follows for other shapes.

Sizes come from the model where it declares them, from options where they name the input, and otherwise from the first
run. A run outside of the profile widens it, and the engine is built again: sizes grow to the next power of two, so that
a sequence that becomes longer with each run is followed by few builds. Depends on neither the library nor a device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from ort_py.contracts import ValueSpec
from ort_py.errors import OptionError
from ort_py.lazy_dataclass import dataclass
from ort_py_tensorrt.wishes import Wishes

__all__ = ["Profile", "Range", "declared"]

Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Range:
    """Shapes of one input.

    Attributes:
        least: Smallest sizes.
        best: Sizes that the engine is optimised for.
        largest: Largest sizes.
    """

    least: Shape
    best: Shape
    largest: Shape

    def admits(self, shape: Shape) -> bool:
        """Return whether a shape lies inside."""
        return len(shape) == len(self.least) and all(
            low <= size <= high for low, size, high in zip(self.least, shape, self.largest, strict=True)
        )

    def widened(self, shape: Shape) -> Range:
        """Return a range that admits a shape too and is optimised for it."""
        largest = tuple(
            high if size <= high else 1 << (size - 1).bit_length()
            for size, high in zip(shape, self.largest, strict=True)
        )
        return Range(tuple(min(pair) for pair in zip(self.least, shape, strict=True)), shape, largest)


@dataclass(frozen=True, slots=True)
class Profile:
    """Shapes of all inputs of a region, in order.

    Attributes:
        names: Names of the inputs.
        ranges: Their shapes.
    """

    names: tuple[str, ...]
    ranges: tuple[Range, ...]

    @classmethod
    def of(cls, names: Sequence[str], shapes: Sequence[Shape]) -> Profile:
        """Return the profile of the shapes of one run."""
        return cls(tuple(names), tuple(Range(shape, shape, shape) for shape in shapes))

    @property
    def static(self) -> bool:
        """True if it admits one shape of each input."""
        return all(one.least == one.largest for one in self.ranges)

    def admits(self, shapes: Sequence[Shape]) -> bool:
        """Return whether an engine of this profile runs these shapes."""
        return all(one.admits(shape) for one, shape in zip(self.ranges, shapes, strict=True))

    def widened(self, shapes: Sequence[Shape]) -> Profile:
        """Return a profile that admits these shapes too and is optimised for them."""
        return Profile(self.names, tuple(one.widened(shape) for one, shape in zip(self.ranges, shapes, strict=True)))

    def to_json(self) -> list[list[Any]]:
        """Return plain data."""
        return [
            [name, list(one.least), list(one.best), list(one.largest)]
            for name, one in zip(self.names, self.ranges, strict=True)
        ]

    @classmethod
    def from_json(cls, data: Sequence[Sequence[Any]]) -> Profile:
        """Read what `to_json` returned."""
        ranges = tuple(Range(tuple(low), tuple(middle), tuple(high)) for _, low, middle, high in data)
        return cls(tuple(str(entry[0]) for entry in data), ranges)


def declared(inputs: Sequence[ValueSpec], wishes: Wishes) -> Profile | None:
    """Return the profile that the model and the options determine; None where only a run tells.

    Raises:
        OptionError: The options give an input another rank than the model, or sizes that it does not have.
    """
    ranges: list[Range] = []
    for value in inputs:
        shape = value.shape
        if shape is not None and all(isinstance(size, int) for size in shape):
            fixed: Shape = tuple(size for size in shape if isinstance(size, int))
            ranges.append(Range(fixed, fixed, fixed))
        elif value.name in wishes.least:
            ranges.append(_given(value, wishes))
        else:
            return None
    return Profile(tuple(value.name for value in inputs), tuple(ranges))


def _given(value: ValueSpec, wishes: Wishes) -> Range:
    found = [shapes[value.name] for shapes in (wishes.least, wishes.best, wishes.largest)]
    wanted = value.shape
    fits = wanted is None or all(
        len(shape) == len(wanted)
        and all(size == there for size, there in zip(shape, wanted, strict=True) if isinstance(there, int))
        for shape in found
    )
    if not fits:
        raise OptionError(
            f"The profile of input '{value.name}' does not fit the model.",
            why=f"the options say {', '.join(map(str, found))}, and the model {wanted}",
            fix="Give the sizes that the model fixes, and as many as the input has axes.",
        )
    return Range(*found)
