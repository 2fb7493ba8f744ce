"""Code for products of one row with weights of 4 or 8 bits that have a scale for each block of the row.

Weights lie in panels of 64 columns. A panel has its blocks one behind the other, and a block is the weights of each
column followed by the scales of the columns. Weights are words with eight numbers of 4 bits of a column, or four of 8
bits, the first one lowest, each with half of their range added. They become float32 in registers, so numbers of the row
are not rounded, and a sum is multiplied with its scale once a block.

With AVX-512, four bits choose one of the sixteen numbers in a register, without being cut out of their word. Otherwise
a word is shifted twice for each. `row_few_bytes` has a third way for rows that may be rounded to bytes, with VNNI, and
`row_few_pairs` a fourth, without.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from ort_py_onednn.binding import row_few_bytes, row_few_pairs
from ort_py_onednn.binding.assembler import R8, R9, R10, R11, R12, R13, RCX, RDI, RDX, RSI, Assembler, At
from ort_py_onednn.binding.row_few_bytes import COUNT, GROUPS, STEPS, SUMS, TABLE, TEMPORARY, TOTALS, WEIGHTS, WorkWords
from ort_py_onednn.binding.row_frame import MASK, add_row, framed, start_with

__all__ = ["COLUMNS", "ROW", "code", "read_words", "units", "widen"]

COLUMNS = 64
"""Columns of a panel."""

ROW = 4 * COLUMNS
"""Bytes of a panel's scales of a block."""

_FACTOR, _TABLE = 14, 15
"""Registers of a number of the row, and of the sixteen numbers, or a mask."""

_FOUR = 4

_AHEAD, _LINE = 4096, 64
"""How far ahead weights are fetched, in bytes, and what is fetched at once. By itself, the processor fetches up to the
end of a page, which gives half of the speed of memory. What lies behind the weights is only asked for."""

Code = Callable[[Assembler], None]
Moves = Callable[[int, At], None]


def units(bits: int, size: int) -> int:
    """Rows of 256 bytes that a block has in a panel.

    Args:
        bits: Of a weight: 4 or 8.
        size: Of a block, a multiple of 16.
    """
    return size * bits // 32 + 1


@functools.cache
def code(bits: int, size: int, *, wide: bool, rounded: bool) -> bytes:
    """The code; see `framed`. A unit of the depth is what `units` counts.

    Args:
        bits: Of a weight: 4 or 8.
        size: Of a block, a multiple of 16.
        wide: Whether there is AVX-512.
        rounded: Whether the row may be rounded; with AVX-512 this needs VNNI.
    """

    def exact(a: Assembler) -> None:
        if not wide:
            _panels(a, lambda a: _panel(a, bits, size, a.read, a.write))
            return
        a.wide_move("read", _TABLE, At(RDI, 8 * (TABLE if bits == _FOUR else WorkWords.FLIP)))
        turn = functools.partial(_wide_turn, bits=bits)
        _panels(a, lambda a: _wide_panel(a, bits, size, _row, _no_sums, turn, _wide_end))

    def whole(a: Assembler) -> None:
        if not rounded:
            exact(a)
            return
        other = a.jump_unless_zero(At(RDI, 8 * WorkWords.FLAG))
        if wide:
            row_few_bytes.constants(a)
            begin = functools.partial(row_few_bytes.begin, size=size)
            turn = functools.partial(row_few_bytes.turn, bits=bits)
            _panels(
                a,
                lambda a: _wide_panel(
                    a, bits, size, row_few_bytes.row, begin, turn, row_few_bytes.end, row_few_bytes.STEP
                ),
            )
        else:
            _panels(a, lambda a: _panel_of_pairs(a, bits, size))
        done = a.jump_always()
        a.land(other)
        exact(a)
        a.land(done)

    def part(a: Assembler) -> None:
        def read(one: int, place: At) -> None:
            a.read(_TABLE, At(RDI, 8 * MASK + place.behind))
            a.read_part(one, _TABLE, place)

        def write(one: int, place: At) -> None:
            a.read(_TABLE, At(RDI, 8 * MASK + place.behind))
            a.write_part(one, _TABLE, place)

        _panel(a, bits, size, read, write)

    before = functools.partial(row_few_bytes.round_row, bits=bits, size=size) if rounded else None
    return framed(COLUMNS, whole, part, before)


def _panels(a: Assembler, panel: Code) -> None:
    """Append code for r12 panels."""
    again = a.size
    panel(a)
    for register in (RDX, R9, R10):
        a.add_number(register, ROW)
    a.add_number(R12, -1)
    a.jump_if("unequal", again)


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
            for one in range(GROUPS):
                read(TOTALS + one, At(R9, columns + 32 * one))

        def add(a: Assembler, columns: int = columns) -> None:
            for one in range(GROUPS):
                read(TEMPORARY, At(R10, columns + 32 * one))
                a.do("vaddps", TOTALS + one, TOTALS + one, TEMPORARY)

        a.move(R11, R8)
        start_with(a, GROUPS, start, TOTALS)
        _row(a)
        a.move(RCX, At(RDI, 8 * COUNT))
        block = a.size
        for one in range(GROUPS):
            a.do("vxorps", SUMS + one, SUMS + one, SUMS + one)
        again = _turns_begin(a, size)
        if not half:
            _fetch(a, bits)
        for word in range(bits // _FOUR):
            _words(a, bits, word, columns)
        _turns_end(a, again, bits, 4 * STEPS)
        for one in range(GROUPS):
            a.read(TEMPORARY, At(R11, columns + 32 * one))
            a.do("vfmadd231ps", TOTALS + one, SUMS + one, TEMPORARY)
        _blocks_end(a, block)
        add_row(a, add)
        for one in range(GROUPS):
            write(TOTALS + one, At(RDX, columns + 32 * one))
    a.move(R8, R11)


def _panel_of_pairs(a: Assembler, bits: int, size: int) -> None:
    """Append code for a panel with AVX2 and a row of bytes. It leaves the place behind it in r8."""
    groups = row_few_pairs.groups_of(bits)
    for columns in range(0, ROW, 32 * groups):

        def start(a: Assembler, columns: int = columns) -> None:
            for one in range(groups):
                a.read(TOTALS + one, At(R9, columns + 32 * one))

        def add(a: Assembler, columns: int = columns) -> None:
            for one in range(groups):
                a.do("vaddps", TOTALS + one, TOTALS + one, At(R10, columns + 32 * one))

        a.move(R11, R8)
        start_with(a, groups, start, TOTALS)
        row_few_bytes.row(a)
        a.move(RCX, At(RDI, 8 * COUNT))
        block = a.size
        row_few_pairs.begin(a, bits, size)
        row_few_pairs.turns(a, bits, size, columns, ahead=0 if columns else _AHEAD)
        row_few_pairs.end(a, bits, columns)
        _blocks_end(a, block)
        add_row(a, add)
        for one in range(groups):
            a.write(TOTALS + one, At(RDX, columns + 32 * one))
    a.move(R8, R11)


def _words(a: Assembler, bits: int, word: int, columns: int) -> None:
    """Append code for the numbers of the row that a word of 32 columns has weights for.

    Args:
        a: The code.
        bits: As of `code`.
        word: Which one of a turn: it is that many rows of words behind r11.
        columns: Bytes of the columns in front.
    """
    read_words(a, bits, word, columns)
    together = 32 // bits
    for step in range(together):
        a.spread(_FACTOR, At(RSI, 4 * (together * word + step)))
        for one in range(GROUPS):
            temporary = TEMPORARY + one % 2
            widen(a, bits, step, temporary, WEIGHTS + one)
            a.do("vfmadd231ps", SUMS + one, temporary, _FACTOR)


def read_words(a: Assembler, bits: int, word: int, columns: int) -> None:
    """Append code that reads words of 32 columns at r11 as numbers with a sign; arguments are those of `_words`."""
    for one in range(GROUPS):
        a.read(WEIGHTS + one, At(R11, ROW * word + columns + 32 * one))
        a.do("vxorps", WEIGHTS + one, WEIGHTS + one, At(RDI, 8 * WorkWords.FLIP))


def widen(a: Assembler, bits: int, step: int, target: int, words: int) -> None:
    """Append code that makes float32 of the weights of a step of words with a sign."""
    above = 32 - bits * (step + 1)
    if above:
        a.shift_left(target, words, above)
    a.shift_right(target, target if above else words, 32 - bits)
    a.change("vcvtdq2ps", target, target)


def _wide_panel(
    a: Assembler, bits: int, size: int, row: Code, begin: Code, turn: Code, end: Code, step: int = 4 * STEPS
) -> None:
    """Append code for a panel with AVX-512. It leaves the place behind it in r8.

    Args:
        a: The code.
        bits, size: As of `code`.
        row: Appends code that lets rsi point to the row.
        begin: Appends what begins the sums of a block.
        turn: Appends what adds to them the products of eight numbers of the row, at rsi, and of weights at r11.
        end: Appends what adds them, times the scales at r11, to the sums of all blocks.
        step: Bytes of eight numbers of the row.
    """

    def start(a: Assembler) -> None:
        for one in range(GROUPS):
            a.wide_move("read", TOTALS + one, At(R9, 64 * one))

    def add(a: Assembler) -> None:
        for one in range(GROUPS):
            a.wide("vaddps", TOTALS + one, TOTALS + one, At(R10, 64 * one))

    a.move(R11, R8)
    start_with(a, GROUPS, start, TOTALS)
    row(a)
    a.move(RCX, At(RDI, 8 * COUNT))
    block = a.size
    begin(a)
    again = _turns_begin(a, size)
    _fetch(a, bits)
    turn(a)
    _turns_end(a, again, bits, step)
    end(a)
    _blocks_end(a, block)
    add_row(a, add)
    for one in range(GROUPS):
        a.wide_move("write", TOTALS + one, At(RDX, 64 * one))
    a.move(R8, R11)


def _row(a: Assembler) -> None:
    a.move(RSI, At(RDI))


def _no_sums(a: Assembler) -> None:
    for one in range(GROUPS):
        a.wide("vpxord", SUMS + one, SUMS + one, SUMS + one)


def _wide_turn(a: Assembler, bits: int) -> None:
    for word in range(bits // _FOUR):
        for one in range(GROUPS):
            a.wide_move("read", WEIGHTS + one, At(R11, ROW * word + 64 * one))
            if bits != _FOUR:
                a.wide("vpxord", WEIGHTS + one, WEIGHTS + one, _TABLE)
        together = 32 // bits
        for step in range(together):
            for one in range(GROUPS):
                temporary = TEMPORARY + one % 2
                if bits == _FOUR:
                    a.wide("vpermps", temporary, WEIGHTS + one, _TABLE)
                else:
                    above = 32 - bits * (step + 1)
                    if above:
                        a.wide_shift("left", temporary, WEIGHTS + one, above)
                    a.wide_shift("signed", temporary, temporary if above else WEIGHTS + one, 32 - bits)
                    a.wide_move("vcvtdq2ps", temporary, temporary)
                a.wide("vfmadd231ps", SUMS + one, temporary, At(RSI, 4 * (together * word + step)), spread=True)
                if bits == _FOUR and step + 1 < STEPS:
                    a.wide_shift("right", WEIGHTS + one, WEIGHTS + one, _FOUR)


def _wide_end(a: Assembler) -> None:
    for one in range(GROUPS):
        a.wide("vfmadd231ps", TOTALS + one, SUMS + one, At(R11, 64 * one))


def _blocks_end(a: Assembler, block: int) -> None:
    """Append code that goes behind the scales of a block, and on with the next one."""
    a.add_number(R11, ROW)
    a.add_number(RCX, -1)
    a.jump_if("unequal", block)


def _turns_begin(a: Assembler, size: int) -> int:
    """Append code that counts the turns of a block; the place that `_turns_end` jumps to."""
    a.set_number(R13, size // STEPS)
    return a.size


def _fetch(a: Assembler, bits: int) -> None:
    """Append code that asks for the weights of a later turn."""
    for line in range(0, _turn_bytes(bits), _LINE):
        a.fetch(At(R11, _AHEAD + line))


def _turn_bytes(bits: int) -> int:
    return ROW * STEPS * bits // 32


def _turns_end(a: Assembler, again: int, bits: int, step: int) -> None:
    """Append code that goes on by eight numbers of the row, which have so many bytes."""
    a.add_number(RSI, step)
    a.add_number(R11, _turn_bytes(bits))
    a.add_number(R13, -1)
    a.jump_if("unequal", again)
