"""Differences of two values that should be equal: errors, units in the last place, NaN, shapes and types.

Plain records with a text; `measuring` fills them in.
"""

from __future__ import annotations

import math

from ort_py.lazy_dataclass import dataclass
from ort_py.printable import one_line


@dataclass(frozen=True, slots=True)
class Deviation:
    """The difference of a value of `b` from the same value of `a`.

    Attributes:
        agrees: All is within the tolerance, non-finite numbers are at the same places, types and shapes are the same.
        reason: Kind of the difference: ``values``, ``nan``, ``infinity``, ``shape``, ``type`` or ``kind``; ``""`` where
            it agrees.
        element_type, shape: Type and shape of `a`; None if it is not an array.
        other_type, other_shape: Type and shape of `b`.
        elements: Number of elements.
        beyond: Elements beyond the tolerance.
        absolute, relative: Error of the worst element; of it alone, so that noise around zero does not count.
        ulp: Units in the last place between the two at the worst element; None for other than floating types.
        max_ulp: The same, of all elements.
        excess: Error of the worst element as a multiple of what is tolerated there; 1 is the limit.
        index: Place of the worst element.
        expected, found: The worst element of `a` and of `b`, as text.
        nan_only_a, nan_only_b: Elements that are NaN on one side only.
        infinite_only_a, infinite_only_b: The same for infinities, those of the other sign included.
        part: The element of a sequence, or key of a map, that this is about; ``""`` for arrays.
    """

    agrees: bool = True
    reason: str = ""
    element_type: str | None = None
    shape: tuple[int, ...] | None = None
    other_type: str | None = None
    other_shape: tuple[int, ...] | None = None
    elements: int = 0
    beyond: int = 0
    absolute: float = 0.0
    relative: float = 0.0
    ulp: int | None = None
    max_ulp: int | None = None
    excess: float = 0.0
    index: tuple[int, ...] = ()
    expected: str = ""
    found: str = ""
    nan_only_a: int = 0
    nan_only_b: int = 0
    infinite_only_a: int = 0
    infinite_only_b: int = 0
    part: str = ""

    def __str__(self) -> str:
        where = f"at {self.part}: " if self.part else ""
        if self.reason == "type":
            return f"{where}element type {self.element_type} in a, {self.other_type} in b"
        if self.reason == "shape":
            return f"{where}shape {_shape(self.shape)} in a, {_shape(self.other_shape)} in b"
        if self.reason == "kind":
            return f"{where}{self.expected} in a, {self.found} in b"
        if self.elements == 0 or (self.absolute == 0 and self.agrees):
            return f"{where}equal"
        parts = [f"{self.beyond} of {self.elements} elements beyond the tolerance"] if self.beyond else []
        for count, what in (
            (self.nan_only_a, "NaN in a only"),
            (self.nan_only_b, "NaN in b only"),
            (self.infinite_only_a, "infinite in a only"),
            (self.infinite_only_b, "infinite in b only"),
        ):
            parts += [f"{count} {what}"] if count else []
        place = "[" + ", ".join(map(str, self.index)) + "]"
        ulp = "" if self.ulp is None else f", {self.ulp} ulp"
        error = ""
        if math.isfinite(self.absolute):
            error = f" (absolute {self.absolute:.3g}, relative {self.relative:.3g}{ulp})"
        parts.append(f"worst at {place}: {self.expected} in a, {self.found} in b{error}")
        return where + "; ".join(parts)


@dataclass(frozen=True, slots=True)
class ValueSummary:
    """A value in a few numbers.

    Attributes:
        name: Its name in the model.
        element_type, shape: Type and shape of an array; else ``""`` and None.
        minimum, maximum: Extremes of its finite numbers; None where it has none.
        nan, infinite: Elements that are not finite numbers.
    """

    name: str
    element_type: str = ""
    shape: tuple[int, ...] | None = None
    minimum: float | None = None
    maximum: float | None = None
    nan: int = 0
    infinite: int = 0

    def __str__(self) -> str:
        if self.shape is None:
            return f"{one_line(self.name)}: no array"
        text = f"{one_line(self.name)}: {self.element_type}{_shape(self.shape)}"
        if self.minimum is not None:
            text += f" in [{self.minimum:.6g}, {self.maximum:.6g}]"
        text += f", {self.nan} NaN" if self.nan else ""
        return text + (f", {self.infinite} infinite" if self.infinite else "")


def _shape(shape: tuple[int, ...] | None) -> str:
    return "[]" if shape is None else "[" + ", ".join(map(str, shape)) + "]"
