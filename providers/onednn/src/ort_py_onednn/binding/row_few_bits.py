"""Code for products of one row with weights of 4 or 8 bits that have a scale for each block of the row.

Weights lie in panels of 64 columns. A panel has its blocks one behind the other, and a block is the weights of each
column followed by the scales of the columns. Weights of 4 bits are words with eight numbers of a column, the first one
lowest, those of 8 bits are bytes of one number; both have a sign. They become float32 in registers, so numbers of the
row are not rounded, and a sum is multiplied with its scale once a block.

With AVX-512, four bits choose one of the sixteen numbers in a register, without being cut out of their word. With AVX2,
a word is shifted twice for each. What computes is enough for what memory gives.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from ort_py_onednn.binding.assembler import R8, R9, R10, R11, R12, R13, RCX, RDI, RDX, RSI, Assembler, At
from ort_py_onednn.binding.row_frame import MASK, WORDS, add_row, framed, start_with

__all__ = ["ALL_WORDS", "COLUMNS", "COUNT", "ROW", "TABLE", "code", "units"]

COLUMNS = 64
"""Columns of a panel."""

ROW = 4 * COLUMNS
"""Bytes of a panel's scales of a block."""

COUNT, TABLE, ALL_WORDS = WORDS, WORDS + 1, WORDS + 9
"""Words of the work behind those of the frame: the number of blocks, sixteen numbers of float32; how many words there
are."""

_GROUPS = 4
"""Registers side by side."""

_WORDS, _SUMS, _TOTALS, _TEMPORARY, _FACTOR, _TABLE = 0, 4, 8, 12, 14, 15
"""First registers of what is read, of sums of a block, of sums of all blocks; two of results in between, the number of
the row, and the sixteen numbers, or a mask."""

_BITS = 4
_STEPS = 8
"""Numbers of a column in a word, and numbers of the row that a turn of the loop takes."""

_AHEAD, _LINE = 4096, 64
"""How far ahead weights are fetched, in bytes, and what is fetched at once. By itself, the processor fetches up to the
end of a page, which gives half of the speed of memory. What lies behind the weights is only asked for."""


def units(bits: int, size: int) -> int:
    """Rows of 256 bytes that a block has in a panel.

    Args:
        bits: Of a weight: 4 or 8.
        size: Of a block, a multiple of 16.
    """
    return size * bits // 32 + 1


@functools.cache
def code(bits: int, size: int, *, wide: bool) -> bytes:
    """The code; see `framed`. A unit of the depth is what `units` counts.

    Args:
        bits: Of a weight: 4 or 8.
        size: Of a block, a multiple of 16.
        wide: Whether there is AVX-512.
    """

    def whole(a: Assembler) -> None:
        if wide:
            a.wide_move("read", _TABLE, At(RDI, 8 * TABLE))
        again = a.size
        if wide:
            _wide_panel(a, bits, size)
        else:
            _panel(a, bits, size, a.read, a.write)
        for register in (RDX, R9, R10):
            a.add_number(register, ROW)
        a.add_number(R12, -1)
        a.jump_if("unequal", again)

    def part(a: Assembler) -> None:
        def read(one: int, place: At) -> None:
            a.read(_TABLE, At(RDI, 8 * MASK + place.behind))
            a.read_part(one, _TABLE, place)

        def write(one: int, place: At) -> None:
            a.read(_TABLE, At(RDI, 8 * MASK + place.behind))
            a.write_part(one, _TABLE, place)

        _panel(a, bits, size, read, write)

    return framed(COLUMNS, whole, part)


Moves = Callable[[int, At], None]


def _panel(a: Assembler, bits: int, size: int, read: Moves, write: Moves) -> None:
    """Append code for a panel with AVX2, half of the columns after the other. It leaves the place behind it in r8.

    Args:
        a: The code.
        bits, size: As of `code`.
        read: Appends the reading of a register's columns from memory.
        write: Appends the writing of a register's columns.
    """
    for half in range(2):
        columns = 128 * half

        def start(a: Assembler, columns: int = columns) -> None:
            for one in range(_GROUPS):
                read(_TOTALS + one, At(R9, columns + 32 * one))

        def add(a: Assembler, columns: int = columns) -> None:
            for one in range(_GROUPS):
                read(_TEMPORARY, At(R10, columns + 32 * one))
                a.do("vaddps", _TOTALS + one, _TOTALS + one, _TEMPORARY)

        a.move(R11, R8)
        _totals(a, start)
        block = _blocks_begin(a)
        for one in range(_GROUPS):
            a.do("vxorps", _SUMS + one, _SUMS + one, _SUMS + one)
        turn = _turns_begin(a, size)
        if not half:
            _fetch(a, bits)
        if bits == _BITS:
            _four_bits(a, columns)
        else:
            _eight_bits(a, columns // 4)
        _turns_end(a, turn, bits)
        for one in range(_GROUPS):
            a.read(_TEMPORARY, At(R11, columns + 32 * one))
            a.do("vfmadd231ps", _TOTALS + one, _SUMS + one, _TEMPORARY)
        _blocks_end(a, block)
        add_row(a, add)
        for one in range(_GROUPS):
            write(_TOTALS + one, At(RDX, columns + 32 * one))
    a.move(R8, R11)


def _four_bits(a: Assembler, columns: int) -> None:
    """Append code for eight numbers of the row and the words of 32 columns, `columns` bytes behind r11."""
    for one in range(_GROUPS):
        a.read(_WORDS + one, At(R11, columns + 32 * one))
    for step in range(_STEPS):
        a.spread(_FACTOR, At(RSI, 4 * step))
        above = 32 - _BITS * (step + 1)
        for one in range(_GROUPS):
            temporary = _TEMPORARY + one % 2
            if above:
                a.shift_left(temporary, _WORDS + one, above)
            a.shift_right(temporary, temporary if above else _WORDS + one, 32 - _BITS)
            a.change("vcvtdq2ps", temporary, temporary)
            a.do("vfmadd231ps", _SUMS + one, temporary, _FACTOR)


def _eight_bits(a: Assembler, columns: int) -> None:
    """Append code for eight numbers of the row and the bytes of 32 columns, `columns` bytes behind r11."""
    for step in range(_STEPS):
        a.spread(_FACTOR, At(RSI, 4 * step))
        for one in range(_GROUPS):
            temporary = _TEMPORARY + one % 2
            a.widen(temporary, At(R11, COLUMNS * step + columns + 8 * one))
            a.change("vcvtdq2ps", temporary, temporary)
            a.do("vfmadd231ps", _SUMS + one, temporary, _FACTOR)


def _wide_panel(a: Assembler, bits: int, size: int) -> None:
    """Append code for a panel with AVX-512. It leaves the place behind it in r8."""

    def start(a: Assembler) -> None:
        for one in range(_GROUPS):
            a.wide_move("read", _TOTALS + one, At(R9, 64 * one))

    def add(a: Assembler) -> None:
        for one in range(_GROUPS):
            a.wide("vaddps", _TOTALS + one, _TOTALS + one, At(R10, 64 * one))

    a.move(R11, R8)
    _totals(a, start)
    block = _blocks_begin(a)
    for one in range(_GROUPS):
        a.wide("vpxord", _SUMS + one, _SUMS + one, _SUMS + one)
    turn = _turns_begin(a, size)
    _fetch(a, bits)
    if bits == _BITS:
        for one in range(_GROUPS):
            a.wide_move("read", _WORDS + one, At(R11, 64 * one))
    for step in range(_STEPS):
        for one in range(_GROUPS):
            temporary = _TEMPORARY + one % 2
            if bits == _BITS:
                a.wide("vpermps", temporary, _WORDS + one, _TABLE)
            else:
                a.wide_move("widen", temporary, At(R11, COLUMNS * step + 16 * one))
                a.wide_move("vcvtdq2ps", temporary, temporary)
            a.wide("vfmadd231ps", _SUMS + one, temporary, At(RSI, 4 * step), spread=True)
            if bits == _BITS and step + 1 < _STEPS:
                a.wide_shift(_WORDS + one, _WORDS + one, _BITS)
    _turns_end(a, turn, bits)
    for one in range(_GROUPS):
        a.wide("vfmadd231ps", _TOTALS + one, _SUMS + one, At(R11, 64 * one))
    _blocks_end(a, block)
    add_row(a, add)
    for one in range(_GROUPS):
        a.wide_move("write", _TOTALS + one, At(RDX, 64 * one))
    a.move(R8, R11)


def _totals(a: Assembler, start: Callable[[Assembler], None]) -> None:
    """Append code that begins sums of all blocks, and goes to the first number of the row and the first block."""
    start_with(a, _GROUPS, start, _TOTALS)
    a.move(RSI, At(RDI))
    a.move(RCX, At(RDI, 8 * COUNT))


def _blocks_begin(a: Assembler) -> int:
    """The place that `_blocks_end` jumps to."""
    return a.size


def _blocks_end(a: Assembler, block: int) -> None:
    """Append code that goes behind the scales of a block, and on with the next one."""
    a.add_number(R11, ROW)
    a.add_number(RCX, -1)
    a.jump_if("unequal", block)


def _turns_begin(a: Assembler, size: int) -> int:
    """Append code that counts the turns of a block; the place that `_turns_end` jumps to."""
    a.set_number(R13, size // _STEPS)
    return a.size


def _fetch(a: Assembler, bits: int) -> None:
    """Append code that asks for the weights of a later turn."""
    for line in range(0, _turn_bytes(bits), _LINE):
        a.fetch(At(R11, _AHEAD + line))


def _turn_bytes(bits: int) -> int:
    return ROW * _STEPS * bits // 32


def _turns_end(a: Assembler, turn: int, bits: int) -> None:
    """Append code that goes on by eight numbers of the row."""
    a.add_number(RSI, 4 * _STEPS)
    a.add_number(R11, _turn_bytes(bits))
    a.add_number(R13, -1)
    a.jump_if("unequal", turn)
