"""Code for products of one row with weights in blocks of eight columns, each with all numbers of the row.

That is the layout of pointwise convolutions on CPUs with AVX2. Memory is read in four places side by side, in each of
them several blocks one behind the other. The convolution takes twice as long where weights come from the third-level
cache, and 1.5 times where they come from memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

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
from ort_py_onednn.binding.row_frame import MASK, RUN, add_row, framed, start_with

__all__ = ["COLUMNS", "ROWS", "TOGETHER", "code"]

COLUMNS, ROWS = 8, 8
"""Columns of a block, and numbers of the row in a unit of its depth."""

TOGETHER = 4
"""Blocks that are read side by side."""

_BASES = (R8, R11, RBX, RBP)
"""Registers that hold the addresses of blocks read side by side."""

_EIGHT_ROWS = 256
"""Bytes of eight rows of a block."""

_STEP = RCX
"""Register that holds the bytes of results between blocks that are read side by side."""


def code() -> bytes:
    """The code; see `framed`. What is claimed at once is divided by `TOGETHER`."""

    def part(a: Assembler) -> None:
        a.read(15, At(RDI, 8 * MASK))
        _blocks(a, (R8,), 15)

    return framed(COLUMNS, _whole, part)


def _whole(a: Assembler) -> None:
    """Append code for r12 blocks."""
    again = a.size
    a.compare_number(R12, TOGETHER)
    few = a.jump_if("less")
    _side_by_side(a)
    a.repeat(again)
    a.land(few)
    single = a.size
    a.compare_number(R12, 0)
    done = a.jump_if("equal")
    _blocks(a, (R8,))
    for register in (RDX, R9, R10):
        a.add_number(register, 32)
    a.add_number(R12, -1)
    a.repeat(single)
    a.land(done)


def _sides(first: int, third: int) -> tuple[At, ...]:
    """Places of what belongs to blocks read side by side, of registers with those of the first and the third."""
    return At(first), At(first, 0, _STEP), At(third), At(third, 0, _STEP)


def _blocks(a: Assembler, bases: Sequence[int], mask: int | None = None) -> None:
    """Append code for blocks side by side: memory has more to do at once than in one place.

    A number of the row is read once for all blocks. Each block has two sums a column, however many are read together,
    so that equal columns have equal results wherever they are.

    Args:
        a: The code.
        bases: Registers with the blocks' addresses, which go on to the blocks behind them.
        mask: Register that holds which columns of a single block there are; None for all.
    """
    results, biases, added = (_sides(*pair)[: len(bases)] for pair in ((RDX, R13), (R9, R14), (R10, R15)))
    a.move(RSI, At(RDI))
    a.move(RAX, At(RDI, 56))

    def read(a: Assembler) -> None:
        for one, place in enumerate(biases):
            if mask is None:
                a.read(2 * one, place)
            else:
                a.read_part(2 * one, mask, place)

    start_with(a, 2 * len(bases), read)
    inner = a.size
    for one in range(8):
        number = 8 + one % 4
        a.spread(number, At(RSI, 4 * one))
        for block, base in enumerate(bases):
            a.do("vfmadd231ps", 2 * block + one % 2, number, At(base, 32 * one))
    a.digits("4883c620")  # add rsi, 32
    for base in bases:
        a.add_number(base, _EIGHT_ROWS)
    a.digits(
        "48ffc8"  # dec rax
        "0f85"  # jnz inner
    )
    a.jump(inner)
    for one in range(len(bases)):
        a.do("vaddps", 2 * one, 2 * one, 2 * one + 1)

    def add(a: Assembler) -> None:
        for one, place in enumerate(added):
            if mask is None:
                a.do("vaddps", 2 * one, 2 * one, place)
            else:
                a.read_part(1, mask, place)
                a.do("vaddps", 0, 0, 1)

    add_row(a, add)
    for one, place in enumerate(results):
        if mask is None:
            a.write(2 * one, place)
        else:
            a.write_part(0, mask, place)


def _side_by_side(a: Assembler) -> None:
    """Append code for a whole piece of work, or for the next four blocks of a part of one."""
    a.set_number(RCX, 1)
    a.move(RAX, At(RDI, 8 * RUN))
    a.compare_whole(RAX, R12)
    part = a.jump_if("unequal")
    a.move(RCX, RAX)
    a.shift(RCX, -2)
    a.land(part)
    a.move(RAX, At(RDI, 56))
    a.shift(RAX, 8)  # bytes of a block
    a.multiply(RAX, RCX)
    for before, base in itertools.pairwise(_BASES):
        a.move(base, before)
        a.add(base, RAX)
    a.subtract(R12, RCX)
    a.subtract(R12, RCX)
    a.subtract(R12, RCX)
    a.shift(RCX, 5)
    for first, third in ((RDX, R13), (R9, R14), (R10, R15)):
        a.move(third, first)
        a.add(third, RCX)
        a.add(third, RCX)
    a.digits("51")  # push rcx
    block = a.size
    _blocks(a, _BASES)
    for register in (RDX, R13, R9, R14, R10, R15):
        a.add_number(register, 32)
    a.add_number(R12, -1)
    a.digits("48832c2420")  # sub qword [rsp], 32
    a.jump_if("unequal", block)
    a.digits("58")  # pop rax
    a.move(R8, RBP)
    for first, third in ((RDX, R13), (R9, R14), (R10, R15)):
        a.move(first, third)
        a.add(first, RCX)
