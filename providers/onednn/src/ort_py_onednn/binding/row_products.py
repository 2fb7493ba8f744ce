"""Products of one row and fixed weights of float32 in machine code, for CPUs with AVX2.

The weights have the layout that convolutions of 1 × 1 read there, so that runs of one row and of many hold one form of
them: blocks of eight columns, each from the first number of a row to the last. Memory is read in four places side by
side, in each of them several blocks one behind the other. The convolution takes twice as long where weights come from
the third-level cache, and 1.5 times where they come from memory. A vector is added in front, and another one behind,
where they are wanted.

Comes after `own_code` and `picture_products`.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ort_py_onednn.binding._dnnl import ffi
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
from ort_py_onednn.binding.constants import F32, Argument, Binary
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.instructions import AVX2, AVX512
from ort_py_onednn.binding.library import Library
from ort_py_onednn.binding.own_code import BEGIN, OwnCode, placed
from ort_py_onednn.binding.primitive import Accumulate, Operand, PostOp, Primitive
from ort_py_onednn.binding.widening import POP, PUSH

__all__ = ["RowProduct"]

_TOGETHER = 4
"""Blocks of eight columns that are read side by side."""

_WORDS, _MASK, _RUN = 13, 8, 12
"""Words of the work, the first of those that hold the mask, and that of how many blocks are read one behind the other
in each of the places read side by side."""

_LONGEST_RUN, _RUN_BYTES = 16, 400_000
"""Memory is read faster the longer it is read in one place: of short blocks 1.4 times as fast, until other places wait
too long."""

_BASES = (R8, R11, RBX, RBP)
"""Registers that hold the addresses of blocks read side by side."""

_EIGHT_ROWS = 256
"""Bytes of eight rows of a block."""

_STEP = RCX
"""Register that holds the bytes of results between blocks that are read side by side."""


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
    a.digits(
        "488b37"  # mov rsi, [rdi]
        "488b4738"  # mov rax, [rdi + 56]
    )
    for one in range(2 * len(bases)):
        a.do("vxorps", one, one, one)
    a.digits("48837f3000")  # cmp qword [rdi + 48], 0
    a.digits("0f84")  # jz inner
    without = a.jump()
    for one, place in enumerate(biases):
        if mask is None:
            a.read(2 * one, place)
        else:
            a.read_part(2 * one, mask, place)
    a.land(without)
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
    a.digits("48837f2000")  # cmp qword [rdi + 32], 0
    a.digits("0f84")  # jz write
    write = a.jump()
    for one, place in enumerate(added):
        if mask is None:
            a.do("vaddps", 2 * one, 2 * one, place)
        else:
            a.read_part(1, mask, place)
            a.do("vaddps", 0, 0, 1)
    a.land(write)
    for one, place in enumerate(results):
        if mask is None:
            a.write(2 * one, place)
        else:
            a.write_part(0, mask, place)


def _code() -> bytes:
    """Code of ``void product(struct { void *row, *result; int64_t blocks, next; void *added, *weights, *bias; int64_t
    depth; int32_t mask[8]; int64_t run; } *)``, where blocks have eight columns and depth counts in eights. The mask
    says which columns there are in a block behind the others; without the first there is none."""
    a = Assembler()
    a.digits(BEGIN + PUSH)
    claim = a.size
    a.move(RAX, At(RDI, 8 * _RUN))
    a.shift(RAX, 2)
    a.move(R12, RAX)
    a.digits("f0480fc14718")  # lock xadd [rdi + 24], rax
    a.move(RCX, At(RDI, 16))
    a.subtract(RCX, RAX)
    a.compare_number(RCX, 0)
    end = a.jump_if("at most")
    a.compare_whole(RCX, R12)
    a.move_if_at_most(R12, RCX)  # blocks of this piece
    _place(a)
    again = a.size
    a.compare_number(R12, _TOGETHER)
    few = a.jump_if("less")
    _side_by_side(a)
    a.repeat(again)
    a.land(few)
    single = a.size
    a.compare_number(R12, 0)
    a.jump_if("equal", claim)
    _blocks(a, (R8,))
    for register in (RDX, R9, R10):
        a.add_number(register, 32)
    a.add_number(R12, -1)
    a.repeat(single)
    a.land(end)
    # One thread has claimed the first blocks that there are not: it does the columns behind all blocks.
    a.add(RCX, R12)
    a.compare_number(RCX, 0)
    other = a.jump_if("at most")
    a.digits("837f4000")  # cmp dword [rdi + 64], 0
    none = a.jump_if("equal")
    a.move(RAX, At(RDI, 16))
    _place(a)
    a.read(15, At(RDI, 8 * _MASK))
    _blocks(a, (R8,), 15)
    a.land(other)
    a.land(none)
    a.digits("c5f877" + POP + "31c0c3")  # vzeroupper; pop …; xor eax, eax; ret
    return a.code()


def _side_by_side(a: Assembler) -> None:
    """Append code for a whole piece of work, or for the next four blocks of a part of one."""
    a.set_number(RCX, 1)
    a.move(RAX, At(RDI, 8 * _RUN))
    a.shift(RAX, 2)
    a.compare_whole(RAX, R12)
    part = a.jump_if("unequal")
    a.move(RCX, At(RDI, 8 * _RUN))
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


def _place(a: Assembler) -> None:
    """Append code that finds what belongs to block rax."""
    a.digits(
        "488b5738"  # mov rdx, [rdi + 56]
        "48c1e208"  # shl rdx, 8: bytes of a block
        "480fafd0"  # imul rdx, rax
        "4c8b4728"  # mov r8, [rdi + 40]
        "4901d0"  # add r8, rdx
        "48c1e005"  # shl rax, 5
        "488b5708"  # mov rdx, [rdi + 8]
        "4801c2"  # add rdx, rax
        "4c8b4f30"  # mov r9, [rdi + 48]
        "4901c1"  # add r9, rax
        "4c8b5720"  # mov r10, [rdi + 32]
        "4901c2"  # add r10, rax
    )


@functools.cache
def _address(library: Library) -> int:
    """Address of the code; 0 where there is none."""
    if not library.isa & AVX2 or library.isa & AVX512:
        return 0
    return placed(library, _code())


class RowProduct(OwnCode):
    """The product of a row, in the place of the `picture_product` whose weights it reads.

    Args:
        library: The library.
        arguments: Those of that, by code.
        added: The code of what is added behind; None where nothing is.
    """

    __slots__ = ("_depth", "_rest", "bound")

    def __init__(self, library: Library, arguments: Mapping[int, Desc], added: int | None) -> None:
        depth, columns = arguments[Argument.SRC].dims[1], arguments[Argument.DST].dims[1]
        super().__init__(library, arguments, _address(library), "own:row:avx2", columns // 8)
        self._depth, self._rest = depth // 8, columns % 8
        self.bound = ((1, Argument.SRC), (2, Argument.DST))
        if added is not None:
            self.bound = (*self.bound, (3, added))

    @classmethod
    def made(cls, library: Library, product: Primitive, posts: Sequence[PostOp]) -> RowProduct | None:
        """What computes a product in its place; None where there is no code for it.

        Args:
            library: The library.
            product: Made without functions behind it.
            posts: What is done with the result: nothing, or the addition of a row.
        """
        arguments = {code: desc for code, desc in product.arguments.items() if code != Argument.SCRATCHPAD}
        rows, depth = arguments[Argument.SRC].dims
        columns = arguments[Argument.DST].dims[1]
        if rows != 1 or depth % 8 or not _address(library):
            return None
        weights = arguments[Argument.WEIGHTS].key
        if weights is None or weights != _layout(columns, depth):
            return None
        if not posts:
            return cls(library, arguments, None)
        (post,) = posts if len(posts) == 1 else (None,)
        if post == Accumulate():
            return cls(library, arguments, Argument.DST)
        if isinstance(post, Operand) and post.algorithm == Binary.ADD and post.desc.dims == (1, columns):
            code = Argument.post_op(0)
            return cls(library, arguments | {code: Desc.plain((1, columns))}, code)
        return None

    def work(self, addresses: Mapping[int, int], threads: int = 1) -> Any:
        """See `OwnCode`."""
        work = ffi.new("intptr_t[]", _WORDS)
        work[2] = self._count
        for one in range(self._rest):
            ffi.cast("int32_t *", work + _MASK)[one] = -1
        work[5], work[6], work[7] = addresses[Argument.WEIGHTS], addresses.get(Argument.BIAS, 0), self._depth
        work[_RUN] = self._run(threads)
        return work

    def _run(self, threads: int) -> int:
        """Blocks that are read one behind the other: threads should have several pieces each, of the same size."""
        found, pieces = _LONGEST_RUN, 1 if threads == 1 else 3 * threads
        while found > 1 and (
            found * self._depth * _EIGHT_ROWS > _RUN_BYTES or found * _TOGETHER * pieces > self._count
        ):
            found //= 2
        return found


def _layout(columns: int, depth: int) -> tuple[Any, ...]:
    """The key of a layout: blocks of eight columns and eight numbers of each, the columns innermost."""
    dims, whole = (columns, depth, 1, 1), (-(-columns // 8) * 8, depth, 1, 1)
    steps = tuple(0 if size == 1 else step for size, step in zip(dims, (8 * depth, 64, 0, 0), strict=True))
    return dims, steps, whole, ((8, 8), (1, 0)), 0, 4 * math.prod(whole), F32
