"""Sums of symbolic sizes: past + new positions, and what is left where a part is taken away again.

Used by `number_rules` and `shape_data`, between them only: a sum is a number of unknown value that is known to be made
of sizes. It stands for itself, never for the size that a model happens to call "a + b", so types never hold one.
"""

from __future__ import annotations

from ort_py.dtypes import Dim

_MOST_PARTS = 4
"""Parts of a sum that is followed."""


class SizeSum(str):
    """A name for the sum of sizes: equal to sums of the same sizes, in whatever order, and to no other name.

    Like any size it is not negative, so that rules may treat it as a name.
    """

    __slots__ = ("parts",)

    parts: tuple[str, ...]

    def __new__(cls, parts: tuple[str, ...]) -> SizeSum:
        ordered = tuple(sorted(parts))
        made = super().__new__(cls, " + ".join(ordered))
        made.parts = ordered
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SizeSum) and self.parts == other.parts

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.parts)


def added(a: Dim, b: Dim) -> Dim:
    """The sum of two sizes. None if one is unknown, or if one is a number other than 0."""
    if a == 0 or b == 0:
        return b if a == 0 else a
    if not isinstance(a, str) or not isinstance(b, str):
        return None
    return _named([*parts_of(a), *parts_of(b)])


def taken_from(whole: Dim, part: Dim) -> Dim:
    """The rest of a size after another is subtracted, if the one contains the other as a summand; else None."""
    if part == 0:
        return whole
    if not isinstance(whole, str) or not isinstance(part, str):
        return None
    left = parts_of(whole)
    for name in parts_of(part):
        if name not in left:
            return None
        left.remove(name)
    return _named(left)


def in_types(size: Dim) -> Dim:
    """The size as types may hold it."""
    return None if isinstance(size, SizeSum) else size


def parts_of(size: str) -> list[str]:
    """The names of the sizes that a size is the sum of."""
    return list(size.parts) if isinstance(size, SizeSum) else [size]


def _named(parts: list[str]) -> Dim:
    if not parts:
        return 0
    if len(parts) == 1:
        return parts[0]
    return SizeSum(tuple(parts)) if len(parts) <= _MOST_PARTS else None
