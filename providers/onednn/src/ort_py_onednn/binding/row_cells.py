"""The cell of an LSTM in machine code for AVX2: new states of rows of float32 from their gates.

As primitives these are a change of the gates' order, three products and a hyperbolic tangent, each of which takes half
a microsecond for the shortest row. Here a row's gates are read where they lie, one behind the other. Comes after
`own_rows`; the hyperbolic tangent is that of `vector_functions`.
"""

from __future__ import annotations

import functools

from ort_py_onednn.binding.assembler import (
    R9,
    R10,
    R11,
    R12,
    R13,
    R14,
    RAX,
    RCX,
    RDI,
    RDX,
    RSI,
    Assembler,
    At,
)
from ort_py_onednn.binding.constants import Argument
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.instructions import AVX2
from ort_py_onednn.binding.library import Library
from ort_py_onednn.binding.own_code import CLEAR, ENTER, LEAVE, placed
from ort_py_onednn.binding.own_rows import MASK, PART, PLACES, ROW, WHOLE, OwnRows, claim, part_of, read, write
from ort_py_onednn.binding.vector_functions import tanh

__all__ = ["RowCell", "has_row_cell"]

_GATES = 4
"""Gates of a row: entry, output, what is kept of the cell, and the candidate."""

_ENTRY, _OUTPUT, _KEPT, _CANDIDATE = RSI, R11, R13, R14
"""Registers with the places of a row's gates."""

_STATE, _BEFORE, _AFTER = RDX, R9, R10
"""Registers with the places of a row's state, and of its cell as it was and as it becomes."""

_VALUE, _OTHER, _CANDIDATES = 0, 1, 2
"""Registers of eight numbers; the hyperbolic tangent is that of the first, and changes the first six."""


def _part(a: Assembler, partly: bool) -> None:
    """Append code for eight numbers of a row."""
    read(a, _VALUE, At(_BEFORE, 0, RAX), partly)
    read(a, _OTHER, At(_KEPT, 0, RAX), partly)
    a.do("vmulps", _VALUE, _VALUE, _OTHER)
    read(a, _OTHER, At(_ENTRY, 0, RAX), partly)
    read(a, _CANDIDATES, At(_CANDIDATE, 0, RAX), partly)
    a.do("vmulps", _OTHER, _OTHER, _CANDIDATES)
    a.do("vaddps", _VALUE, _VALUE, _OTHER)
    write(a, _VALUE, At(_AFTER, 0, RAX), partly)
    tanh(a)
    read(a, _OTHER, At(_OUTPUT, 0, RAX), partly)
    a.do("vmulps", _VALUE, _VALUE, _OTHER)
    write(a, _VALUE, At(_STATE, 0, RAX), partly)


def _code() -> bytes:
    """Code of ``void cell(struct work *)`` (`own_code`): threads take several rows at once."""
    a = Assembler()
    a.digits(ENTER)
    a.digits("4c8d05")  # lea r8, [constants]
    constants = a.jump()
    a.move(RCX, At(RDI, 8 * WHOLE))
    a.read(PART, At(RDI, 8 * MASK))
    again = a.size
    end = claim(a)
    a.multiply(RAX, At(RDI, 8 * ROW))
    for register, code in ((_AFTER, Argument.DST), (_BEFORE, Argument.SRC_1), (_STATE, Argument.DST_1)):
        a.move(register, At(RDI, 8 * PLACES[code]))
        a.add(register, RAX)
    a.shift(RAX, _GATES // 2)
    a.move(_ENTRY, At(RDI, 8 * PLACES[Argument.SRC]))
    a.add(_ENTRY, RAX)
    row = a.size
    for before, gate in ((_ENTRY, _OUTPUT), (_OUTPUT, _KEPT), (_KEPT, _CANDIDATE)):
        a.move(gate, before)
        a.add(gate, At(RDI, 8 * ROW))
    a.set_number(RAX, 0)
    part_of(a, _part, At(RDI, 8 * ROW))
    for register in (_STATE, _BEFORE, _AFTER, *[_ENTRY] * _GATES):
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


def has_row_cell(library: Library) -> bool:
    """Return whether there is such code here: it needs AVX2, and memory that can be executed."""
    return _address(library) != 0


class RowCell(OwnRows):
    """Cells of rows (``DST``) and their states (``DST_1``) from their gates (``SRC``) and the cells before (``SRC_1``).

    A cell becomes ``kept · before + entry · candidate``, a state ``output · tanh(cell)``. Cells may take the place of
    those before.

    Args:
        library: The library, which has the code.
        rows: Number of rows.
        hidden: Numbers of a state. The gates of a row are four times as many.
    """

    __slots__ = ()

    def __init__(self, library: Library, rows: int, hidden: int) -> None:
        gates, states = Desc.plain((rows, _GATES * hidden)), Desc.plain((rows, hidden))
        arguments = {Argument.SRC: gates, Argument.SRC_1: states, Argument.DST: states, Argument.DST_1: states}
        super().__init__(library, arguments, _address(library), "own:cell:avx2", rows, hidden)
