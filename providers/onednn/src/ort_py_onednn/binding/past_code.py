"""Machine code for AVX2 of attention to a past; see `past_attention` for what it computes.

A function copies the past and what is new behind each other (`past_copy`). Another one takes pieces of the work, in
three steps: scores (`past_scores`), exponentials (`past_softmax`) and the mixture of the values (`past_mixture`). Where
each head of keys is read by one piece, that copies too, so that what it reads is in the cache and threads meet once.
`past_table` has all sizes. What is made here is bytes; it does not run them.
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
from ort_py_onednn.binding.past_copy import KEYS_OF, VALUES_OF, Side, Tables, continue_past, tables, turn
from ort_py_onednn.binding.past_frame import (
    AT_BASE,
    AT_CONSTANTS,
    AT_COUNT,
    AT_END,
    AT_ENTRY,
    AT_FIRST,
    AT_GROUP,
    AT_HEAD,
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
    OF_TURN,
    SEEN,
    UNSEEN,
)
from ort_py_onednn.binding.past_mixture import mix
from ort_py_onednn.binding.past_scores import score
from ort_py_onednn.binding.past_softmax import weigh
from ort_py_onednn.binding.past_table import ROWS, Grown, Word

__all__ = ["attend_code", "copy_code"]


def copy_code() -> bytes:
    """Code of ``void copy(table *)``: makes the present, a head of keys or of values at a time."""
    a = Assembler()
    a.digits(ENTER)
    a.move(RBP, RDI)
    a.digits("4c8d05")  # lea r8, [constants]
    behind = a.jump()
    constants = tables(a)
    piece = a.size
    end = _claim(a, Word.NEXT_COPY, Word.COPIES)
    a.digits("89c383e301")  # mov ebx, eax; and ebx, 1: keys or values
    a.shift(RAX, -1)
    a.move(R9, RAX)
    a.divide(At(RBP, Word.KEY_HEADS))
    a.move(R11, RAX)
    a.move(R14, RDX)
    a.compare_number(RBX, 0)
    keys = a.jump_if("equal")
    continue_past(a, VALUES_OF, constants)
    a.repeat(piece)
    a.land(keys)
    continue_past(a, KEYS_OF, constants)
    a.repeat(piece)
    a.land(end)
    a.digits(CLEAR + LEAVE)
    return a.finished(behind)


def attend_code() -> bytes:
    """Code of ``void attend(table *)``: a piece of work at a time, behind `copy_code`, or with what that does."""
    a = Assembler()
    a.digits(ENTER)
    a.move(RBP, RDI)
    a.add_number(RSP, -FRAME)
    a.digits("4c8d05")  # lea r8, [constants]
    behind = a.jump()
    a.keep(R8, AT_CONSTANTS)
    constants = tables(a)
    ones = constants.ones
    a.set_number(RAX, 1)
    a.digits(f"f0480fc145{Word.NEXT_SLOT:02x}")  # lock xadd [rbp + slot], rax
    a.multiply(RAX, At(RBP, Word.SLOT_BYTES))
    a.add(RAX, At(RBP, Word.SCRATCH))
    a.keep(RAX, AT_SCRATCH)
    piece = a.size
    end = _claim(a, Word.NEXT_PIECE, Word.PIECES)
    _find_piece(a)
    _continue_if_together(a, KEYS_OF, constants)
    _enter(a)
    _turn_queries(a, constants)
    score(a, ones)
    weigh(a, ones)
    _continue_if_together(a, VALUES_OF, constants)  # as late as possible, so that they are in the cache
    mix(a, ones)
    a.repeat(piece)
    a.land(end)
    a.add_number(RSP, FRAME)
    a.digits(CLEAR + LEAVE)
    return a.finished(behind)


def _claim(a: Assembler, following: int, count: int) -> int:
    """Append code that takes the next piece of work into rax; returns the jump for when none is left."""
    a.set_number(RAX, 1)
    a.digits(f"f0480fc145{following:02x}")  # lock xadd [rbp + following], rax
    a.compare_whole(RAX, At(RBP, count))
    return a.jump_if("at least")


def _find_piece(a: Assembler) -> None:
    """Append code that keeps which keys and which rows piece rax is about."""
    a.divide(At(RBP, Word.BLOCKS))
    a.keep(RAX, AT_HEAD)
    a.shift(RDX, 3)
    a.keep(RDX, AT_FIRST)
    a.divide(At(RBP, Word.KEY_HEADS))
    a.keep(RAX, AT_ENTRY)
    a.keep(RDX, AT_GROUP)


def _continue_if_together(a: Assembler, side: Side, constants: Tables) -> None:
    """Append code that makes the present of the keys or values of a piece, where no other piece reads them."""
    a.set_number(RAX, 0)
    a.compare_whole(RAX, At(RBP, Word.TOGETHER))
    apart = a.jump_if("equal")
    for register, kept in ((R8, AT_CONSTANTS), (R9, AT_HEAD), (R11, AT_ENTRY), (R14, AT_GROUP)):
        a.move(register, kept)
    continue_past(a, side, constants)
    a.land(apart)


def _enter(a: Assembler) -> None:
    """Append code that finds what a piece of work reads and writes, row by row."""
    a.move(R9, AT_HEAD)
    a.move(R10, AT_FIRST)
    a.move(R11, AT_ENTRY)
    a.move(R14, AT_GROUP)
    a.multiply(R14, At(RBP, Word.GROUP))  # the first head
    a.move(RBX, At(RBP, Word.GROWN))
    a.move(R8, R9)
    a.multiply(R8, At(RBX, Grown.LENGTH))
    a.move(RAX, R11)
    a.multiply(RAX, At(RBP, Word.ENTRY_BYTES))
    a.add(RBX, RAX)
    a.move(R9, At(RBX, Grown.START))
    a.move(R13, At(RBX, Grown.COUNT))
    a.move(RAX, R10)
    a.divide(At(RBP, Word.GROUP))
    a.add(RAX, R9)
    _first_seen(a)
    a.keep(RAX, AT_BASE)
    a.add(R8, RAX)
    a.move(R12, R13)
    a.subtract(R12, RAX)
    for bytes_of, present, kept in (
        (Word.KEY_BYTES, Word.PRESENT_KEY, AT_KEYS),
        (Word.VALUE_BYTES, Word.PRESENT_VALUE, AT_VALUES),
    ):
        a.move(RAX, R8)
        a.multiply(RAX, At(RBP, bytes_of))
        a.add(RAX, At(RBP, present))
        a.keep(RAX, kept)
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
    a.keep(RDX, AT_COUNT)  # the last row sees the most keys


def _turn_queries(a: Assembler, constants: Tables) -> None:
    """Append code that turns the queries of a piece, into memory of the thread."""
    a.set_number(RAX, 0)
    a.compare_whole(RAX, At(RBP, Word.HALF_BYTES))
    turned = a.jump_if("equal")
    a.move(R8, AT_CONSTANTS)
    a.move(R13, At(RBP, Word.KEY_BYTES))
    a.move(RDI, AT_SCRATCH)
    a.add(RDI, At(RBP, Word.QUERIES_BEHIND))
    a.move(R15, RSP)
    a.add_number(R15, LINES)
    row = a.size
    a.move(RSI, At(R15, OF_QUERY))
    a.move(R10, At(R15, OF_TURN))
    a.keep(RDI, At(R15, OF_QUERY))
    turn(a, constants)
    a.add_number(R15, LINE_BYTES)
    a.compare_whole(R15, AT_END)
    a.jump_if("less", row)
    a.land(turned)


def _enter_row(a: Assembler) -> None:
    """Append code that keeps at rsi what row r10 of the queries reads and writes; rdx gets what it sees."""
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
    a.add(RBX, R9)  # the position
    a.move(RAX, RBX)
    a.multiply(RAX, At(RBP, Word.HALF_BYTES))
    a.keep(RAX, At(RSI, OF_TURN))
    a.move(RAX, RBX)
    _first_seen(a)
    a.subtract(RAX, AT_BASE)
    a.shift(RAX, 2)
    a.keep(RAX, At(RSI, UNSEEN))
    a.move(RAX, R13)
    a.subtract(RAX, RBX)
    a.add_number(RAX, -1)  # keys behind it
    a.set_number(RDX, 0)
    a.compare_whole(RAX, RDX)
    a.move_if_at_most(RAX, RDX)
    a.multiply(RAX, At(RBP, Word.CAUSAL))
    a.shift(RAX, 2)
    a.move(RDX, AT_COUNT)
    a.subtract(RDX, RAX)
    a.keep(RDX, At(RSI, SEEN))
    a.keep(RDI, At(RSI, OF_SCORES))


def _first_seen(a: Assembler) -> None:
    """Append code that replaces a position in rax by that of the first key that it sees, of r13 keys; changes rdx."""
    a.add_number(RAX, 1)
    a.subtract(RAX, At(RBP, Word.WINDOW))
    a.set_number(RDX, 0)
    a.compare_whole(RAX, RDX)
    a.move_if_at_most(RAX, RDX)
    a.move(RDX, R13)
    a.add_number(RDX, -1)
    a.compare_whole(RDX, RAX)
    a.move_if_at_most(RAX, RDX)  # positions behind the last key, which have no meaning, see that


def _offset(a: Assembler, steps: int) -> None:
    """Append code that puts the bytes to entry r11, head rdx and row rbx into rax; changes r15."""
    a.move(RAX, R11)
    a.multiply(RAX, At(RBP, steps))
    for register, place in ((RDX, 8), (RBX, 16)):
        a.move(R15, register)
        a.multiply(R15, At(RBP, steps + place))
        a.add(RAX, R15)
