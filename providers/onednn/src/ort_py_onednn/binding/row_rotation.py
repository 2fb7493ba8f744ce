"""Heads whose numbers are turned in pairs, one of the first half with one of the second, in machine code for AVX2.

    y₁ = x₁ · cos - x₂ · sin        y₂ = x₂ · cos + x₁ · sin

oneDNN takes four primitives for that, two of which only move the halves, and more for tables of cosines of whole heads.
Here it is one call, which reads cosines and sines as they lie. Comes after `own_rows`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from ort_py_onednn.binding.assembler import R8, R9, R10, R11, R12, R13, R14, RAX, RBX, RCX, RDI, RDX, RSI, Assembler, At
from ort_py_onednn.binding.constants import Argument
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.instructions import AVX2
from ort_py_onednn.binding.library import Library
from ort_py_onednn.binding.own_code import CLEAR, ENTER, LEAVE, placed
from ort_py_onednn.binding.own_rows import MASK, PART, PLACES, ROW, WHOLE, WORDS, OwnRows, claim, part_of, read, write

__all__ = ["RowRotation", "has_row_rotation"]

_INNER, _STEP, _GROUP, _OFFSETS = WORDS, WORDS + 1, WORDS + 2, WORDS + 3
"""Words behind those of all such code: rows of a group, bytes from the cosines of a row to those of the next, bytes of
a group, and the bytes at which each group's cosines begin."""


def _pair(a: Assembler, partly: bool) -> None:
    """Append code for eight pairs: halves of a row are at rsi and r8, those of its result at rdx and rbx."""
    first, second, cosines, sines, left, right = range(6)
    for register, base in ((first, RSI), (second, R8), (cosines, R9), (sines, R10)):
        read(a, register, At(base, 0, RAX), partly)
    a.do("vmulps", left, first, cosines)
    a.do("vmulps", right, second, cosines)
    a.do("vfnmadd231ps", left, second, sines)
    a.do("vfmadd231ps", right, first, sines)
    write(a, left, At(RDX, 0, RAX), partly)
    write(a, right, At(RBX, 0, RAX), partly)


def _code() -> bytes:
    """Code of ``void rotate(struct work *)`` (`own_code`): threads take several groups of rows at once."""
    a = Assembler()
    a.digits(ENTER)
    a.move(RCX, At(RDI, 8 * WHOLE))
    a.read(PART, At(RDI, 8 * MASK))
    again = a.size
    end = claim(a)
    a.move(R13, RAX)  # the group
    a.multiply(RAX, At(RDI, 8 * _GROUP))
    for register, code in ((RSI, Argument.SRC), (RDX, Argument.DST)):
        a.move(register, At(RDI, 8 * PLACES[code]))
        a.add(register, RAX)
    group = a.size
    a.move(RAX, R13)
    a.shift(RAX, 3)
    a.move(R14, At(RDI, 8 * _OFFSETS, RAX))
    for register, code in ((R9, Argument.SCALE), (R10, Argument.SHIFT)):
        a.move(register, At(RDI, 8 * PLACES[code]))
        a.add(register, R14)
    a.move(R11, At(RDI, 8 * _INNER))
    row = a.size
    for half, whole in ((R8, RSI), (RBX, RDX)):
        a.move(half, whole)
        a.add(half, At(RDI, 8 * ROW))
    a.set_number(RAX, 0)
    part_of(a, _pair, At(RDI, 8 * ROW))
    for half, whole in ((R8, RSI), (RBX, RDX)):
        a.move(whole, half)
        a.add(whole, At(RDI, 8 * ROW))
    for register in (R9, R10):
        a.add(register, At(RDI, 8 * _STEP))
    a.add_number(R11, -1)
    a.jump_if("greater", row)
    a.add_number(R13, 1)
    a.add_number(R12, -1)
    a.jump_if("greater", group)
    a.repeat(again)
    a.land(end)
    a.digits(CLEAR + LEAVE)
    return a.code()


@functools.cache
def _address(library: Library) -> int:
    return placed(library, _code()) if library.isa & AVX2 else 0


def has_row_rotation(library: Library) -> bool:
    """Return whether there is such code here: it needs AVX2, and memory that can be executed."""
    return _address(library) != 0


class RowRotation(OwnRows):
    """Heads that are turned.

    Its arguments are the heads (``SRC``), the result (``DST``), which may take their place, and cosines and sines
    (``SCALE``, ``SHIFT``); all are plain and of float32.

    Args:
        library: The library, which has the code.
        arguments: Layouts by argument code; the heads have four dimensions, of which the last is that of a row.
        steps: Numbers from the cosines of a place to those of the next, along the first three dimensions.
        start: Numbers in front of the first cosine.
    """

    __slots__ = ("_dims", "_start", "_steps")

    def __init__(
        self, library: Library, arguments: Mapping[int, Desc], steps: tuple[int, int, int], start: int = 0
    ) -> None:
        first, second, _, size = self._dims = arguments[Argument.SRC].dims
        super().__init__(library, arguments, _address(library), "own:turn:avx2", first * second, size // 2)
        self._steps, self._start = steps, start

    def words(self) -> Sequence[int]:
        """See `OwnRows`."""
        first, second, inner, size = self._dims
        outer, middle, step = self._steps
        offsets = (4 * (self._start + outer * one + middle * other) for one in range(first) for other in range(second))
        return (inner, 4 * step, 4 * inner * size, *offsets)
