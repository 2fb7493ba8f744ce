"""A plan: the primitives of a region for one set of shapes, and where each of their arguments lies.

Immutable, shared by all frames. A buffer is a place: in the frame's arena, in one of the run's arrays, or a constant.
Places in the arena are given out by lifetimes, so what is never alive together shares bytes; scratch memory is such a
place that lives for one step.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from ort_py_onednn.binding.primitive import Primitive

__all__ = ["Buffer", "Place", "Plan", "Step", "lay_out"]

_ALIGNMENT = 64


class Place(Enum):
    """Where a buffer is."""

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
        whole: The buffer in the arena that it is a piece of, where it is one.
        start: Where in `whole` it begins.
        stays: Whether it keeps its place in the arena though it be an output: it is used by pieces.
    """

    place: Place
    nbytes: int
    index: int = 0
    data: np.ndarray[Any, Any] | None = None
    offset: int = 0
    whole: Buffer | None = None
    start: int = 0
    stays: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """One call: a primitive with a buffer for each of its arguments, or bytes that are filled.

    Attributes:
        primitive: What runs; None where `buffers` holds one buffer to be zeroed, or a source and a destination, of one
            size and in the arena, to be copied.
        buffers: By argument code.
        threads: OpenMP threads it was made for.
        title: For errors.
    """

    primitive: Primitive | None
    buffers: Mapping[int, Buffer]
    threads: int
    title: str


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


def lay_out(steps: Sequence[Step]) -> int:
    """Give every arena buffer its offset; returns the arena's size.

    The largest are placed first, each at the lowest offset that no buffer alive at the same time holds.
    """
    lives: dict[Buffer, list[int]] = {}
    pieces: dict[Buffer, Buffer] = {}
    for number, step in enumerate(steps):
        for buffer in step.buffers.values():
            if buffer.place is Place.ARENA:
                if buffer.whole is not None:
                    pieces[buffer] = buffer.whole
                life = lives.setdefault(buffer.whole or buffer, [number, number])
                life[1] = number
    placed: list[tuple[int, int, int, int]] = []
    total = 0
    for buffer, (first, last) in sorted(lives.items(), key=lambda item: (-item[0].nbytes, item[1])):
        size = -(-buffer.nbytes // _ALIGNMENT) * _ALIGNMENT
        offset = 0
        for start, end, born, died in placed:
            if born > last or died < first:
                continue
            if offset + size <= start:
                break
            offset = max(offset, end)
        buffer.offset = offset
        insort(placed, (offset, offset + size, first, last))
        total = max(total, offset + size)
    for piece, whole in pieces.items():
        piece.offset = whole.offset + piece.start
    return total
