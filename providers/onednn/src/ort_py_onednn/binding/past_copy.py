"""Presents of attention to a past, in machine code: new keys and values of a head behind the past, keys turned.

Where past and present are one memory, only new rows are written. Else the rows of the past that count are copied in
front of them, and rows behind them become zeroes. `past_code` says for which head; `past_table` has all sizes.
"""

from __future__ import annotations

from ort_py.light_tuple import NamedTuple
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
    Constant,
)
from ort_py_onednn.binding.past_frame import masked
from ort_py_onednn.binding.past_table import Grown, Word

__all__ = ["KEYS_OF", "VALUES_OF", "Side", "Tables", "continue_past", "tables", "turn"]

_MOVE, _CLEAR = "f3a4", "f3aa"  # rep movsb; rep stosb
_SAVE, _RESTORE = "53", "5b"  # push rbx; pop rbx
_WIDTH = 32


class Side(NamedTuple):
    """Words of keys or of values."""

    row: int
    steps: int
    new: int
    past: int
    present: int


KEYS_OF = Side(Word.KEY_BYTES, Word.KEY_STEPS, Word.NEW_KEY, Word.PAST_KEY, Word.PRESENT_KEY)
VALUES_OF = Side(Word.VALUE_BYTES, Word.VALUE_STEPS, Word.NEW_VALUE, Word.PAST_VALUE, Word.PRESENT_VALUE)


class Tables(NamedTuple):
    """Constants: numbers from which masks are read, and places of four numbers, each twice."""

    ones: Constant
    twice: Constant


def tables(a: Assembler) -> Tables:
    """The constants of what this module appends."""
    return Tables(a.table((0xFFFFFFFF,) * 8 + (0,) * 8), a.table((0, 0, 1, 1, 2, 2, 3, 3)))


def continue_past(a: Assembler, side: Side, constants: Tables) -> None:
    """Append code that makes the present of a head.

    It finds the number of the head over all entries of the batch in r9, the entry in r11, the head in that in r14, and
    constants at r8; these stay.
    """
    a.move(R13, At(RBP, side.row))
    a.move(RBX, At(RBP, Word.GROWN))
    a.move(RAX, R11)
    a.multiply(RAX, At(RBP, Word.ENTRY_BYTES))
    a.add(RAX, RBX)
    a.move(R10, At(RAX, Grown.START))
    for register, rows, base in ((RDI, Grown.LENGTH, side.present), (RSI, Grown.HELD, side.past)):
        a.move(register, R9)
        a.multiply(register, At(RBX, rows))
        a.multiply(register, R13)
        a.add(register, At(RBP, base))
    a.move(RCX, R10)
    a.multiply(RCX, R13)
    a.move(R12, At(RBX, Grown.LENGTH))
    a.subtract(R12, R10)
    a.subtract(R12, At(RBP, Word.NEW))  # rows behind the new ones
    a.compare_whole(RSI, RDI)
    shared = a.jump_if("equal")
    a.digits(_MOVE)
    done = a.jump_always()
    a.land(shared)
    a.add(RDI, RCX)
    a.set_number(R12, 0)
    a.land(done)
    a.move(R15, R11)
    a.multiply(R15, At(RBP, side.steps))
    a.move(RAX, R14)
    a.multiply(RAX, At(RBP, side.steps + 8))
    a.add(R15, RAX)
    a.add(R15, At(RBP, side.new))
    a.multiply(R10, At(RBP, Word.HALF_BYTES))
    a.move(RBX, At(RBP, Word.NEW))
    row = a.size
    a.move(RSI, R15)
    if side is KEYS_OF:
        turn(a, constants)
    else:
        a.move(RCX, R13)
        a.digits(_MOVE)
    a.add(R15, At(RBP, side.steps + 16))
    a.add_number(RBX, -1)
    a.jump_if("unequal", row)
    a.multiply(R12, R13)
    a.move(RCX, R12)
    a.set_number(RAX, 0)
    a.digits(_CLEAR)


def turn(a: Assembler, constants: Tables) -> None:
    """Append code that writes a row, of which pairs of numbers are turned by their angles.

    It finds the row at rsi, its place at rdi, its bytes in r13, the bytes in front of its cosines in r10, and constants
    at r8. Afterwards, rdi is behind the row, and r10 has the bytes in front of the next cosines. It changes rax, rcx,
    rdx, rsi and registers 0 to 4, 14 and 15.
    """
    a.digits(_SAVE)
    a.move(RDX, At(RBP, Word.HALF_BYTES))
    a.move(RBX, RDX)
    a.compare_number(RBX, 0)
    plain = a.jump_if("equal")
    a.set_number(RAX, 0)
    a.compare_whole(RAX, At(RBP, Word.NEIGHBOURS))
    neighbours = a.jump_if("unequal")
    _turn_halves(a, constants)
    done = a.jump_always()
    a.land(neighbours)
    _turn_neighbours(a, constants)
    a.land(done)
    a.land(plain)
    a.move(RCX, R13)
    a.subtract(RCX, RDX)
    a.subtract(RCX, RDX)
    a.digits(_MOVE)
    a.digits(_RESTORE)


def _turn_halves(a: Assembler, constants: Tables) -> None:
    """Append code for pairs of a number of the first half and one of the second; rbx has the bytes of a half."""
    first, second, cosines, sines, result = range(5)
    again = a.size
    _next_mask(a, constants)
    _angles(a, cosines, sines, 15)
    a.read_part(first, 15, At(RSI))
    a.read_part(second, 15, At(RSI, 0, RDX))
    a.do("vmulps", result, first, cosines)
    a.do("vfnmadd231ps", result, second, sines)
    a.write_part(result, 15, At(RDI))
    a.do("vmulps", result, second, cosines)
    a.do("vfmadd231ps", result, first, sines)
    a.write_part(result, 15, At(RDI, 0, RDX))
    for register in (RSI, RDI, R10):
        a.add_number(register, _WIDTH)
    a.add_number(RBX, -_WIDTH)
    a.jump_if("greater", again)
    for register in (RSI, RDI, R10):
        a.add(register, RBX)  # back to the end of the half
    for register in (RSI, RDI):
        a.add(register, RDX)


def _turn_neighbours(a: Assembler, constants: Tables) -> None:
    """Append code for pairs of neighbours; rbx has the bytes of half of their numbers."""
    pairs, other, cosines, sines, places = range(5)
    a.read(places, At(R8, constants.twice))
    a.add(RBX, RBX)
    again = a.size
    _next_mask(a, constants)
    a.shift(RCX, -1)
    masked(a, 14, constants.ones)
    _angles(a, cosines, sines, 14)
    for register in (cosines, sines):
        a.do("vpermd", register, places, register)
    a.read_part(pairs, 15, At(RSI))
    a.turn(other, pairs, 0xB1)
    a.do("vmulps", other, other, sines)
    a.do("vfmaddsub213ps", pairs, cosines, other)  # the first of a pair less, the second and what is added
    a.write_part(pairs, 15, At(RDI))
    for register in (RSI, RDI):
        a.add_number(register, _WIDTH)
    a.add_number(R10, _WIDTH // 2)
    a.add_number(RBX, -_WIDTH)
    a.jump_if("greater", again)
    for register in (RSI, RDI):
        a.add(register, RBX)  # back to the end of the pairs
    a.shift(RBX, -1)
    a.add(R10, RBX)


def _next_mask(a: Assembler, constants: Tables) -> None:
    """Append code that sets mask 15 for the next bytes of those that rbx counts, and leaves their number in rcx."""
    a.move(RCX, RBX)
    a.set_number(RAX, _WIDTH)
    a.compare_whole(RAX, RCX)
    a.move_if_at_most(RCX, RAX)
    masked(a, 15, constants.ones)


def _angles(a: Assembler, cosines: int, sines: int, mask: int) -> None:
    """Append code that reads cosines and sines."""
    for register, word in ((cosines, Word.COSINES), (sines, Word.SINES)):
        a.move(RAX, At(RBP, word))
        a.read_part(register, mask, At(R10, 0, RAX))
