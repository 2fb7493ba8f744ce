"""The code of `quantized_steps`, and the table that it reads.

A step makes bytes of the state, multiplies them with all weights, and turns the sums into gates and these into the next
state. Sums and functions are those of the primitives that oneDNN has for it, in their order, but for the hyperbolic
tangent, which is that of `vector_functions`.
"""

from __future__ import annotations

from enum import IntEnum

from ort_py_onednn.binding.assembler import (
    R9,
    R10,
    R11,
    R12,
    R13,
    R14,
    R15,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    RSP,
    Assembler,
    At,
)
from ort_py_onednn.binding.dynamic_quantization import SCALE, ZERO, add_bytes, add_range, add_scale_and_zero
from ort_py_onednn.binding.own_code import CLEAR, ENTER, LEAVE
from ort_py_onednn.binding.own_rows import BYTES, claim
from ort_py_onednn.binding.vector_functions import tanh

__all__ = ["COLUMNS", "MULTIPLE", "TINY", "TOGETHER", "Word", "steps_code"]

COLUMNS, TOGETHER = 64, 4
"""Columns of a block of weights, and how many numbers of each lie together, for one instruction to multiply: those of
the next column follow."""

MULTIPLE = 16
"""What the numbers of a state are a multiple of: gates are then whole blocks, and loops whole rounds."""

TINY = 1e-30
"""Scale of a state of zeroes, for which any will do."""

_GROUP_BYTES = COLUMNS * TOGETHER
_UNROLLED = 4
_SUMS = _GROUP_BYTES // BYTES


class Word(IntEnum):
    """Words of the work.

    Behind the number of directions is the next one that a thread takes, as in all own code. Then come addresses, two of
    what the sequence gives; sizes; bytes from one direction to the next; and for each of two directions, bytes at which
    it begins to read what the sequence gives and to write states, and those from step to step.
    """

    COUNT = 2
    WEIGHTS = 4
    PROJECTED = 5
    STATE = 7
    CELL = 8
    EVERY = 9
    LAST_STATE = 10
    LAST_CELL = 11
    SCRATCH = 12
    SCALES = 13
    NEGATIVE = 14
    ONE = 16
    STEPS = 17
    LENGTH = 18
    GROUPS = 19
    BLOCKS = 20
    GAP = 21
    STATE_BYTES = 22
    GATE_BYTES = 23
    WEIGHT_BYTES = 24
    SCRATCH_BYTES = 25
    FROM = 26
    EVERY_FROM = 28
    BY = 30
    EVERY_BY = 32
    END = 34


(
    _AT_GATES,
    _AT_BYTES,
    _AT_WEIGHTS,
    _AT_SCALES,
    _AT_NEGATIVE,
    _AT_STATE,
    _AT_CELL,
    _AT_PROJECTED,
    _AT_EVERY,
    _AT_BY,
    _AT_EVERY_BY,
    _AT_LEFT,
) = (At(RSP, 8 * place) for place in range(12))
"""Places on the stack: addresses of this direction, how far they move, and how many steps are left."""

_FRAME = 96
"""Bytes of the stack."""


def _word(place: int) -> At:
    return At(RDI, 8 * place)


def _enter(a: Assembler) -> None:
    """Append code that finds what belongs to direction rax, and copies its first states to where the last ones go."""
    for first, size, place in (
        (Word.WEIGHTS, Word.WEIGHT_BYTES, _AT_WEIGHTS),
        (Word.SCALES, Word.GATE_BYTES, _AT_SCALES),
        (Word.NEGATIVE, Word.GATE_BYTES, _AT_NEGATIVE),
        (Word.LAST_STATE, Word.STATE_BYTES, _AT_STATE),
        (Word.LAST_CELL, Word.STATE_BYTES, _AT_CELL),
        (Word.SCRATCH, Word.SCRATCH_BYTES, _AT_GATES),
    ):
        a.move(RCX, RAX)
        a.multiply(RCX, _word(size))
        a.add(RCX, _word(first))
        a.keep(RCX, place)
    a.add(RCX, _word(Word.GATE_BYTES))
    a.keep(RCX, _AT_BYTES)
    a.move(RCX, RAX)
    a.shift(RCX, 3)
    for base, start, place in (
        (At(RDI, 8 * Word.PROJECTED, RCX), Word.FROM, _AT_PROJECTED),
        (_word(Word.EVERY), Word.EVERY_FROM, _AT_EVERY),
    ):
        a.move(RDX, base)
        a.add(RDX, At(RDI, 8 * start, RCX))
        a.keep(RDX, place)
    for step, place in ((Word.BY, _AT_BY), (Word.EVERY_BY, _AT_EVERY_BY)):
        a.move(RDX, At(RDI, 8 * step, RCX))
        a.keep(RDX, place)
    a.move(RDX, _word(Word.STEPS))
    a.keep(RDX, _AT_LEFT)
    a.multiply(RAX, _word(Word.STATE_BYTES))
    for before, target in ((Word.STATE, _AT_STATE), (Word.CELL, _AT_CELL)):
        a.move(RSI, _word(before))
        a.add(RSI, RAX)
        a.move(RDX, target)
        a.set_number(RCX, 0)
        again = a.size
        a.read(0, At(RSI, 0, RCX))
        a.write(0, At(RDX, 0, RCX))
        _go_on(a, RCX, again)


def _go_on(a: Assembler, offset: int, again: int) -> None:
    """Append code that goes back until all numbers of a state are done."""
    a.add_number(offset, BYTES)
    a.compare_whole(offset, _word(Word.STATE_BYTES))
    a.jump_if("less", again)


def _products(a: Assembler, short: bool) -> None:
    """Append code that writes the gates before their functions: products of the bytes and all weights, and what the
    sequence gives. The scale and the zero point of the bytes are in `SCALE` and `ZERO`."""
    bytes_, scale, zero, other = 8, 9, 10, 11
    a.load(scale, SCALE)
    a.load(zero, ZERO)
    for register, place in (
        *((RDX, _AT_WEIGHTS), (R9, _AT_GATES), (R10, _AT_NEGATIVE)),
        *((R11, _AT_SCALES), (R12, _AT_PROJECTED)),
    ):
        a.move(register, place)
    a.move(RBX, _word(Word.BLOCKS))
    block = a.size
    for one in range(_SUMS):
        a.do("vxorps", one, one, one)
    a.move(RSI, _AT_BYTES)
    a.move(RCX, _word(Word.GROUPS))
    again = a.size
    for group in range(_UNROLLED):
        a.spread(bytes_, At(RSI, TOGETHER * group))
        for one in range(_SUMS):
            a.add_dots(one, bytes_, At(RDX, _GROUP_BYTES * group + BYTES * one), short=short)
    a.add_number(RSI, TOGETHER * _UNROLLED)
    a.add_number(RDX, _GROUP_BYTES * _UNROLLED)
    a.add_number(RCX, -_UNROLLED)
    a.jump_if("greater", again)
    a.add(RDX, _word(Word.GAP))
    for one in range(_SUMS):
        a.change("vcvtdq2ps", one, one)
        a.do("vmulps", other, zero, At(R10, BYTES * one))
        a.do("vaddps", one, other, one)
        a.do("vmulps", one, one, scale)
        a.do("vmulps", one, one, At(R11, BYTES * one))
        a.do("vaddps", one, one, At(R12, BYTES * one))
        a.write(one, At(R9, BYTES * one))
    for register in (R9, R10, R11, R12):
        a.add_number(register, BYTES * _SUMS)
    a.add_number(RBX, -1)
    a.jump_if("greater", block)


def _cells(a: Assembler) -> None:
    """Append code that turns gates into states. Logistic functions are halves of a tanh, and a half."""
    entry, kept, output, candidate, other = 12, 13, 14, 6, 1
    half = a.number(0.5)

    def gates(first: int, second: int) -> None:
        a.read(0, At(first, 0, RAX))
        a.read(6, At(second, 0, RAX))
        a.twice(tanh, 6)

    def logistic(target: int, source: int) -> None:
        a.do("vmulps", source, source, half)
        a.do("vaddps", target, source, half)

    a.move(R9, _AT_GATES)
    for before, gate in ((R9, R10), (R10, R11), (R11, R12)):
        a.move(gate, before)
        a.add(gate, _word(Word.STATE_BYTES))
    for register, place in ((R13, _AT_CELL), (R14, _AT_STATE), (R15, _AT_EVERY)):
        a.move(register, place)
    a.set_number(RAX, 0)
    again = a.size
    gates(R9, R11)
    logistic(entry, 0)
    logistic(kept, 6)
    gates(R10, R12)
    logistic(output, 0)
    a.do("vmulps", 0, kept, At(R13, 0, RAX))
    a.do("vmulps", other, entry, candidate)
    a.do("vaddps", 0, 0, other)
    a.write(0, At(R13, 0, RAX))
    tanh(a)
    a.do("vmulps", 0, 0, output)
    a.write(0, At(R14, 0, RAX))
    a.write(0, At(R15, 0, RAX))
    _go_on(a, RAX, again)


def steps_code(short: bool) -> bytes:
    """Code of ``void steps(struct work *)`` (`own_code`): threads take a direction at a time.

    Args:
        short: See `Assembler.add_dots`.
    """
    a = Assembler()
    a.digits(ENTER)
    a.add_number(RSP, -_FRAME)
    a.digits("4c8d05")  # lea r8, [constants]
    constants = a.jump()
    direction = a.size
    end = claim(a, Word.ONE)
    _enter(a)
    step = a.size
    a.move(RSI, _AT_STATE)
    a.move(RDX, _AT_BYTES)
    add_range(a, _word(Word.LENGTH))
    add_scale_and_zero(a, TINY)
    add_bytes(a, _word(Word.LENGTH))
    _products(a, short)
    _cells(a)
    for place, by in ((_AT_PROJECTED, _AT_BY), (_AT_EVERY, _AT_EVERY_BY)):
        a.move(RCX, place)
        a.add(RCX, by)
        a.keep(RCX, place)
    a.move(RCX, _AT_LEFT)
    a.add_number(RCX, -1)
    a.keep(RCX, _AT_LEFT)
    a.jump_if("greater", step)
    a.repeat(direction)
    a.land(end)
    a.add_number(RSP, _FRAME)
    a.digits(CLEAR + LEAVE)
    return a.finished(constants)
