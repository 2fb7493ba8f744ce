"""Arguments that only the data decides: axes and indices, checked once and refused with their numbers.

Every kernel that reads an axis or an index comes here, so that the messages are the same everywhere. It does not depend
on operators.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py.errors import InvalidArgument, Location

__all__ = [
    "LARGE",
    "MOST_AXES",
    "check_indices",
    "constant_input",
    "host_ints",
    "index_error",
    "normalized_axes",
    "normalized_axis",
    "shape_error",
]

LARGE = 65536
"""Elements above which operators that collect what is there already (Concat, Gather) ask `check_allocation` first.

Asking costs more than moving a few numbers, and repeated doubling passes this size long before it does harm."""

MOST_AXES = 64
"""NumPy's arrays have no more axes. An axis beyond is left to the run, which knows the rank and refuses it."""


_MOST_INTEGERS = 1 << 20
"""Sizes or axes that are read from an input: each becomes a Python object, and no list of them is that long."""


def normalized_axis(axis: int, rank: int, where: Location, *, inclusive: bool = False) -> int:
    """`axis` counted from the front.

    Args:
        axis: Axis, negative ones counted from the end.
        rank: Number of axes.
        where: Node, for messages.
        inclusive: Allow `rank` itself, as for a new last axis.

    Raises:
        InvalidArgument: No such axis.
    """
    last = rank if inclusive else rank - 1
    if not -rank <= axis <= last:
        allowed = f"It must be in [{-rank}, {last}]." if last >= -rank else "A scalar has no axes."
        raise InvalidArgument(f"Axis {axis} is out of range for rank {rank}.", where=where, fix=allowed)
    return axis + rank if axis < 0 else axis


def normalized_axes(axes: Iterable[int], rank: int, where: Location) -> tuple[int, ...]:
    """`normalized_axis` for several, which must be distinct; sorted.

    Raises:
        InvalidArgument: An axis does not exist or is given twice.
    """
    given = tuple(axes)
    found = tuple(sorted(normalized_axis(axis, rank, where) for axis in given))
    if len(set(found)) != len(found):
        raise InvalidArgument(
            f"Axes {given} name an axis of a rank {rank} tensor twice.",
            where=where,
            fix="Name each axis once; negative axes count from the end.",
        )
    return found


def constant_input(ctx: KernelContext, index: int) -> Array | None:
    """Input `index` as a host array where it is there and known when the node is bound, else None."""
    inputs = ctx.node.inputs
    return ctx.constant(index) if index < len(inputs) and inputs[index] is not None else None


def host_ints(values: Array | None) -> tuple[int, ...] | None:
    """A host input of axes, a shape or the like as Python integers; None where it is absent.

    Raises:
        InvalidArgument: It has more than one axis, or very many numbers. The engine says where.
    """
    if values is None:
        return None
    if values.ndim > 1:
        raise InvalidArgument(
            f"An input of shape {tuple(values.shape)} was given for a list of sizes or axes.",
            why="such an input has one axis",
            fix="Flatten it.",
        )
    if values.size > _MOST_INTEGERS:
        raise InvalidArgument(
            f"{values.size:,} numbers were given for a list of sizes or axes.",
            why=f"up to {_MOST_INTEGERS:,} are read",
            fix="Give as many as the tensor has axes, or the node outputs.",
        )
    found = values.tolist()
    if not isinstance(found, list):
        return (int(found),)
    return tuple(found) if values.dtype.kind in "iu" else tuple(int(value) for value in found)


def check_indices(ctx: KernelContext, indices: Array, size: int) -> tuple[int, int]:
    """Check that all of `indices` are in ``[-size, size)``: one pass each for the least and the greatest.

    On a device this is one deliberate wait (`item`): there, a wrong index would silently read another element.

    Returns:
        The least and the greatest index; ``(0, -1)`` where there is none.

    Raises:
        InvalidArgument: One is not.
    """
    if indices.size == 0:
        return 0, -1
    if indices.size == 1:
        low = high = indices.item()
    else:
        low, high = indices.min().item(), indices.max().item()
    if low < -size or high >= size:
        raise index_error(low if low < -size else high, size, ctx.node.location)
    return low, high


def index_error(index: Any, size: int, where: Location, axis: int | None = None) -> InvalidArgument:
    """The error for an index outside an axis of `size` elements."""
    place = "" if axis is None else f" {axis}"
    return InvalidArgument(
        f"Index {index} is out of range for axis{place} of size {size}.",
        where=where,
        fix=f"Indices must be in [{-size}, {size - 1}]." if size else "The axis is empty.",
    )


def shape_error(what: str, where: Location, shapes: Sequence[Sequence[int]]) -> InvalidArgument:
    """The error for shapes that an operator cannot combine."""
    return InvalidArgument(
        what,
        where=where,
        why=f"the inputs have the shapes {', '.join(str(tuple(shape)) for shape in shapes)}",
        fix="Check the shapes of the inputs that were fed.",
    )
