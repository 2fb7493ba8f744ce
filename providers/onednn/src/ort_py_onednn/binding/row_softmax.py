"""Softmax of short rows of float32 in machine code for AVX2.

oneDNN takes 50 ns for the shortest row, twice as long as this. Rows of which a number is NaN or infinity, or all are
-infinity, become NaN, as the definition says. Comes after `own_rows`; the exponential is that of `past_softmax`.
"""

from __future__ import annotations

import functools

from ort_py_onednn.binding.assembler import R12, RAX, RCX, RDI, RDX, RSI, Assembler, At
from ort_py_onednn.binding.constants import Argument
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.hazards import Hazards
from ort_py_onednn.binding.instructions import AVX2
from ort_py_onednn.binding.library import Library
from ort_py_onednn.binding.own_code import CLEAR, ENTER, LEAVE, placed
from ort_py_onednn.binding.own_rows import MASK, PART, PLACES, ROW, WHOLE, OwnRows, claim, part_of, read, write
from ort_py_onednn.binding.past_softmax import LEAST, exponential

__all__ = ["RowSoftmax", "has_row_softmax"]

_HIGHEST, _LOWEST, _VALUE, _SUM, _LEAST = 0, 2, 3, 7, 8
"""Registers: the largest number of a row, -infinity, what is computed, its sum, and the least that is not 0 in the end.
"""

_HIDING = Hazards(clamps=True, idle=False, overflows=False, leftovers=False, silent=False)


def _read(a: Assembler, partly: bool) -> None:
    """Append a read of eight numbers, of which those behind a row are -infinity."""
    read(a, _VALUE, At(RSI, 0, RAX), partly)
    if partly:
        a.choose(_VALUE, _LOWEST, _VALUE, PART)


def _highest(a: Assembler, partly: bool) -> None:
    _read(a, partly)
    a.do("vmaxps", _HIGHEST, _VALUE, _HIGHEST)


def _exponentials(a: Assembler, partly: bool) -> None:
    _read(a, partly)
    exponential(a)
    write(a, _VALUE, At(RDX, 0, RAX), partly)
    a.do("vaddps", _SUM, _SUM, _VALUE)


def _divide(a: Assembler, partly: bool) -> None:
    read(a, _VALUE, At(RDX, 0, RAX), partly)
    a.do("vmulps", _VALUE, _VALUE, _SUM)
    write(a, _VALUE, At(RDX, 0, RAX), partly)


def _code() -> bytes:
    """Code of ``void softmax(struct work *)`` (`own_code`): threads take several rows at once."""
    a = Assembler()
    a.digits(ENTER)
    a.digits("4c8d05")  # lea r8, [constants]
    constants = a.jump()
    a.move(RCX, At(RDI, 8 * WHOLE))
    a.read(PART, At(RDI, 8 * MASK))
    a.load(_LOWEST, a.word(0xFF800000))
    a.load(_LEAST, a.number(LEAST))
    again = a.size
    end = claim(a)
    a.multiply(RAX, At(RDI, 8 * ROW))
    for register, code in ((RSI, Argument.SRC), (RDX, Argument.DST)):
        a.move(register, At(RDI, 8 * PLACES[code]))
        a.add(register, RAX)
    row = a.size
    a.load(_HIGHEST, _LOWEST)
    a.do("vxorps", _SUM, _SUM, _SUM)
    for part in (_highest, _exponentials, _divide):
        a.set_number(RAX, 0)
        part_of(a, part, At(RDI, 8 * ROW))
        if part is _highest:
            a.fold("vmaxps", _HIGHEST, _VALUE)
        elif part is _exponentials:
            a.fold("vaddps", _SUM, _VALUE)
            a.load(_VALUE, a.number(1))
            a.do("vdivps", _SUM, _VALUE, _SUM)
    for register in (RSI, RDX):
        a.add(register, At(RDI, 8 * ROW))
    a.add_number(R12, -1)
    a.jump_if("greater", row)
    a.repeat(again)
    a.land(end)
    a.digits(CLEAR + LEAVE)
    return a.finished(constants)


@functools.cache
def _address(library: Library) -> int:
    return placed(library, _code()) if library.isa & AVX2 else 0


def has_row_softmax(library: Library) -> bool:
    """Return whether there is such code here: it needs AVX2, and memory that can be executed."""
    return _address(library) != 0


class RowSoftmax(OwnRows):
    """Rows whose exponentials are divided by their sum; the result (``DST``) may take the place of the rows (``SRC``).

    Args:
        library: The library, which has the code.
        rows: Layout of both: plain, of float32, with two dimensions.
        hides: Whether numbers of a row stand for what it does not see: NaN in their place counts as lost. The code
            raises the Invalid flag for each.
    """

    __slots__ = ("hazards",)

    def __init__(self, library: Library, rows: Desc, *, hides: bool = False) -> None:
        arguments = {Argument.SRC: rows, Argument.DST: rows}
        super().__init__(library, arguments, _address(library), "own:softmax:avx2", *rows.dims)
        self.hazards = _HIDING if hides else OwnRows.hazards
