"""Products of one row and fixed weights of float32 in machine code, for CPUs with AVX2.

The weights have the layout that convolutions of 1 × 1 read there, so that runs of one row and of many hold one form of
them: blocks of eight columns, each from the first number of a row to the last. Four blocks are read side by side, each
in the order in which it lies. The convolution takes twice as long where weights come from the third-level cache, and
1.1 times where they come from memory. A vector is added in front, and another one behind, where they are wanted.

Comes after `own_code` and `picture_products`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.assembler import R8, R9, R10, R11, RAX, RBP, RBX, RCX, RDI, RDX, RSI, Assembler, At
from ort_py_onednn.binding.constants import F32, Argument, Binary
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.instructions import AVX2, AVX512
from ort_py_onednn.binding.library import Library
from ort_py_onednn.binding.own_code import BEGIN, OwnCode, placed
from ort_py_onednn.binding.primitive import Accumulate, Operand, PostOp, Primitive

__all__ = ["RowProduct"]

_TOGETHER = 4
"""Blocks of eight columns that a thread takes at once."""


_WORDS, _MASK = 12, 8
"""Words of the work, and the first of those that hold the mask."""

_BASES = (R8, R11, RBX, RBP)
"""Registers that hold the addresses of blocks read side by side."""

_EIGHT_ROWS = 256
"""Bytes of eight rows of a block."""


def _blocks(a: Assembler, bases: Sequence[int], mask: int | None = None) -> None:
    """Append code for blocks side by side: memory has more to do at once than in one place.

    A number of the row is read once for all blocks. Each block has two sums a column, however many are read together,
    so that equal columns have equal results wherever they are.

    Args:
        a: The code.
        bases: Registers with the blocks' addresses.
        mask: Register that holds which columns of a single block there are; None for all.
    """
    a.digits(
        "488b37"  # mov rsi, [rdi]
        "488b4738"  # mov rax, [rdi + 56]
    )
    for one in range(2 * len(bases)):
        a.do("vxorps", one, one, one)
    a.digits("48837f3000")  # cmp qword [rdi + 48], 0
    a.digits("0f84")  # jz inner
    without = a.jump()
    for one in range(len(bases)):
        if mask is None:
            a.read(2 * one, At(R9, 32 * one))
        else:
            a.read_part(2 * one, mask, At(R9, 32 * one))
    a.land(without)
    inner = a.size
    for one in range(8):
        number = 8 + one % 4
        a.spread(number, At(RSI, 4 * one))
        for place, base in enumerate(bases):
            a.do("vfmadd231ps", 2 * place + one % 2, number, At(base, 32 * one))
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
    if mask is not None:
        a.read_part(1, mask, At(R10))
        a.do("vaddps", 0, 0, 1)
        a.land(write)
        a.write_part(0, mask, At(RDX))
        return
    for one in range(len(bases)):
        a.do("vaddps", 2 * one, 2 * one, At(R10, 32 * one))
    a.land(write)
    for one in range(len(bases)):
        a.write(2 * one, At(RDX, 32 * one))


def _code() -> bytes:
    """Code of ``void product(struct { void *row, *result; int64_t blocks, next; void *added, *weights, *bias; int64_t
    depth; int32_t mask[8]; } *)``, where blocks have eight columns and depth counts in eights. The mask says which
    columns there are in a block behind the others; without the first there is none."""
    a = Assembler()
    a.digits(BEGIN)
    a.digits("5355")  # push rbx; push rbp
    claim = a.size
    a.digits(
        f"b8{_TOGETHER:02x}000000"  # mov eax, blocks
        "f0480fc14718"  # lock xadd [rdi + 24], rax
        "488b4f10"  # mov rcx, [rdi + 16]
        "4829c1"  # sub rcx, rax
        "0f8e"  # jle end
    )
    end = a.jump()
    a.digits(
        f"ba{_TOGETHER:02x}000000"  # mov edx, blocks
        "4839d1"  # cmp rcx, rdx
        "480f4fca"  # cmovg rcx, rdx
    )
    _place(a)
    a.digits(f"4883f9{_TOGETHER:02x}")  # cmp rcx, blocks
    a.digits("0f85")  # jne block
    fewer = a.jump()
    a.digits(
        "488b4738"  # mov rax, [rdi + 56]
        "48c1e008"  # shl rax, 8: bytes of a block
        "4d8d1c00"  # lea r11, [r8 + rax]
        "498d1c03"  # lea rbx, [r11 + rax]
        "488d2c03"  # lea rbp, [rbx + rax]
    )
    _blocks(a, _BASES)
    a.digits("e9")  # jmp claim
    a.jump(claim)
    a.land(fewer)
    block = a.size
    _blocks(a, (R8,))
    a.digits(
        "4983c120"  # add r9, 32
        "4983c220"  # add r10, 32
        "4883c220"  # add rdx, 32
        "48ffc9"  # dec rcx
        "0f85"  # jnz block
    )
    a.jump(block)
    a.digits("e9")  # jmp claim
    a.jump(claim)
    a.land(end)
    # One thread has claimed the first blocks that there are not: it does the columns behind all blocks.
    a.add_number(RCX, _TOGETHER)
    a.compare_number(RCX, 0)
    other = a.jump_if("at most")
    a.digits("837f4000")  # cmp dword [rdi + 64], 0
    none = a.jump_if("equal")
    a.move(RAX, At(RDI, 16))
    _place(a)
    a.read(15, At(RDI, 64))
    _blocks(a, (R8,), 15)
    a.land(other)
    a.land(none)
    a.digits("c5f8775d5b31c0c3")  # vzeroupper; pop rbp; pop rbx; xor eax, eax; ret
    return a.code()


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

    def work(self, addresses: Mapping[int, int]) -> Any:
        """See `OwnCode`."""
        work = ffi.new("intptr_t[]", _WORDS)
        work[2] = self._count
        for one in range(self._rest):
            ffi.cast("int32_t *", work + _MASK)[one] = -1
        work[5], work[6], work[7] = addresses[Argument.WEIGHTS], addresses.get(Argument.BIAS, 0), self._depth
        return work


def _layout(columns: int, depth: int) -> tuple[Any, ...]:
    """The key of a layout: blocks of eight columns and eight numbers of each, the columns innermost."""
    dims, whole = (columns, depth, 1, 1), (-(-columns // 8) * 8, depth, 1, 1)
    steps = tuple(0 if size == 1 else step for size, step in zip(dims, (8 * depth, 64, 0, 0), strict=True))
    return dims, steps, whole, ((8, 8), (1, 0)), 0, 4 * math.prod(whole), F32
