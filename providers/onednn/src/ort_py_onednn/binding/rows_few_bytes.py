"""Code for products of several rows that are rounded to bytes, with panels of weights of few bits.

The rows are rounded ahead, each block relative to its largest number: accuracy level 4 allows that, and several
products may read the same bytes. With VNNI, weights of 4 bits become bytes in the memory of a thread, once for all
rows of a group, and those of 8 bits are multiplied as they lie; `rows_few_pairs` does without VNNI. A group with a row
that is not finite is computed without rounding.

`rows_few_bits` has the frame, and `row_few_bytes` the rounding and its layout.
"""

from __future__ import annotations

import functools

from ort_py_onednn.binding import rows_few_pairs
from ort_py_onednn.binding.assembler import (
    R8,
    R9,
    R10,
    R11,
    R12,
    R13,
    R14,
    R15,
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
from ort_py_onednn.binding.own_code import CLEAR, ENTER, LEAVE
from ort_py_onednn.binding.own_rows import claim
from ort_py_onednn.binding.row_few_bits import ROW, units
from ort_py_onednn.binding.row_few_bytes import BEHIND, GROUPS, OFFSET, SCALE, STEP, STEPS, round_blocks
from ort_py_onednn.binding.row_frame import RUN
from ort_py_onednn.binding.rows_few_bits import Place, RowsWords, exact, framed, tiles, weights_place

__all__ = ["code", "rounding", "row_bytes"]

_FLAG = 8
"""Bytes behind a row, which say whether one of its numbers is not finite."""

_SUMS, _SPREAD, _MASK, _REST = 8, 4, 4, 5
"""First register of sums; that of numbers of a row in all places; those of a mask and of what it leaves."""

_WIDTH = 64
"""Bytes of a register."""


def row_bytes(size: int, count: int) -> int:
    """Bytes of a rounded row.

    Args:
        size: Of a block.
        count: Blocks.
    """
    return count * (size + BEHIND) + _FLAG


@functools.cache
def rounding(bits: int, size: int, count: int) -> bytes:
    """Code of ``void round(struct work *)``, whose words are those of `row_few_bytes.WorkWords`, for several rows.

    Args:
        bits: Of a weight: 4 or 8.
        size: Of a block, a multiple of 16.
        count: Blocks of a row.
    """
    a = Assembler()
    a.digits(ENTER)
    again = a.size
    end = claim(a, RUN)
    for register, step, word in ((RSI, 4 * size * count, 0), (R11, row_bytes(size, count), 1)):
        a.set_number(register, step)
        a.multiply(register, RAX)
        a.add(register, At(RDI, 8 * word))
    row = a.size
    round_blocks(a, bits, size, At(R11))
    a.add_number(R11, _FLAG)
    a.add_number(R12, -1)
    a.jump_if("greater", row)
    a.repeat(again)
    a.land(end)
    a.digits(CLEAR + LEAVE)
    return a.code()


@functools.cache
def code(bits: int, size: int, count: int, *, wide: bool) -> bytes:
    """Code of ``void products(struct work *)``, see `rows_few_bits.RowsWords`.

    Args:
        bits, size, count: As of `rounding`.
        wide: Whether there is AVX-512 with VNNI.
    """
    stride = row_bytes(size, count)

    def group(a: Assembler) -> None:
        a.move(RSI, At(R14, Place.FIRST))
        a.set_number(RAX, stride)
        a.multiply(RSI, RAX)
        a.add(RSI, At(RDI, 8 * RowsWords.ROUNDED))
        a.move(RAX, RSI)
        a.move(RCX, RBX)
        again = a.size
        other = a.jump_unless_zero(At(RAX, stride - _FLAG))
        a.add_number(RAX, stride)
        a.add_number(RCX, -1)
        a.jump_if("greater", again)
        _of_bytes(a, bits, size, count, wide=wide)
        done = a.jump_always()
        a.land(other)
        exact(a, bits, size, count)
        a.land(done)

    return framed(bits, size, count, group)


def _of_bytes(a: Assembler, bits: int, size: int, count: int, *, wide: bool) -> None:
    """Append code for a group of rows, which are at rsi."""
    a.move(R11, R8)
    a.set_number(RDX, count)
    block = a.size
    if wide and bits == STEPS:
        a.move(R12, R11)
        a.add_number(R11, (units(bits, size) - 1) * ROW)
    else:
        if wide:
            _become_bytes(a, size)
        else:
            rows_few_pairs.become_halves(a, bits, size)
        weights_place(a, R12)
    stride = row_bytes(size, count)
    tile = functools.partial(_tile, size=size, stride=stride)
    if not wide:
        tile = functools.partial(rows_few_pairs.tile, bits=bits, size=size, stride=stride)
    tiles(a, tile, stride)
    a.add_number(RSI, size + BEHIND)
    a.add_number(R11, ROW)
    a.add_number(RDX, -1)
    a.jump_if("greater", block)


def _become_bytes(a: Assembler, size: int) -> None:
    """Append code that makes bytes of a block's weights at r11, and leaves there the place behind them."""
    a.wide_move("read", _MASK, At(RDI, 8 * RowsWords.LOW))
    weights_place(a, R9)
    a.set_number(RAX, size // STEPS)
    again = a.size
    for one in range(GROUPS):
        a.wide_move("read", one, At(R11, _WIDTH * one))
        a.wide_shift("right", _REST, one, 4)
        a.wide("vpandd", one, one, _MASK)
        a.wide("vpandd", _REST, _REST, _MASK)
        a.wide_move("write", one, At(R9, _WIDTH * one))
        a.wide_move("write", _REST, At(R9, ROW + _WIDTH * one))
    a.add_number(R9, 2 * ROW)
    a.add_number(R11, ROW)
    a.add_number(RAX, -1)
    a.jump_if("greater", again)


def _tile(a: Assembler, rows: int, size: int, stride: int) -> None:
    """Append code that adds the products of rows with a block, whose bytes are at r12 and whose scales at r11."""
    sums = [[_SUMS + GROUPS * row + one for one in range(GROUPS)] for row in range(rows)]
    for row in range(rows):
        for one in sums[row]:
            a.wide_move("spread", one, At(R10, stride * row + size + OFFSET))
    a.move(RBP, R12)
    a.move(R13, R10)
    a.set_number(RAX, size // STEPS)
    again = a.size
    for word in range(2):
        for one in range(GROUPS):
            a.wide_move("read", one, At(RBP, ROW * word + _WIDTH * one))
        for row in range(rows):
            spread = _SPREAD + row % GROUPS
            a.wide_move("spread", spread, At(R13, stride * row + 4 * word))
            for one in range(GROUPS):
                a.wide("vpdpbusd", sums[row][one], one, spread)
    a.add_number(RBP, 2 * ROW)
    a.add_number(R13, STEP)
    a.add_number(RAX, -1)
    a.jump_if("greater", again)
    for one in range(GROUPS):
        a.wide_move("read", one, At(R11, _WIDTH * one))
    for row in range(rows):
        a.wide_move("spread", _SPREAD, At(R10, stride * row + size + SCALE))
        for one in range(GROUPS):
            number, total = sums[row][one], _SPREAD + 1 + one % 3
            a.wide_move("vcvtdq2ps", number, number)
            a.wide("vmulps", number, number, one)
            a.wide_move("read", total, At(R15, ROW * row + _WIDTH * one))
            a.wide("vfmadd231ps", total, number, _SPREAD)
            a.wide_move("write", total, At(R15, ROW * row + _WIDTH * one))
