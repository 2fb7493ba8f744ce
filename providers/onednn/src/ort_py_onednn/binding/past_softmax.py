"""The second step of attention to a past: each row's scores become exponentials, divided by their sum.

Biases and masks are added here. The frame says where scores and biases are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ort_py_onednn.binding.assembler import R8, R9, R10, RAX, RBP, RCX, RDI, RDX, RSI, RSP, Assembler, At, Constant
from ort_py_onednn.binding.past_frame import (
    AT_BYTES,
    AT_CONSTANTS,
    AT_END,
    AT_FROM,
    LINE_BYTES,
    LINES,
    OF_BIAS,
    OF_SCORES,
    SEEN,
    UNSEEN,
    masked,
)
from ort_py_onednn.binding.past_table import Word

__all__ = ["LEAST", "exponential", "weigh"]

_Step = Callable[[Assembler], None]

_LOWEST = float(np.finfo(np.float32).min)
LEAST = -87.0
"""Below this an exponential is taken for 0; it is less than the least number of full precision."""

_EXPONENTIAL = (1.0, 1.0, 0.4999999, 0.16666418, 0.04166824, 0.008374987, 0.0013836629)
"""Coefficients for an exponential of at most half of log 2, of the least relative error (2e-9)."""

_NOT_LESS = 0x15
_EQUAL = 0x00


def weigh(a: Assembler, ones: Constant) -> None:
    """Append code that turns scores into exponentials of their distance to the greatest of their row, by their sum."""
    a.move(R8, AT_CONSTANTS)
    a.load(2, a.word(0xFF800000))
    a.move(RDX, RSP)
    a.add_number(RDX, LINES)
    row = a.size
    a.move(RSI, At(RDX, OF_SCORES))
    a.move(RCX, At(RDX, UNSEEN))
    a.shift(RCX, -2)
    a.compare_number(RCX, 0)
    all_seen = a.jump_if("equal")
    a.move(RDI, RSI)
    a.set_number(RAX, -0x800000)  # the bits of -infinity
    a.digits("f3ab")  # rep stosd
    a.land(all_seen)
    a.move(RDI, At(RDX, OF_BIAS))
    a.move(R9, At(RDX, SEEN))
    a.move(RCX, R9)
    a.digits("83e11f")  # and ecx, 31
    masked(a, 15, ones)
    a.move(R10, R9)
    a.subtract(R10, RCX)
    _highest(a)
    _exponentials(a)
    _divide(a)
    a.add_number(RDX, LINE_BYTES)
    a.compare_whole(RDX, AT_END)
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
    a.keep(RSI, AT_FROM)  # which is free here
    a.move(RSI, RDI)
    a.move(RDI, RSP)
    a.add_number(RDI, AT_BYTES.behind)
    a.shift(RCX, -2)
    a.digits("f3a4")  # rep movsb
    a.move(RSI, AT_FROM)
    a.vex(1, 2, 0x31, 4, None, AT_BYTES)


def _bias_of_bytes(a: Assembler) -> None:
    """Append code that turns bytes into what is added: -infinity for 0, and 0 for others."""
    a.do("vxorps", 5, 5, 5)
    a.vex(1, 1, 0x76, 4, 4, 5)  # vpcmpeqd
    a.choose(4, 5, 2, 4)


def _exponentials(a: Assembler) -> None:
    """Append code that writes the exponentials of a row, and leaves one by their sum in register 4."""
    for one in (0, 1):
        a.fold("vmaxps", one, 3)
    a.compare(5, 0, 2, _EQUAL)  # no score but -infinity
    a.compare(6, 1, 2, _EQUAL)  # no key that is seen
    a.do("vmaxps", 0, 0, a.number(_LOWEST))
    a.do("vxorps", 7, 7, 7)
    a.load(8, a.number(LEAST))
    a.digits("31c0")  # xor eax, eax
    exponentials = a.size
    _exponential(a)
    a.write(3, At(RSI, 0, RAX))
    a.do("vaddps", 7, 7, 3)
    a.add_number(RAX, 32)
    a.compare_whole(RAX, R9)
    a.jump_if("less", exponentials)
    a.fold("vaddps", 7, 3)
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


def _exponential(a: Assembler) -> None:
    """Append code that puts the exponential of numbers at rsi + rax, less register 0, into register 3."""
    a.read(3, At(RSI, 0, RAX))
    exponential(a)


def exponential(a: Assembler) -> None:
    """Append code that replaces register 3 by its exponential, less register 0.

    The numbers are at most register 0; register 8 holds `LEAST`. Not-a-number stays. Changes registers 4 and 9 to 12.
    """
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
