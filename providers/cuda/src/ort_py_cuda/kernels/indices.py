"""Common parts of gathers and scatters: units to move elements in, widths of positions, axes as kernels read them.

It is independent of operators. Comes before `gather` and `scatter`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ort_py.contracts.graph_view import Array

__all__ = [
    "AXES",
    "MOST_AXES",
    "axes_of",
    "element_axes",
    "elements_fit",
    "index_type",
    "integer_for",
    "row_axes",
    "rows_fit",
    "unit_of",
]

MOST_AXES = 8
AXES = f"{2 * MOST_AXES}q"
"""The structure ``Axes`` in the letters of `Kernel`."""

_UNITS = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64", 16: "Unit16"}
_INDICES = {"int32": "int32", "int64": "int64"}
_SHORT = 2**31 - 4096


def unit_of(count: int, itemsize: int, *addresses: int) -> tuple[str, int]:
    """The widest unit that `count` neighbouring elements can be moved in: (its type, its bytes).

    Args:
        count: Elements that lie together, on both sides.
        itemsize: Bytes of one.
        *addresses: Where the arrays begin.
    """
    size = count * itemsize
    for width in (16, 8, 4, 2):
        if size % width == 0 and not any(address % width for address in addresses):
            return _UNITS[width], width
    return _UNITS[1], 1


def index_type(indices: Array) -> str | None:
    """The name of the indices' type in generated code, or None if it is not supported."""
    return _INDICES.get(indices.dtype.name)


def integer_for(*counts: int) -> str:
    """The integer type for positions below all of `counts`."""
    return "int32" if max(counts) < _SHORT else "int64"


def axes_of(sizes: Sequence[int], steps: Sequence[int]) -> tuple[int, ...]:
    """Numbers of a structure ``Axes``."""
    empty = (0,) * (MOST_AXES - len(sizes))
    return (*sizes, *empty, *steps, *empty)


def _steps(shape: Sequence[int]) -> list[int]:
    return [prod(shape[axis + 1 :]) for axis in range(len(shape))]


def element_axes(shape: Sequence[int], indices: Sequence[int], axis: int) -> tuple[tuple[int, ...], int]:
    """For kernels that find an element by its index's own place: (axes, step along the indexed axis)."""
    steps = _steps(shape)
    along = steps[axis]
    steps[axis] = 0
    return axes_of(indices, steps), along


def elements_fit(shape: Sequence[int], indices: Sequence[int], axis: int) -> bool:
    """Return whether indices of GatherElements and ScatterElements fit the data beside the axis."""
    return len(shape) == len(indices) <= MOST_AXES and all(
        other == axis or size <= shape[other] for other, size in enumerate(indices)
    )


def row_axes(shape: Sequence[int], batch_dims: int, depth: int) -> tuple[int, ...]:
    """Axes that tuples of `depth` indices name, and the rows that a step along each is."""
    indexed = tuple(shape[batch_dims : batch_dims + depth])
    return axes_of(indexed, _steps(indexed))


def rows_fit(shape: Sequence[int], indices: Sequence[int], batch_dims: int) -> bool:
    """Return whether tuples of indices of GatherND and ScatterND fit the data."""
    depth: Any = indices[-1] if indices else 0
    return (
        len(indices) > batch_dims
        and 1 <= depth <= MOST_AXES
        and batch_dims + depth <= len(shape)
        and tuple(indices[:batch_dims]) == tuple(shape[:batch_dims])
    )
