"""Machine code for AVX2 of attention to a past; see `past_attention` for what it computes.

A function copies the past and what is new behind each other. Another one takes pieces of the work, in three steps:
scores (`past_scores`), exponentials (`past_softmax`) and the mixture of the values (`past_mixture`). `past_table` has
all sizes. What is made here is bytes; it does not run them.
"""

from __future__ import annotations

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
)
from ort_py_onednn.binding.own_code import CLEAR, ENTER, LEAVE
from ort_py_onednn.binding.past_frame import (
    AT_CONSTANTS,
    AT_COUNT,
    AT_END,
    AT_KEYS,
    AT_SCRATCH,
    AT_VALUES,
    FRAME,
    LINE_BYTES,
    LINES,
    OF_BIAS,
    OF_QUERY,
    OF_RESULT,
    OF_SCORES,
    SEEN,
)
from ort_py_onednn.binding.past_mixture import mix
from ort_py_onednn.binding.past_scores import score
from ort_py_onednn.binding.past_softmax import weigh
from ort_py_onednn.binding.past_table import ROWS, Word

__all__ = ["attend_code", "copy_code"]


def copy_code() -> bytes:
    """Code of ``void copy(table *)``: makes the present, a head of keys or of values at a time."""
    a = Assembler()
    a.digits(ENTER)
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
    a.digits(LEAVE)
    return a.code()


def attend_code() -> bytes:
    """Code of ``void attend(table *)``: a piece of work at a time, with what `copy_code` has written."""
    a = Assembler()
    a.digits(ENTER)
    a.move(RBP, RDI)
    a.add_number(RSP, -FRAME)
    a.digits("4c8d05")  # lea r8, [constants]
    constants = a.jump()
    a.keep(R8, AT_CONSTANTS)
    ones = a.table((0xFFFFFFFF,) * 8 + (0,) * 8)
    a.set_number(RAX, 1)
    a.digits(f"f0480fc145{Word.NEXT_SLOT:02x}")  # lock xadd [rbp + slot], rax
    a.multiply(RAX, At(RBP, Word.SLOT_BYTES))
    a.add(RAX, At(RBP, Word.SCRATCH))
    a.keep(RAX, AT_SCRATCH)
    piece = a.size
    end = _claim(a, Word.NEXT_PIECE, Word.PIECES)
    _enter(a)
    score(a, ones)
    weigh(a, ones)
    mix(a, ones)
    a.repeat(piece)
    a.land(end)
    a.add_number(RSP, FRAME)
    a.digits(CLEAR + LEAVE)
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
        (Word.KEY_BYTES, Word.PRESENT_KEY, AT_KEYS),
        (Word.VALUE_BYTES, Word.PRESENT_VALUE, AT_VALUES),
    ):
        a.move(RAX, R9)
        a.multiply(RAX, R13)
        a.multiply(RAX, At(RBP, bytes_of))
        a.add(RAX, At(RBP, present))
        a.keep(RAX, kept)
    a.move(R12, R13)
    a.shift(R12, 2)
    a.keep(R12, AT_COUNT)
    a.add_number(R12, 31)
    a.shift(R12, -5)
    a.shift(R12, 5)
    a.move(RSI, RSP)
    a.add_number(RSI, LINES)
    a.move(RCX, At(RBP, Word.ALL_ROWS))
    a.subtract(RCX, R10)
    a.set_number(RAX, ROWS)
    a.compare_whole(RAX, RCX)
    a.move_if_at_most(RCX, RAX)
    a.move(RDI, AT_SCRATCH)
    row = a.size
    _enter_row(a)
    a.add(RDI, R12)
    a.add_number(RSI, LINE_BYTES)
    a.add_number(R10, 1)
    a.add_number(RCX, -1)
    a.jump_if("unequal", row)
    a.keep(RSI, AT_END)


def _enter_row(a: Assembler) -> None:
    """Append code that keeps at rsi what row r10 of the queries of these keys reads and writes."""
    a.move(RAX, R10)
    a.divide(At(RBP, Word.GROUP))
    a.move(RBX, RAX)  # the new row
    a.add(RDX, R14)  # the head of queries
    for steps, base, place in ((Word.QUERY_STEPS, Word.QUERY, OF_QUERY), (Word.RESULT_STEPS, Word.RESULT, OF_RESULT)):
        _offset(a, steps)
        a.add(RAX, At(RBP, base))
        a.keep(RAX, At(RSI, place))
    _offset(a, Word.BIAS_STEPS)
    a.multiply(RAX, R13)
    a.add(RAX, At(RBP, Word.BIAS))
    a.keep(RAX, At(RSI, OF_BIAS))
    a.move(RAX, At(RBP, Word.NEW))
    a.add_number(RAX, -1)
    a.subtract(RAX, RBX)
    a.multiply(RAX, At(RBP, Word.CAUSAL))
    a.shift(RAX, 2)
    a.move(RDX, AT_COUNT)
    a.subtract(RDX, RAX)
    a.keep(RDX, At(RSI, SEEN))
    a.keep(RDI, At(RSI, OF_SCORES))


def _offset(a: Assembler, steps: int) -> None:
    """Append code that puts the bytes to entry r11, head rdx and row rbx into rax; changes r15."""
    a.move(RAX, R11)
    a.multiply(RAX, At(RBP, steps))
    for register, place in ((RDX, 8), (RBX, 16)):
        a.move(R15, register)
        a.multiply(R15, At(RBP, steps + place))
        a.add(RAX, R15)
