"""Parts of the code for products of a row that is rounded to bytes, with weights of 4 or 8 bits and VNNI.

Each block of the row becomes bytes, relative to its largest number: accuracy level 4 allows that. Four products of
bytes are one instruction then, and weights are read as fast as memory gives them; `row_few_pairs` does without that
instruction. Every thread rounds the whole row, which takes a hundredth of its product, and all write the same. Rows
with numbers that are not finite are not rounded: a word of the work says so.

`row_few_bits` puts the parts together; its registers and its words of the work stand here, too.
"""

from __future__ import annotations

from ort_py_onednn.binding.assembler import R11, R13, RAX, RCX, RDI, RSI, Assembler, At
from ort_py_onednn.binding.row_frame import WORDS

__all__ = [
    "BEHIND",
    "COUNT",
    "GROUPS",
    "OFFSET",
    "SCALE",
    "STEP",
    "STEPS",
    "SUMS",
    "TABLE",
    "TEMPORARY",
    "TOTALS",
    "WEIGHTS",
    "WorkWords",
    "begin",
    "constants",
    "end",
    "round_blocks",
    "round_row",
    "row",
    "scratch_bytes",
    "turn",
]

GROUPS = 4
"""Registers side by side."""

WEIGHTS, SUMS, TOTALS, TEMPORARY = 0, 4, 8, 12
"""First registers of what is read, of sums of a block, of sums of all blocks, and two of results in between."""

STEPS = 8
"""Numbers of a column in a word, and numbers of the row that a turn of the loop takes."""

STEP = STEPS
"""Bytes of eight numbers of the row."""

COUNT, TABLE = WORDS, WORDS + 1
"""Words of the work behind those of the frame: the number of blocks, and the sixteen numbers that four bits mean."""


class WorkWords:
    """Further words of the work.

    Attributes:
        FLIP: The highest bit of each weight, in sixteen words.
        LOW: The lower half of each byte, sixteen times.
        SIGNLESS: All bits of a number but its sign, eight times.
        ORDER: The order in which words have numbers: of half bytes those with even places, then those with odd ones.
        NUMBERS: The largest byte, and the least number that is told from 0, of float32.
        ONES, SIXTEENS: The number 1 or 16 in 16 bits, sixteen times.
        FLAG: Whether a number of the row is not finite.
        SCRATCH: The row as bytes; see `scratch_bytes`.
    """

    FLIP = WORDS + 9
    LOW = FLIP + 8
    SIGNLESS = LOW + 8
    ORDER = SIGNLESS + 4
    NUMBERS = ORDER + 4
    ONES = NUMBERS + 1
    SIXTEENS = ONES + 4
    FLAG = SIXTEENS + 4
    SCRATCH = FLAG + 1


_EIGHT = 8
_LOW = 14
SCALE, OFFSET = 0, 4
"""Places of numbers behind a block's bytes: its scale, and minus the sum of its bytes times what weights have added to
them: 8 or 128."""

BEHIND = 8
"""Bytes of both."""

_LARGEST, _ROUND, _FACTOR, _SUM = 0, 1, 2, 4
_LEAST, _SIGNLESS, _ORDER, _BYTE, _ZERO, _FINITE = 9, 10, 11, 12, 13, 14
"""Registers while the row is rounded."""


def scratch_bytes(count: int, size: int) -> int:
    """Bytes of a row of blocks: those of its numbers, and two numbers for each block."""
    return count * (size + BEHIND)


def round_row(a: Assembler, bits: int, size: int) -> None:
    """Append code that rounds the row, with the work in rdi. It changes all registers but that.

    Args:
        a: The code.
        bits: Of a weight: 4 or 8.
        size: Of a block, a multiple of 16.
    """
    a.move(RSI, At(RDI))
    _scratch(a, R11)
    round_blocks(a, bits, size, At(RDI, 8 * WorkWords.FLAG))


def round_blocks(a: Assembler, bits: int, size: int, flag: At) -> None:
    """Append code that rounds the row at rsi to bytes at r11, and leaves there the place behind them.

    Args:
        a: The code.
        bits: Of a weight: 4 or 8.
        size: Of a block, a multiple of 16.
        flag: Where to note whether a number is not finite.
    """
    a.move(RCX, At(RDI, 8 * COUNT))
    a.read(_SIGNLESS, At(RDI, 8 * WorkWords.SIGNLESS))
    a.read(_ORDER, At(RDI, 8 * WorkWords.ORDER))
    a.spread(_BYTE, At(RDI, 8 * WorkWords.NUMBERS))
    a.spread(_LEAST, At(RDI, 8 * WorkWords.NUMBERS + 4))
    for register in (_ZERO, _FINITE):
        a.do("vxorps", register, register, register)
    block = a.size
    a.move(RAX, RSI)
    a.do("vxorps", _LARGEST, _LARGEST, _LARGEST)
    again = _loop(a, size)
    a.read(_ROUND, At(RAX))
    a.do("vfmadd231ps", _FINITE, _ROUND, _ZERO)  # NaN from the first number on that is not finite
    a.do("vandps", _ROUND, _ROUND, _SIGNLESS)
    a.do("vmaxps", _LARGEST, _LARGEST, _ROUND)
    a.add_number(RAX, 4 * STEPS)
    _again(a, again)
    a.fold("vmaxps", _LARGEST, _ROUND)
    a.do("vmaxps", _LARGEST, _LARGEST, _LEAST)
    a.do("vdivps", _FACTOR, _BYTE, _LARGEST)
    a.do("vdivps", _LARGEST, _LARGEST, _BYTE)  # the scale
    a.do("vxorps", _SUM, _SUM, _SUM)
    again = _loop(a, size)
    a.read(_ROUND, At(RSI))
    a.do("vmulps", _ROUND, _ROUND, _FACTOR)
    a.change("vcvtps2dq", _ROUND, _ROUND)
    a.do("vpaddd", _SUM, _SUM, _ROUND)
    a.do("vpermd", _ROUND, _ORDER, _ROUND)
    a.do("vpackssdw", _ROUND, _ROUND, _ROUND)
    a.do("vpacksswb", _ROUND, _ROUND, _ROUND)
    a.half("write4", _ROUND, At(R11))
    a.exchange_halves(_ROUND, _ROUND)
    a.half("write4", _ROUND, At(R11, 4))
    a.add_number(RSI, 4 * STEPS)
    a.add_number(R11, STEP)
    _again(a, again)
    a.fold("vpaddd", _SUM, _ROUND)
    a.shift_left(_SUM, _SUM, bits - 1)
    a.do("vpsubd", _SUM, _ZERO, _SUM)
    a.half("write4", _LARGEST, At(R11, SCALE))
    a.half("write4", _SUM, At(R11, OFFSET))
    a.add_number(R11, BEHIND)
    a.add_number(RCX, -1)
    a.jump_if("unequal", block)
    a.fold("vaddps", _FINITE, _ROUND)
    a.half("write4", _FINITE, flag)


def constants(a: Assembler) -> None:
    """Append code that reads what `turn` needs."""
    a.wide_move("read", _LOW, At(RDI, 8 * WorkWords.LOW))


def row(a: Assembler) -> None:
    """Append code that lets rsi point to the rounded row."""
    _scratch(a, RSI)


def begin(a: Assembler, size: int) -> None:
    """Append code that begins the sums of a block."""
    for one in range(GROUPS):
        a.wide_move("spread", SUMS + one, At(RSI, size + OFFSET))


def turn(a: Assembler, bits: int) -> None:
    """Append code that adds the products of eight numbers of the row and of the words of 64 columns."""
    for one in range(GROUPS):
        if bits == _EIGHT:
            for word in range(2):
                a.wide_move("read", TEMPORARY + word, At(R11, 256 * word + 64 * one))
        else:
            a.wide_move("read", WEIGHTS + one, At(R11, 64 * one))
            a.wide("vpandd", TEMPORARY, WEIGHTS + one, _LOW)
            a.wide_shift("right", TEMPORARY + 1, WEIGHTS + one, 4)
            a.wide("vpandd", TEMPORARY + 1, TEMPORARY + 1, _LOW)
        a.wide("vpdpbusd", SUMS + one, TEMPORARY, At(RSI), spread=True)
        a.wide("vpdpbusd", SUMS + one, TEMPORARY + 1, At(RSI, 4), spread=True)


def end(a: Assembler) -> None:
    """Append code that adds the sums of a block, times both scales, to those of all blocks; then it goes on."""
    for one in range(GROUPS):
        a.wide_move("vcvtdq2ps", SUMS + one, SUMS + one)
        a.wide_move("read", TEMPORARY, At(R11, 64 * one))
        a.wide("vmulps", TEMPORARY, TEMPORARY, At(RSI, SCALE), spread=True)
        a.wide("vfmadd231ps", TOTALS + one, SUMS + one, TEMPORARY)
    a.add_number(RSI, BEHIND)


def _scratch(a: Assembler, register: int) -> None:
    a.move(register, RDI)
    a.add_number(register, 8 * WorkWords.SCRATCH)


def _loop(a: Assembler, size: int) -> int:
    a.set_number(R13, size // STEPS)
    return a.size


def _again(a: Assembler, place: int) -> None:
    a.add_number(R13, -1)
    a.jump_if("unequal", place)
