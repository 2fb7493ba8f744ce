"""Parts of the code for products of a row that is rounded to bytes, with weights of 4 or 8 bits and AVX2 alone.

Without VNNI, an instruction multiplies bytes and adds two products in 16 bits. Half bytes without a sign make that
exact: two products with them are at most 3,810, and eight of these fit. So sums of 32 numbers of a row stay in 16 bits;
weights of 8 bits are two halves, with sums of their own. `row_few_bytes` has the rounding, and the same with VNNI.
"""

from __future__ import annotations

from ort_py_onednn.binding.assembler import R11, R13, RDI, RSI, Assembler, At
from ort_py_onednn.binding.row_few_bytes import BEHIND, OFFSET, SCALE, STEP, STEPS, TOTALS, WorkWords

__all__ = ["add_pairs", "begin", "chunk_of", "end", "groups_of", "turns"]

_FOUR = 4
_LONGEST = 32
"""Numbers of a row up to which sums fit into 16 bits."""

_HIGH, _NUMBERS = 1, 2
"""Registers of the upper halves of bytes, and the first of two for numbers of the row."""

_SHORT, _SUMS = 4, 12
"""First registers of sums in 16 bits, and of those of a block."""

_ROW = 256
"""Bytes of a panel's words."""

_REGISTER, _LINE = 32, 64
"""Bytes of a register, and what is fetched at once."""


def groups_of(bits: int) -> int:
    """Registers of columns side by side."""
    return 16 // bits


def chunk_of(size: int) -> int:
    """Numbers of a block that are added up in 16 bits."""
    return _LONGEST if size % _LONGEST == 0 else _LONGEST // 2


def begin(a: Assembler, bits: int, size: int) -> None:
    """Append code that begins the sums of a block, whose bytes of the row are at rsi."""
    for one in range(groups_of(bits)):
        a.spread(_SUMS + one, At(RSI, size + OFFSET))


def turns(a: Assembler, bits: int, size: int, columns: int, ahead: int) -> None:
    """Append code that adds the products of the block with words at r11, and leaves the places behind them.

    Args:
        a: The code.
        bits: Of a weight: 4 or 8.
        size: Of a block.
        columns: Bytes of the columns in front.
        ahead: How far ahead weights are fetched, in bytes; 0 where they are not.
    """
    chunk = chunk_of(size)
    a.set_number(R13, size // chunk)
    again = a.size
    for one in range(_FOUR):
        a.do("vxorps", _SHORT + one, _SHORT + one, _SHORT + one)
    behind = _ROW * (bits // _FOUR) * chunk // STEPS
    for line in range(ahead, ahead + behind if ahead else 0, _LINE):
        a.fetch(At(R11, line))
    for turn in range(chunk // STEPS):
        for half in range(2):
            a.spread(_NUMBERS + half, At(RSI, STEP * turn + 4 * half))
        _turn(a, bits, At(R11, _ROW * (bits // _FOUR) * turn + columns))
    a.add_number(RSI, chunk)
    a.add_number(R11, behind)
    groups = groups_of(bits)
    for one in range(groups):
        add_pairs(a, _SUMS + one, _SHORT + one, At(RDI, 8 * WorkWords.ONES))
        if bits != _FOUR:
            add_pairs(a, _SUMS + one, _SHORT + groups + one, At(RDI, 8 * WorkWords.SIXTEENS))
    a.add_number(R13, -1)
    a.jump_if("unequal", again)


def _turn(a: Assembler, bits: int, words: At) -> None:
    """Append code for eight numbers of the row: one word of each column, or two."""
    groups, low = groups_of(bits), At(RDI, 8 * WorkWords.LOW)
    for word in range(bits // _FOUR):
        for one in range(groups):
            a.read(0, At(words.base, words.behind + _ROW * word + _REGISTER * one))
            a.shift_down(_HIGH, 0, 4)
            a.do("vandps", 0, 0, low)
            a.do("vandps", _HIGH, _HIGH, low)
            # Halves of a word of 4 bits are of other numbers of the row; those of 8 bits of the same.
            a.do("vpmaddubsw", 0, 0, _NUMBERS + word)
            a.do("vpmaddubsw", _HIGH, _HIGH, _NUMBERS + (1 if bits == _FOUR else word))
            a.do("vpaddw", _SHORT + one, _SHORT + one, 0)
            above = _SHORT + one if bits == _FOUR else _SHORT + groups + one
            a.do("vpaddw", above, above, _HIGH)


def add_pairs(a: Assembler, sums: int, short: int, factors: At) -> None:
    """Append code that adds sums in 16 bits, times factors, to those of words. It changes the former."""
    a.do("vpmaddwd", short, short, factors)
    a.do("vpaddd", sums, sums, short)


def end(a: Assembler, bits: int, columns: int) -> None:
    """Append code that adds the sums of a block, times both scales, to those of all blocks; then it goes on."""
    a.spread(_NUMBERS, At(RSI, SCALE))
    for one in range(groups_of(bits)):
        a.change("vcvtdq2ps", _SUMS + one, _SUMS + one)
        a.do("vmulps", 0, _NUMBERS, At(R11, columns + _REGISTER * one))
        a.do("vfmadd231ps", TOTALS + one, _SUMS + one, 0)
    a.add_number(RSI, BEHIND)
