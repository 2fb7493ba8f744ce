"""A plan: the primitives of a region for one set of shapes, and the place of each of their arguments.

Immutable, shared by all frames. A buffer is a place: in the frame's arena, in one of the run's arrays, or a constant.
Steps are emitted so that each writes to buffers that no step has read before; `coalescing` then decides which buffers
may share memory, and `lay_out` gives places in the arena by lifetimes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from typing import Any

import numpy as np

from ort_py.contracts import check_time
from ort_py.lazy_dataclass import dataclass
from ort_py_onednn.binding.own_code import OwnCode
from ort_py_onednn.binding.primitive import Primitive

__all__ = ["Buffer", "Place", "Plan", "Step", "lay_out"]

_ALIGNMENT = 64

_STRETCH = 16
"""Steps of a stretch of time, by which buffers are kept that are used at the same time."""


class Place(Enum):
    """Address of a buffer."""

    ARENA = "arena"
    INPUT = "input"
    OUTPUT = "output"
    CONSTANT = "constant"


@dataclass(eq=False, slots=True)
class Buffer:
    """Bytes.

    Attributes:
        place: Where.
        nbytes: How many.
        index: Number of the input or output.
        data: A constant's bytes.
        offset: Place in the arena, once laid out.
        whole: The buffer in the arena that it is a piece of, where it is one; never a piece itself.
        start: Where in `whole` it begins.
        carried: Whether it may be written after it was read: the state of a loop, which goes from one time to the next.
    """

    place: Place
    nbytes: int
    index: int = 0
    data: np.ndarray[Any, Any] | None = None
    offset: int = 0
    whole: Buffer | None = None
    start: int = 0
    carried: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """One call: a primitive with a buffer for each of its arguments, or bytes that are filled.

    Attributes:
        primitive: The primitive; None if `buffers` holds one buffer to be zeroed, or a source and a destination, of one
            size and in the arena, to be copied.
        buffers: By argument code.
        threads: OpenMP threads it was made for.
        title: For errors.
        in_place: The argument whose place the destination may take if that argument is not read later; None if the
            primitive does not work in place.
        accumulates: Whether the destination is read too, by a sum among the post-ops.
        elidable: Whether it is a copy that need not be made where its destination can take its source's place.
    """

    primitive: Primitive | OwnCode | None
    buffers: Mapping[int, Buffer]
    threads: int
    title: str
    in_place: int | None = field(default=None, kw_only=True)
    accumulates: bool = field(default=False, kw_only=True)
    elidable: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in order.

    Attributes:
        steps: The steps.
        arena_bytes: Size of the arena.
        outputs: Shape of each output.
        dtypes: Type of each output.
        given: Outputs that are known from the shapes alone, by number.
    """

    steps: tuple[Step, ...]
    arena_bytes: int
    outputs: tuple[tuple[int, ...], ...]
    dtypes: tuple[np.dtype[Any], ...]
    given: tuple[tuple[int, np.ndarray[Any, Any]], ...] = ()


def lay_out(lives: Mapping[Buffer, tuple[int, int]]) -> int:
    """Give buffers of the arena their offsets; returns the arena's size.

    The largest are placed first, each at the lowest offset that no buffer alive at the same time holds.

    Raises:
        LimitError: The time of the run, or of loading, is over.

    Args:
        lives: The buffers that are not pieces, with the first and last time at which each is used.
    """
    # What is placed, by each stretch of time in which it is used: few buffers live long, so few are looked at.
    placed: dict[int, list[tuple[int, int, int, int]]] = {}
    total = 0
    for buffer, (first, last) in sorted(lives.items(), key=lambda item: (-item[0].nbytes, item[1])):
        check_time()
        size = -(-buffer.nbytes // _ALIGNMENT) * _ALIGNMENT
        offset = 0
        stretches = range(first // _STRETCH, last // _STRETCH + 1)
        near = {one for stretch in stretches for one in placed.get(stretch, ())}
        for start, end, _, _ in sorted([one for one in near if one[2] <= last and one[3] >= first]):
            if offset + size <= start:
                break
            offset = max(offset, end)
        buffer.offset = offset
        for stretch in stretches:
            placed.setdefault(stretch, []).append((offset, offset + size, first, last))
        total = max(total, offset + size)
    return total
