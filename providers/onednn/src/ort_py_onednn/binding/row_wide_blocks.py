"""Code for products of one row with weights in blocks of 64 columns, each a plain matrix of all numbers of the row.

That is the layout of oneDNN's products of matrices on CPUs with AVX-512. A block is read in four places side by side,
each with a quarter of the row, because memory is read faster in several places than in one. Instructions of AVX2 are
fast enough for what memory gives.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from ort_py_onednn.binding.assembler import (
    R8,
    R9,
    R10,
    R11,
    R12,
    R13,
    RAX,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    Assembler,
    At,
)
from ort_py_onednn.binding.row_frame import MASK, add_row, framed, start_with

__all__ = ["COLUMNS", "ROWS", "code"]

COLUMNS, ROWS = 64, 1
"""Columns of a block, and numbers of the row in a unit of its depth. A row has a multiple of 16 numbers."""

_SUMS, _STEPS = 8, 4
"""Registers with sums of a block, and rows that the loop reads at a time in each place."""

_BASES = (R8, R11, RBX, RBP)
"""Registers with the places in a block."""

_ROW = 4 * COLUMNS
"""Bytes of a row of a block."""

_FACTOR, _MASK_REGISTER = 8, 9


def code() -> bytes:
    """The code; see `framed`."""
    return framed(COLUMNS, _whole, _part)


def _whole(a: Assembler) -> None:
    """Append code for r12 blocks."""
    again = a.size
    _block(a, a.read, a.write)
    for register in (RDX, R9, R10):
        a.add_number(register, _ROW)
    a.move(R8, RBP)
    a.add_number(R12, -1)
    a.jump_if("unequal", again)


def _part(a: Assembler) -> None:
    """Append code for the block of which only some columns are there; the weights have zeroes for the others."""

    def read(one: int, place: At) -> None:
        a.read(_MASK_REGISTER, At(RDI, 8 * MASK + 32 * (place.behind // 32)))
        a.read_part(one, _MASK_REGISTER, place)

    def write(one: int, place: At) -> None:
        a.read(_MASK_REGISTER, At(RDI, 8 * MASK + 32 * (place.behind // 32)))
        a.write_part(one, _MASK_REGISTER, place)

    _block(a, read, write)


Moves = Callable[[int, At], None]


def _block(a: Assembler, read: Moves, write: Moves) -> None:
    """Append code for a block, which leaves the place behind it in rbp.

    Args:
        a: The code.
        read: Appends the reading of a register's columns from memory.
        write: Appends the writing of a register's columns.
    """
    a.move(RSI, At(RDI))
    a.move(RCX, At(RDI, 56))
    a.move(RAX, RCX)
    a.shift(RAX, 6)  # bytes of a quarter of the block
    for before, base in itertools.pairwise(_BASES):
        a.move(base, before)
        a.add(base, RAX)
    a.move(RAX, RCX)
    a.shift(RAX, -4)  # turns of the loop
    a.move(R13, RSI)
    for _ in range(2):
        a.add(R13, RCX)  # a quarter of the row has as many bytes as the row has numbers
    factors = (At(RSI), At(RSI, 0, RCX), At(R13), At(R13, 0, RCX))

    def start(a: Assembler) -> None:
        for one in range(_SUMS):
            read(one, At(R9, 32 * one))

    def add(a: Assembler) -> None:
        for one in range(_SUMS):
            read(_FACTOR, At(R10, 32 * one))
            a.do("vaddps", one, one, _FACTOR)

    start_with(a, _SUMS, start)
    inner = a.size
    for step in range(_STEPS):
        for factor, base in zip(factors, _BASES, strict=True):
            a.spread(_FACTOR, factor._replace(behind=4 * step))
            for one in range(_SUMS):
                a.do("vfmadd231ps", one, _FACTOR, At(base, _ROW * step + 32 * one))
    for register in (RSI, R13):
        a.add_number(register, 4 * _STEPS)
    for base in _BASES:
        a.add_number(base, _ROW * _STEPS)
    a.add_number(RAX, -1)
    a.jump_if("unequal", inner)
    add_row(a, add)
    for one in range(_SUMS):
        write(one, At(RDX, 32 * one))
