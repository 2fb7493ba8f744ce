"""Machine code for AVX2 of attention to a past; see `past_attention` for what it computes.

A function copies the past and what is new behind each other. Another one takes pieces of the work, in three steps:
scores of all rows, eight keys at a time; exponentials of a row; and the mixture of the values. `past_table` has all
sizes. What is made here is bytes; it does not run them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

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
    RSP,
    Assembler,
    At,
    Constant,
)
from ort_py_onednn.binding.own_code import BEGIN
from ort_py_onednn.binding.past_table import KEYS, ROWS, Word
from ort_py_onednn.binding.widening import POP, PUSH

__all__ = ["attend_code", "copy_code"]

_Step = Callable[[Assembler], None]

_AT_SCRATCH, _AT_CONSTANTS, _AT_KEYS, _AT_VALUES, _AT_COUNT, _AT_FROM, _AT_TO, _AT_END = (
    At(RSP, 8 * place) for place in range(8)
)
"""The frame: this thread's scores, constants, keys and values of the heads, bytes of a score times all keys, those of
the values that are mixed at once and of those before, and the end of the rows."""
_AT_BYTES = At(RSP, 64)
"""Place for the last bytes of a mask."""
_LINES = 72
_FRAME = _LINES + 64 * ROWS + 8
_LINE_BYTES = 64
_OF_QUERY, _OF_RESULT, _OF_BIAS, _SEEN, _OF_SCORES = range(0, 40, 8)
"""Bytes at which a row of a piece has its addresses, and the bytes of the scores that it sees."""

_POINTERS = (R8, R9, R10, R11, R12, R13, R14, R15)
"""Registers that hold the addresses of the keys whose scores are computed at once."""

_TOGETHER = 256
"""Bytes of the scores of keys whose values are mixed at once: 64 keys."""

_LOWEST = float(np.finfo(np.float32).min)
_LEAST = -87.0
"""Below this an exponential is taken for 0; it is less than the least number of full precision."""

_EXPONENTIAL = (1.0, 1.0, 0.4999999, 0.16666418, 0.04166824, 0.008374987, 0.0013836629)
"""Coefficients for an exponential of at most half of log 2, of the least relative error (2e-9)."""

_NOT_LESS = 0x15
_EQUAL = 0x00


def copy_code() -> bytes:
    """Code of ``void copy(table *)``: makes the present, a head of keys or of values at a time."""
    a = Assembler()
    a.digits(BEGIN + PUSH)
    a.move(RBP, RDI)
    piece = a.size
    end = _claim(a, Word.NEXT_COPY, Word.COPIES)
    a.digits("89c383e301")  # mov ebx, eax; and ebx, 1: keys or values
    a.shift(RAX, -1)
    a.move(R14, RAX)
    a.divide(At(RBP, Word.KEY_HEADS))
    a.shift(RBX, 3)
    a.move(R12, RBX)
    a.add(R12, RBX)
    a.add(R12, RBX)
    a.add(R12, RBP)
    a.add(RBX, RBP)
    a.move(R13, At(RBX, Word.KEY_BYTES))
    a.multiply(RAX, At(R12, Word.KEY_STEPS))
    a.multiply(RDX, At(R12, Word.KEY_STEPS + 8))
    a.add(RAX, RDX)
    a.add(RAX, At(RBX, Word.NEW_KEY))
    a.move(R15, RAX)
    a.move(RAX, At(RBP, Word.PAST))
    a.move(RCX, RAX)
    a.add(RAX, At(RBP, Word.NEW))
    a.multiply(RAX, R14)
    a.multiply(RAX, R13)
    a.add(RAX, At(RBX, Word.PRESENT_KEY))
    a.move(RDI, RAX)
    a.multiply(RCX, R13)
    a.move(RSI, RCX)
    a.multiply(RSI, R14)
    a.add(RSI, At(RBX, Word.PAST_KEY))
    a.digits("f3a4")  # rep movsb
    a.move(R10, At(RBP, Word.NEW))
    row = a.size
    a.move(RSI, R15)
    a.move(RCX, R13)
    a.digits("f3a4")
    a.add(R15, At(R12, Word.KEY_STEPS + 16))
    a.add_number(R10, -1)
    a.jump_if("unequal", row)
    a.repeat(piece)
    a.land(end)
    a.digits(POP + "31c0c3")
    return a.code()


def attend_code() -> bytes:
    """Code of ``void attend(table *)``: a piece of work at a time, with what `copy_code` has written."""
    a = Assembler()
    a.digits(BEGIN + PUSH)
    a.move(RBP, RDI)
    a.add_number(RSP, -_FRAME)
    a.digits("4c8d05")  # lea r8, [constants]
    constants = a.jump()
    a.keep(R8, _AT_CONSTANTS)
    ones = a.table((0xFFFFFFFF,) * 8 + (0,) * 8)
    a.set_number(RAX, 1)
    a.digits(f"f0480fc145{Word.NEXT_SLOT:02x}")  # lock xadd [rbp + slot], rax
    a.multiply(RAX, At(RBP, Word.SLOT_BYTES))
    a.add(RAX, At(RBP, Word.SCRATCH))
    a.keep(RAX, _AT_SCRATCH)
    piece = a.size
    end = _claim(a, Word.NEXT_PIECE, Word.PIECES)
    _enter(a)
    _score(a, ones)
    _weigh(a, ones)
    _mix(a, ones)
    a.repeat(piece)
    a.land(end)
    a.add_number(RSP, _FRAME)
    a.digits("c5f877" + POP + "31c0c3")  # vzeroupper; pop …; xor eax, eax; ret
    return a.finished(constants)


def _claim(a: Assembler, following: int, count: int) -> int:
    """Append code that takes the next piece of work into rax; returns the jump for when none is left."""
    a.set_number(RAX, 1)
    a.digits(f"f0480fc145{following:02x}")  # lock xadd [rbp + following], rax
    a.compare_whole(RAX, At(RBP, count))
    return a.jump_if("at least")


def _enter(a: Assembler) -> None:
    """Append code that finds what a piece of work reads and writes, row by row."""
    a.divide(At(RBP, Word.BLOCKS))
    a.move(R9, RAX)  # which keys
    a.move(R10, RDX)
    a.shift(R10, 3)  # the first row
    a.divide(At(RBP, Word.KEY_HEADS))
    a.move(R11, RAX)  # entry of the batch
    a.move(R14, RDX)
    a.multiply(R14, At(RBP, Word.GROUP))  # the first head
    a.move(R13, At(RBP, Word.PAST))
    a.add(R13, At(RBP, Word.NEW))
    for bytes_of, present, kept in (
        (Word.KEY_BYTES, Word.PRESENT_KEY, _AT_KEYS),
        (Word.VALUE_BYTES, Word.PRESENT_VALUE, _AT_VALUES),
    ):
        a.move(RAX, R9)
        a.multiply(RAX, R13)
        a.multiply(RAX, At(RBP, bytes_of))
        a.add(RAX, At(RBP, present))
        a.keep(RAX, kept)
    a.move(R12, R13)
    a.shift(R12, 2)
    a.keep(R12, _AT_COUNT)
    a.add_number(R12, 31)
    a.shift(R12, -5)
    a.shift(R12, 5)
    a.move(RSI, RSP)
    a.add_number(RSI, _LINES)
    a.move(RCX, At(RBP, Word.ALL_ROWS))
    a.subtract(RCX, R10)
    a.set_number(RAX, ROWS)
    a.compare_whole(RAX, RCX)
    a.move_if_at_most(RCX, RAX)
    a.move(RDI, _AT_SCRATCH)
    row = a.size
    _enter_row(a)
    a.add(RDI, R12)
    a.add_number(RSI, _LINE_BYTES)
    a.add_number(R10, 1)
    a.add_number(RCX, -1)
    a.jump_if("unequal", row)
    a.keep(RSI, _AT_END)


def _enter_row(a: Assembler) -> None:
    """Append code that keeps at rsi what row r10 of the queries of these keys reads and writes."""
    a.move(RAX, R10)
    a.divide(At(RBP, Word.GROUP))
    a.move(RBX, RAX)  # the new row
    a.add(RDX, R14)  # the head of queries
    for steps, base, place in ((Word.QUERY_STEPS, Word.QUERY, _OF_QUERY), (Word.RESULT_STEPS, Word.RESULT, _OF_RESULT)):
        _offset(a, steps)
        a.add(RAX, At(RBP, base))
        a.keep(RAX, At(RSI, place))
    _offset(a, Word.BIAS_STEPS)
    a.multiply(RAX, R13)
    a.add(RAX, At(RBP, Word.BIAS))
    a.keep(RAX, At(RSI, _OF_BIAS))
    a.move(RAX, At(RBP, Word.NEW))
    a.add_number(RAX, -1)
    a.subtract(RAX, RBX)
    a.multiply(RAX, At(RBP, Word.CAUSAL))
    a.shift(RAX, 2)
    a.move(RDX, _AT_COUNT)
    a.subtract(RDX, RAX)
    a.keep(RDX, At(RSI, _SEEN))
    a.keep(RDI, At(RSI, _OF_SCORES))


def _offset(a: Assembler, steps: int) -> None:
    """Append code that puts the bytes to entry r11, head rdx and row rbx into rax; changes r15."""
    a.move(RAX, R11)
    a.multiply(RAX, At(RBP, steps))
    for register, place in ((RDX, 8), (RBX, 16)):
        a.move(R15, register)
        a.multiply(R15, At(RBP, steps + place))
        a.add(RAX, R15)


def _masked(a: Assembler, mask: int, ones: Constant) -> None:
    """Append code that sets a mask of the first bytes of a register, whose number is in rcx; changes rax."""
    a.digits("31c0")  # xor eax, eax
    a.subtract(RAX, RCX)
    a.read(mask, At(R8, ones + 32, RAX))


def _score(a: Assembler, ones: Constant) -> None:
    """Append code that computes the scores of all rows, eight keys at a time."""
    a.move(RCX, At(RBP, Word.KEY_BYTES))
    a.subtract(RCX, At(RBP, Word.WHOLE_BYTES))
    a.move(R8, _AT_CONSTANTS)
    _masked(a, 15, ones)
    a.spread(14, At(RBP, Word.SCALE))
    a.move(R8, _AT_KEYS)
    a.digits("31db")  # xor ebx, ebx: bytes of scores
    keys = a.size
    a.move(RCX, At(RBP, Word.KEY_BYTES))
    a.move(RDX, _AT_COUNT)
    a.subtract(RDX, RBX)
    for number, (before, register) in enumerate(itertools.pairwise(_POINTERS), 1):
        a.move(register, before)
        a.add(register, RCX)
        a.compare_number(RDX, 4 * number)
        a.move_if_at_most(register, before)  # behind the last key it is read again
    a.move(RDX, RSP)
    a.add_number(RDX, _LINES)
    a.move(RCX, At(RBP, Word.WHOLE_BYTES))
    row = a.size
    _score_row(a)
    a.add_number(RDX, _LINE_BYTES)
    a.compare_whole(RDX, _AT_END)
    a.jump_if("less", row)
    a.move(R8, R15)
    a.add(R8, At(RBP, Word.KEY_BYTES))
    a.add_number(RBX, 4 * KEYS)
    a.compare_whole(RBX, _AT_COUNT)
    a.jump_if("less", keys)


def _score_row(a: Assembler) -> None:
    """Append code that writes the scores of a row and eight keys: eight sums, then those of their halves."""
    for one in range(KEYS):
        a.do("vxorps", one, one, one)
    a.move(RSI, At(RDX, _OF_QUERY))
    a.digits("31c0")  # xor eax, eax
    a.compare_whole(RAX, RCX)
    none = a.jump_if("at least")
    chunk = a.size
    a.read(8, At(RSI, 0, RAX))
    for one, register in enumerate(_POINTERS):
        a.do("vfmadd231ps", one, 8, At(register, 0, RAX))
    a.add_number(RAX, 32)
    a.compare_whole(RAX, RCX)
    a.jump_if("less", chunk)
    a.land(none)
    a.compare_whole(RAX, At(RBP, Word.KEY_BYTES))
    whole = a.jump_if("at least")
    a.read_part(8, 15, At(RSI, 0, RAX))
    for one, register in enumerate(_POINTERS):
        a.read_part(9, 15, At(register, 0, RAX))
        a.do("vfmadd231ps", one, 8, 9)
    a.land(whole)
    for first in (0, 2, 4, 6):
        a.do("vhaddps", first, first, first + 1)
    a.do("vhaddps", 0, 0, 2)
    a.do("vhaddps", 4, 4, 6)
    a.join_halves(1, 0, 4, 0x20)
    a.join_halves(0, 0, 4, 0x31)
    a.do("vaddps", 0, 0, 1)
    a.do("vmulps", 0, 0, 14)
    a.move(RDI, At(RDX, _OF_SCORES))
    a.write(0, At(RDI, 0, RBX))


def _weigh(a: Assembler, ones: Constant) -> None:
    """Append code that turns scores into exponentials of their distance to the greatest of their row, by their sum."""
    a.move(R8, _AT_CONSTANTS)
    a.load(2, a.word(0xFF800000))
    a.move(RDX, RSP)
    a.add_number(RDX, _LINES)
    row = a.size
    a.move(RSI, At(RDX, _OF_SCORES))
    a.move(RDI, At(RDX, _OF_BIAS))
    a.move(R9, At(RDX, _SEEN))
    a.move(RCX, R9)
    a.digits("83e11f")  # and ecx, 31
    _masked(a, 15, ones)
    a.move(R10, R9)
    a.subtract(R10, RCX)
    _highest(a)
    _exponentials(a)
    _divide(a)
    a.add_number(RDX, _LINE_BYTES)
    a.compare_whole(RDX, _AT_END)
    a.jump_if("less", row)


def _divide(a: Assembler) -> None:
    """Append code that multiplies the exponentials of a row by register 4."""
    a.digits("31c0")  # xor eax, eax
    again = a.size
    a.do("vmulps", 3, 4, At(RSI, 0, RAX))
    a.write(3, At(RSI, 0, RAX))
    a.add_number(RAX, 32)
    a.compare_whole(RAX, R9)
    a.jump_if("less", again)


def _highest(a: Assembler) -> None:
    """Append code that adds the bias of a row, and leaves its greatest score in register 0, that of its bias in 1.

    Register 2 holds -infinity, which hidden scores become, and 15 the mask of the last of them.
    """
    a.load(0, 2)
    a.digits("4885ff")  # test rdi, rdi
    biased = a.jump_if("unequal")
    a.do("vxorps", 1, 1, 1)
    _seen(a, (_read_scores, _note_highest), (_read_scores, _hide_scores_behind, _note_highest))
    a.digits("e9")
    done = a.jump()
    a.land(biased)
    a.load(1, 2)
    a.set_number(RAX, 0)
    a.compare_whole(RAX, At(RBP, Word.BOOLEAN))
    boolean = a.jump_if("unequal")
    bias = _read_scores, _add_bias, _note_highest
    _seen(a, (_read_bias, *bias), (_read_last_bias, _hide_bias_behind, *bias))
    a.digits("e9")
    end = a.jump()
    a.land(boolean)
    _seen(a, (_read_bytes, _bias_of_bytes, *bias), (_read_last_bytes, _bias_of_bytes, _hide_bias_behind, *bias))
    a.land(end)
    a.land(done)


def _read_scores(a: Assembler) -> None:
    a.read(3, At(RSI, 0, RAX))


def _hide_scores_behind(a: Assembler) -> None:
    a.choose(3, 2, 3, 15)
    a.write(3, At(RSI, 0, RAX))


def _note_highest(a: Assembler) -> None:
    a.do("vmaxps", 0, 3, 0)


def _add_bias(a: Assembler) -> None:
    """Append code that adds register 4 to scores, of which those become -infinity that it is added to."""
    a.compare(5, 4, 2, _EQUAL)
    a.do("vaddps", 3, 3, 4)
    a.choose(3, 3, 2, 5)
    a.write(3, At(RSI, 0, RAX))
    a.do("vmaxps", 1, 4, 1)


def _read_bias(a: Assembler) -> None:
    a.read(4, At(RDI, 0, RAX))


def _read_last_bias(a: Assembler) -> None:
    a.read_part(4, 15, At(RDI, 0, RAX))


def _hide_bias_behind(a: Assembler) -> None:
    a.choose(4, 2, 4, 15)


def _read_bytes(a: Assembler) -> None:
    a.vex(1, 2, 0x31, 4, None, At(RDI))  # vpmovzxbd
    a.add_number(RDI, 8)


def _read_last_bytes(a: Assembler) -> None:
    """Append code that reads rcx / 4 bytes, and none behind them."""
    a.keep(RSI, _AT_FROM)  # which is free here
    a.move(RSI, RDI)
    a.move(RDI, RSP)
    a.add_number(RDI, _AT_BYTES.behind)
    a.shift(RCX, -2)
    a.digits("f3a4")  # rep movsb
    a.move(RSI, _AT_FROM)
    a.vex(1, 2, 0x31, 4, None, _AT_BYTES)


def _bias_of_bytes(a: Assembler) -> None:
    """Append code that turns bytes into what is added: -infinity for 0, and 0 for others."""
    a.do("vxorps", 5, 5, 5)
    a.vex(1, 1, 0x76, 4, 4, 5)  # vpcmpeqd
    a.choose(4, 5, 2, 4)


def _exponentials(a: Assembler) -> None:
    """Append code that writes the exponentials of a row, and leaves one by their sum in register 4."""
    for one in (0, 1):
        _fold(a, "vmaxps", one, 3)
    a.compare(5, 0, 2, _EQUAL)  # no score but -infinity
    a.compare(6, 1, 2, _EQUAL)  # no key that is seen
    a.do("vmaxps", 0, 0, a.number(_LOWEST))
    a.do("vxorps", 7, 7, 7)
    a.load(8, a.number(_LEAST))
    a.digits("31c0")  # xor eax, eax
    exponentials = a.size
    _exponential(a)
    a.write(3, At(RSI, 0, RAX))
    a.do("vaddps", 7, 7, 3)
    a.add_number(RAX, 32)
    a.compare_whole(RAX, R9)
    a.jump_if("less", exponentials)
    _fold(a, "vaddps", 7, 3)
    a.load(4, a.number(1))
    a.choose(7, 7, 4, 5)
    a.do("vdivps", 4, 4, 7)
    a.do("vxorps", 3, 3, 3)
    a.load(9, a.word(0x7FC00000))
    a.choose(3, 9, 3, 6)
    a.choose(4, 4, 3, 5)


def _seen(a: Assembler, whole: Sequence[_Step], part: Sequence[_Step]) -> None:
    """Append code that does something with whole registers of what a row sees, and something with the rest."""
    a.digits("31c0")  # xor eax, eax
    a.compare_whole(RAX, R10)
    few = a.jump_if("at least")
    again = a.size
    for step in whole:
        step(a)
    a.add_number(RAX, 32)
    a.compare_whole(RAX, R10)
    a.jump_if("less", again)
    a.land(few)
    a.compare_whole(RAX, R9)
    none = a.jump_if("at least")
    for step in part:
        step(a)
    a.land(none)


def _fold(a: Assembler, name: str, register: int, other: int) -> None:
    """Append code that combines all eight numbers of a register, and leaves the result in all of them."""
    a.exchange_halves(other, register)
    a.do(name, register, register, other)
    for order in (0x4E, 0xB1):
        a.turn(other, register, order)
        a.do(name, register, register, other)


def _exponential(a: Assembler) -> None:
    """Append code that puts the exponential of numbers at rsi + rax, less register 0, into register 3.

    The numbers are at most register 0; register 8 holds `_LEAST`. Not-a-number stays. Changes registers 4 and 9 to 12.
    """
    a.read(3, At(RSI, 0, RAX))
    a.do("vsubps", 3, 3, 0)
    a.compare(4, 3, 8, _NOT_LESS)
    a.do("vmaxps", 3, 8, 3)
    shift = a.number(1.5 * 2**23 + 127)  # added to a number, it leaves an exponent in the lowest bits
    a.load(9, shift)
    a.load(10, a.number(1.4426950408889634))
    a.do("vfmadd213ps", 10, 3, 9)
    a.do("vsubps", 11, 10, 9)
    a.do("vfnmadd231ps", 3, 11, a.number(0.693359375))
    a.do("vfnmadd231ps", 3, 11, a.number(-2.12194440e-4))
    a.polynomial(12, 3, tuple(map(a.number, _EXPONENTIAL)))
    a.shift_left(10, 10, 23)
    a.do("vmulps", 12, 12, 10)
    a.do("vandps", 3, 12, 4)


def _mix(a: Assembler, ones: Constant) -> None:
    """Append code that adds up the values of each row, where there are several rows so many keys at a time that their
    values stay in the cache: 32 columns, and then eight or fewer."""
    a.digits("31c0")  # xor eax, eax
    a.keep(RAX, _AT_FROM)
    a.move(R12, _AT_COUNT)
    a.move(RAX, RSP)
    a.add_number(RAX, _LINES + _LINE_BYTES)
    a.compare_whole(RAX, _AT_END)
    one_row = a.jump_if("equal")
    a.set_number(R12, _TOGETHER)
    a.land(one_row)
    a.keep(R12, _AT_TO)
    a.move(RDI, At(RBP, Word.VALUE_BYTES))
    part = a.size
    a.move(RDX, RSP)
    a.add_number(RDX, _LINES)
    row = a.size
    a.move(R9, At(RDX, _OF_SCORES))
    a.move(R10, At(RDX, _OF_RESULT))
    a.move(R11, At(RDX, _SEEN))
    a.move(RAX, _AT_TO)
    a.compare_whole(RAX, R11)
    a.move_if_at_most(R11, RAX)
    a.move(R15, _AT_FROM)
    a.compare_whole(R15, R11)
    unseen = a.jump_if("at least")
    _mix_row(a, ones)
    a.land(unseen)
    a.add_number(RDX, _LINE_BYTES)
    a.compare_whole(RDX, _AT_END)
    a.jump_if("less", row)
    a.move(RAX, _AT_TO)
    a.keep(RAX, _AT_FROM)
    a.add_number(RAX, _TOGETHER)
    a.keep(RAX, _AT_TO)
    a.move(RAX, RDI)
    a.shift(RAX, 6)
    a.add(RAX, _AT_VALUES)
    a.keep(RAX, _AT_VALUES)
    a.move(RAX, _AT_FROM)
    a.compare_whole(RAX, _AT_COUNT)
    a.jump_if("less", part)


def _mix_row(a: Assembler, ones: Constant) -> None:
    """Append code that adds the values of the keys from r15 up to r11, in bytes of scores, to a row's result."""
    a.digits("31db")  # xor ebx, ebx: bytes of columns
    wide = a.size
    a.move(RAX, RBX)
    a.add_number(RAX, 128)
    a.compare_whole(RAX, RDI)
    rest = a.jump_if("greater")
    for one in range(8):
        a.do("vxorps", one, one, one)
    first = _if_first(a)
    for one in range(4):
        a.read(one, At(R10, 32 * one, RBX))
    a.land(first)
    _over_keys(a, 2, (_pair, 2), _one_key)
    for one in range(4):
        a.do("vaddps", one, one, one + 4)
        a.write(one, At(R10, 32 * one, RBX))
    a.add_number(RBX, 128)
    a.repeat(wide)
    a.land(rest)
    a.move(R8, _AT_CONSTANTS)
    narrow = a.size
    a.move(RCX, RDI)
    a.subtract(RCX, RBX)
    a.compare_number(RCX, 0)
    done = a.jump_if("at most")
    a.set_number(RAX, 32)
    a.compare_whole(RAX, RCX)
    a.move_if_at_most(RCX, RAX)
    _masked(a, 15, ones)
    for one in range(4):
        a.do("vxorps", one, one, one)
    first = _if_first(a)
    a.read_part(0, 15, At(R10, 0, RBX))
    a.land(first)
    _over_keys(a, 4, (_four_keys, 4), _narrow_key)
    for one in (0, 2):
        a.do("vaddps", one, one, one + 1)
    a.do("vaddps", 0, 0, 2)
    a.write_part(0, 15, At(R10, 0, RBX))
    a.add_number(RBX, 32)
    a.repeat(narrow)
    a.land(done)


def _if_first(a: Assembler) -> int:
    """Append a jump over what reads the sums so far, where there are none."""
    a.compare_number(R15, 0)
    return a.jump_if("equal")


def _over_keys(a: Assembler, together: int, several: tuple[_Step, int], single: _Step) -> None:
    """Append code that visits the keys that a row sees: rax counts bytes of scores, rsi goes along the values."""
    several_code, count = several
    a.move(RSI, _AT_VALUES)
    a.add(RSI, RBX)
    a.move(R13, R11)
    a.add_number(R13, -4 * together)
    a.move(RAX, R15)
    a.compare_whole(RAX, R13)
    few = a.jump_if("greater")
    again = a.size
    several_code(a)
    for _ in range(count):
        a.add(RSI, RDI)
    a.add_number(RAX, 4 * together)
    a.compare_whole(RAX, R13)
    a.jump_if("at most", again)
    a.land(few)
    left = a.size
    a.compare_whole(RAX, R11)
    end = a.jump_if("at least")
    single(a)
    a.add(RSI, RDI)
    a.add_number(RAX, 4)
    a.repeat(left)
    a.land(end)


def _pair(a: Assembler) -> None:
    a.spread(8, At(R9, 0, RAX))
    a.spread(9, At(R9, 4, RAX))
    for one in range(4):
        a.do("vfmadd231ps", one, 8, At(RSI, 32 * one))
    for one in range(4):
        a.do("vfmadd231ps", 4 + one, 9, At(RSI, 32 * one, RDI))


def _one_key(a: Assembler) -> None:
    a.spread(8, At(R9, 0, RAX))
    for one in range(4):
        a.do("vfmadd231ps", one, 8, At(RSI, 32 * one))


def _four_keys(a: Assembler) -> None:
    a.move(R14, RSI)
    a.add(R14, RDI)
    a.add(R14, RDI)
    for one, place in enumerate((At(RSI), At(RSI, 0, RDI), At(R14), At(R14, 0, RDI))):
        a.spread(8, At(R9, 4 * one, RAX))
        a.read_part(9, 15, place)
        a.do("vfmadd231ps", one, 8, 9)


def _narrow_key(a: Assembler) -> None:
    a.spread(8, At(R9, 0, RAX))
    a.read_part(9, 15, At(RSI))
    a.do("vfmadd231ps", 0, 8, 9)
