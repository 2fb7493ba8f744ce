"""The frame of code for products of one row: threads claim blocks of columns until none is left.

What it calls blocks are columns whose weights lie behind one another. The code of each layout fills in how blocks are
computed; see `row_products`, which knows the layouts.
"""

from __future__ import annotations

from collections.abc import Callable

from ort_py_onednn.binding.assembler import R8, R9, R10, R12, R13, RAX, RDI, RDX, Assembler, At
from ort_py_onednn.binding.own_code import CLEAR, ENTER, LEAVE
from ort_py_onednn.binding.own_rows import claim

__all__ = ["MASK", "RUN", "WORDS", "add_row", "framed", "start_with"]

MASK, RUN = 8, 40
"""Words of the work: the first of those that hold which columns of the last block there are, 32 bits for each, and that
of how many blocks a thread claims at once."""

WORDS = RUN + 1

BlocksCode = Callable[[Assembler], None]


def framed(columns: int, whole: BlocksCode, part: BlocksCode, before: BlocksCode | None = None) -> bytes:
    """Code of ``void product(struct { void *row, *result; int64_t blocks, next; void *added, *weights, *bias; int64_t
    depth; int32_t mask[64]; int64_t run; } *)``.

    A block has 256 bytes for each unit of the depth. The blocks that are counted are whole, and the mask is for one
    behind them; without its first number there is none. `added` and `bias` may be null.

    Args:
        columns: Of a block.
        whole: Appends code for as many blocks as r12 says, at least one. It finds in rdi the work, and in rdx, r8, r9
            and r10 the places of the first block in the result, the weights, the bias, and what is added. It may change
            all registers but rdi.
        part: Appends code for the block with a mask, whose places it finds likewise.
        before: Appends code that each thread runs first, with the work in rdi.
    """
    shift = (4 * columns).bit_length() - 1
    a = Assembler()
    a.digits(ENTER)
    if before is not None:
        before(a)
    again = a.size
    end = claim(a, RUN)
    _place(a, shift)
    whole(a)
    a.repeat(again)
    a.land(end)
    # One thread has claimed the first blocks that there are not: it does the columns behind all blocks.
    a.add(R13, R12)
    a.compare_number(R13, 0)
    other = a.jump_if("at most")
    a.digits("837f4000")  # cmp dword [rdi + 64], 0
    none = a.jump_if("equal")
    a.move(RAX, At(RDI, 16))
    _place(a, shift)
    part(a)
    a.land(other)
    a.land(none)
    a.digits(CLEAR + LEAVE)
    return a.code()


def start_with(a: Assembler, sums: int, read: BlocksCode, first: int = 0) -> None:
    """Append code that begins sums with the bias, which `read` appends the reading of, or with zero without one.

    Args:
        a: The code.
        sums: Number of registers.
        read: Appends code that reads all of them.
        first: The first register.
    """
    for one in range(first, first + sums):
        a.do("vxorps", one, one, one)
    a.digits("48837f3000")  # cmp qword [rdi + 48], 0
    without = a.jump_if("equal")
    read(a)
    a.land(without)


def add_row(a: Assembler, add: BlocksCode) -> None:
    """Append what `add` appends, for where something is added behind."""
    a.digits("48837f2000")  # cmp qword [rdi + 32], 0
    without = a.jump_if("equal")
    add(a)
    a.land(without)


def _place(a: Assembler, shift: int) -> None:
    """Append code that finds what belongs to block rax.

    Args:
        a: The code.
        shift: Logarithm of the bytes of a block's results.
    """
    a.move(RDX, At(RDI, 56))
    a.shift(RDX, 8)  # bytes of a block
    a.multiply(RDX, RAX)
    a.move(R8, At(RDI, 40))
    a.add(R8, RDX)
    a.shift(RAX, shift)
    for register, place in ((RDX, 8), (R9, 48), (R10, 32)):
        a.move(register, At(RDI, place))
        a.add(register, RAX)
