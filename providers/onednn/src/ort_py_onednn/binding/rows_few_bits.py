"""Code for products of several rows with panels of weights of few bits.

A thread claims a panel of 64 columns, and takes rows in groups. Of each group it keeps the sums of a panel in memory of
its own. Weights of a block become float32 there, times their scales, once for all rows of a group, and are multiplied
while they are still in the cache: so weights are read as they lie, and there is never more than a piece of a block of
them in float32. Only instructions of AVX2 are used.

`row_few_bits` describes panels, and has the code for one row.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

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
from ort_py_onednn.binding.row_few_bits import ROW, units, widen
from ort_py_onednn.binding.row_few_bytes import STEPS

__all__ = ["TILE", "Place", "RowsWords", "code", "scratch_bytes", "tiles"]

TILE = 6
"""Rows whose sums are in registers at once."""

_COLUMNS, _REGISTER, _LANES = 16, 32, 2
"""Columns whose sums are in registers at once, bytes of a register, and registers of such columns."""

_PIECES = (64, 48, 32, 16)
"""Numbers of a block that become float32 at once: the first of these that divides it."""

_TURN = 4
"""Numbers that a turn of the loop takes."""

_HALF = 4
"""Registers of half of a panel's columns."""

Code = Callable[[Assembler], None]


class RowsWords:
    """Words of the work behind those of all own code.

    Attributes:
        WEIGHTS, BIAS: Addresses; that of the bias may be null.
        ROUNDED: Address of the rounded rows. A second call writes it, as if the work began eight words later, so that
            it clears `SLOT`.
        SLOT: Threads that have begun.
        ROWS: Number of rows.
        GROUP: Rows of a group, all but the last.
        STRIDE: Bytes from a row of the result to the next.
        SCRATCH: Address of the threads' own memory.
        WHOLE: Number of panels whose columns all count.
        RUN: Panels that are claimed at once.
        MASK: Which columns of the panel behind those count, 32 bits for each.
        FLIP: The highest bit of each weight, in sixteen words.
        LOW: The lower half of each byte, in sixteen words.
        ONES, SIXTEENS: The number 1 or 16 in 16 bits, sixteen times.
    """

    WEIGHTS, BIAS = 5, 6
    LATER = 8
    ROUNDED, SLOT = LATER, LATER + 3
    ROWS, GROUP, STRIDE, SCRATCH, WHOLE, RUN = range(13, 19)
    MASK = 20
    FLIP = MASK + 32
    LOW = FLIP + 8
    ONES = LOW + 8
    SIXTEENS = ONES + 4
    COUNT = SIXTEENS + 4


class Place:
    """Bytes of a thread's memory: words that registers are kept in, the sums of a group, and weights of a block."""

    COLUMN, LEFT, FIRST, PART = 0, 8, 16, 24
    """Bytes of the columns in front of the panel, rows that are left, the first row of the group, and whether the panel
    is one whose columns do not all count."""

    SUMS = 64


def piece_of(size: int) -> int:
    """Numbers of a block of a size that become float32 at once."""
    return next(piece for piece in _PIECES if size % piece == 0)


def scratch_bytes(size: int, group: int) -> int:
    """Bytes of a thread's memory: sums, and weights of a block as halves of bytes, or of a piece of it as float32.

    Args:
        size: Of a block.
        group: Rows of a group.
    """
    return Place.SUMS + ROW * group + max(ROW * piece_of(size), ROW // 2 * size)


@functools.cache
def code(bits: int, size: int, count: int) -> bytes:
    """Code of ``void products(struct work *)``, see `RowsWords`, for rows that are not rounded.

    Args:
        bits: Of a weight: 4 or 8.
        size: Of a block, a multiple of 16.
        count: Blocks of a row.
    """
    return framed(bits, size, count, functools.partial(exact, bits=bits, size=size, count=count))


def framed(bits: int, size: int, count: int, group: Code) -> bytes:
    """The code around that for a group of rows.

    Args:
        bits, size, count: As of `code`.
        group: Appends code that adds the products of the rbx rows from `Place.FIRST` on with the panel at r8 to their
            sums, which are the bias so far. The thread's memory is at r14. It may change all other registers but rdi
            and r8.
    """
    a = Assembler()
    a.digits(ENTER)
    a.set_number(RAX, 1)
    a.take_number(RAX, At(RDI, 8 * RowsWords.SLOT))
    a.move(R14, At(RDI, 8 * RowsWords.GROUP))
    a.shift(R14, ROW.bit_length() - 1)
    a.add_number(R14, scratch_bytes(size, 0))
    a.multiply(R14, RAX)
    a.add(R14, At(RDI, 8 * RowsWords.SCRATCH))
    again = a.size
    end = claim(a, RowsWords.RUN)
    _begin_panel(a, units(bits, size) * ROW * count)
    groups = a.size
    a.move(RBX, At(RDI, 8 * RowsWords.GROUP))
    a.move(RAX, At(R14, Place.LEFT))
    a.compare_whole(RBX, RAX)
    few = a.jump_if("at most")
    a.move(RBX, RAX)
    a.land(few)
    _either(a, _begin_sums)
    group(a)
    _either(a, _end_sums)
    a.move(RAX, At(R14, Place.FIRST))
    a.add(RAX, RBX)
    a.keep(RAX, At(R14, Place.FIRST))
    a.move(RAX, At(R14, Place.LEFT))
    a.subtract(RAX, RBX)
    a.keep(RAX, At(R14, Place.LEFT))
    a.compare_number(RAX, 0)
    a.jump_if("greater", groups)
    a.repeat(again)
    a.land(end)
    a.digits(CLEAR + LEAVE)
    return a.code()


def _begin_panel(a: Assembler, panel: int) -> None:
    """Append code that notes what belongs to panel rax, which has so many bytes."""
    a.set_number(R8, panel)
    a.multiply(R8, RAX)
    a.add(R8, At(RDI, 8 * RowsWords.WEIGHTS))
    a.set_number(RCX, 0)
    a.keep(RCX, At(R14, Place.FIRST))
    a.move(RDX, RAX)
    a.subtract(RDX, At(RDI, 8 * RowsWords.WHOLE))
    a.compare_number(RDX, 0)
    whole = a.jump_if("less")
    a.set_number(RCX, 1)
    a.land(whole)
    a.keep(RCX, At(R14, Place.PART))
    a.shift(RAX, ROW.bit_length() - 1)
    a.keep(RAX, At(R14, Place.COLUMN))
    a.move(RAX, At(RDI, 8 * RowsWords.ROWS))
    a.keep(RAX, At(R14, Place.LEFT))


def _either(a: Assembler, write: Callable[[Assembler, bool], None]) -> None:
    """Append code for panels whose columns all count, and for the other one."""
    other = a.jump_unless_zero(At(R14, Place.PART))
    write(a, False)
    done = a.jump_always()
    a.land(other)
    write(a, True)
    a.land(done)


def _begin_sums(a: Assembler, partly: bool) -> None:
    """Append code that lets the sums of rbx rows be the bias."""
    registers = range(2 * _HALF)
    for one in registers:
        a.do("vxorps", one, one, one)
    a.move(RDX, At(RDI, 8 * RowsWords.BIAS))
    a.compare_number(RDX, 0)
    without = a.jump_if("equal")
    a.add(RDX, At(R14, Place.COLUMN))
    for one in registers:
        _read(a, one, RDX, one, partly)
    a.land(without)
    _sums(a, RCX)
    a.move(RAX, RBX)
    again = a.size
    for one in registers:
        a.write(one, At(RCX, _REGISTER * one))
    a.add_number(RCX, ROW)
    _count(a, RAX, again)


def _end_sums(a: Assembler, partly: bool) -> None:
    """Append code that writes the sums of rbx rows to the result, with what is added behind."""
    a.move(RDX, At(R14, Place.FIRST))
    a.multiply(RDX, At(RDI, 8 * RowsWords.STRIDE))
    a.add(RDX, At(R14, Place.COLUMN))
    a.move(RSI, RDX)
    a.add(RDX, At(RDI, 8))
    a.add(RSI, At(RDI, 32))
    _sums(a, RCX)
    a.move(RAX, RBX)
    again = a.size
    registers = range(2 * _HALF)
    for one in registers:
        a.read(one, At(RCX, _REGISTER * one))
    a.digits("48837f2000")  # cmp qword [rdi + 32], 0
    without = a.jump_if("equal")
    for one in registers:
        _read(a, 8, RSI, one, partly)
        a.do("vaddps", one, one, 8)
    a.land(without)
    for one in registers:
        if partly:
            a.read(_MASKS, At(RDI, 8 * RowsWords.MASK + _REGISTER * one))
            a.write_part(one, _MASKS, At(RDX, _REGISTER * one))
        else:
            a.write(one, At(RDX, _REGISTER * one))
    for register in (RDX, RSI):
        a.add(register, At(RDI, 8 * RowsWords.STRIDE))
    a.add_number(RCX, ROW)
    _count(a, RAX, again)


_MASKS = 9
"""Register of a mask."""


def _read(a: Assembler, target: int, base: int, one: int, partly: bool) -> None:
    """Append a read of columns of a row of the panel's: eight of the register `one`."""
    if partly:
        a.read(_MASKS, At(RDI, 8 * RowsWords.MASK + _REGISTER * one))
        a.read_part(target, _MASKS, At(base, _REGISTER * one))
    else:
        a.read(target, At(base, _REGISTER * one))


def _sums(a: Assembler, register: int) -> None:
    a.move(register, R14)
    a.add_number(register, Place.SUMS)


def weights_place(a: Assembler, register: int) -> None:
    """Append code that lets a register point to the weights in the thread's memory."""
    a.move(register, At(RDI, 8 * RowsWords.GROUP))
    a.shift(register, ROW.bit_length() - 1)
    a.add(register, R14)
    a.add_number(register, Place.SUMS)


def _count(a: Assembler, register: int, again: int) -> None:
    a.add_number(register, -1)
    a.jump_if("greater", again)


def exact(a: Assembler, bits: int, size: int, count: int) -> None:
    """Append code for a group of rows that are not rounded; see `framed`."""
    piece = piece_of(size)
    a.move(RSI, At(R14, Place.FIRST))
    a.set_number(RAX, 4 * size * count)
    a.multiply(RSI, RAX)
    a.add(RSI, At(RDI))
    a.move(R11, R8)
    a.set_number(RDX, count)
    block = a.size
    a.set_number(RCX, size // piece)
    a.move(R12, R11)
    a.add_number(R12, (units(bits, size) - 1) * ROW)  # the scales
    pieces = a.size
    _become_floats(a, bits, piece)
    tiles(a, functools.partial(_tile, depth=size * count, piece=piece), 4 * size * count)
    a.add_number(RSI, 4 * piece)
    _count(a, RCX, pieces)
    a.add_number(R11, ROW)
    _count(a, RDX, block)


def _become_floats(a: Assembler, bits: int, piece: int) -> None:
    """Append code that makes float32 of a piece of a block's weights at r11, with scales at r12. It leaves in r11 the
    place behind the piece."""
    together = 32 // bits
    weights_place(a, R9)
    a.set_number(RAX, piece // STEPS)
    again = a.size
    for half in range(2):
        columns = _HALF * _REGISTER * half
        for one in range(_HALF):
            a.read(_HALF + one, At(R12, columns + _REGISTER * one))
        for word in range(bits // 4):
            for one in range(_HALF):
                a.read(one, At(R11, ROW * word + columns + _REGISTER * one))
                a.do("vxorps", one, one, At(RDI, 8 * RowsWords.FLIP))
            for step in range(together):
                for one in range(_HALF):
                    target = 2 * _HALF + one
                    widen(a, bits, step, target, one)
                    a.do("vmulps", target, target, _HALF + one)
                    a.write(target, At(R9, ROW * (together * word + step) + columns + _REGISTER * one))
    a.add_number(R9, ROW * STEPS)
    a.add_number(R11, ROW * bits // 4)
    _count(a, RAX, again)


def tiles(a: Assembler, tile: Callable[[Assembler, int], None], stride: int) -> None:
    """Append code that takes the rbx rows from rsi on, so many bytes apart, in tiles.

    Args:
        a: The code.
        tile: Appends code for so many rows: they are at r10, and their sums at r15. It may change all registers but
            rdi, r8, r14, rbx, rsi, r11, r12, rcx, rdx and r9.
        stride: The bytes.
    """
    a.move(R9, RBX)
    a.move(R10, RSI)
    _sums(a, R15)
    again = a.size
    a.compare_number(R9, TILE)
    fewer = a.jump_if("less")
    tile(a, TILE)
    a.add_number(R10, stride * TILE)
    a.add_number(R15, ROW * TILE)
    a.add_number(R9, -TILE)
    a.repeat(again)
    a.land(fewer)
    done: list[int] = []
    for rows in range(1, TILE):
        a.compare_number(R9, rows)
        other = a.jump_if("unequal")
        tile(a, rows)
        done.append(a.jump_always())
        a.land(other)
    for jump in done:
        a.land(jump)


def _tile(a: Assembler, rows: int, depth: int, piece: int) -> None:
    """Append code that adds the products of rows with a piece of a block in float32, 16 columns after the other."""
    first = _LANES * rows
    factors, number = range(first, first + _LANES), first + _LANES
    for columns in range(0, ROW, _REGISTER * _LANES):
        weights_place(a, RBP)
        a.move(R13, R10)
        for row in range(rows):
            for one in range(_LANES):
                a.read(_LANES * row + one, At(R15, ROW * row + columns + _REGISTER * one))
        a.set_number(RAX, piece // _TURN)
        again = a.size
        for step in range(_TURN):
            for one, factor in enumerate(factors):
                a.read(factor, At(RBP, ROW * step + columns + _REGISTER * one))
            for row in range(rows):
                a.spread(number, At(R13, 4 * (depth * row + step)))
                for one, factor in enumerate(factors):
                    a.do("vfmadd231ps", _LANES * row + one, factor, number)
        a.add_number(R13, 4 * _TURN)
        a.add_number(RBP, ROW * _TURN)
        _count(a, RAX, again)
        for row in range(rows):
            for one in range(_LANES):
                a.write(_LANES * row + one, At(R15, ROW * row + columns + _REGISTER * one))
