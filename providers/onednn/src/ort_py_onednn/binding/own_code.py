"""Machine code of our own in the place of primitives: for what oneDNN has slow code for.

The code of each is written out where it is made, in hexadecimal digits or with the `assembler`, and for the same reason
as that of `calls` may be missing where the system allows no executable memory. Threads take pieces of the work until
none is left. It does not depend on plans.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.calls import Call
from ort_py_onednn.binding.constants import Argument
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.executable import executable
from ort_py_onednn.binding.hazards import Hazards
from ort_py_onednn.binding.library import Library
from ort_py_onednn.binding.openmp import allowed

__all__ = ["BEGIN", "CLEAR", "ENTER", "LEAVE", "OwnCode", "placed", "putting"]

BEGIN = "f30f1efa"  # endbr64
ENTER = BEGIN + "53554154415541564157"  # push rbx, rbp, r12, r13, r14, r15
CLEAR = "c5f877"  # vzeroupper
LEAVE = "415f415e415d415c5d5b31c0c3"  # pop what was pushed; xor eax, eax; ret
_WORDS = 8
_PLACES = (-1, 0, 1, 4)
"""Words of the work that the arguments of `_PREPARE` are written to."""

_PROBE = bytes.fromhex(
    "f30f1efa"  # 00 endbr64
    "53"  # 04 push rbx
    "b801000000"  # 05 mov eax, 1
    "31c9"  # 0a xor ecx, ecx
    "0fa2"  # 0c cpuid
    "f7d1"  # 0e not ecx
    "f7c100100038"  # 10 test ecx, FMA | OSXSAVE | AVX | F16C
    "751e"  # 16 jnz no
    "31c9"  # 18 xor ecx, ecx
    "0f01d0"  # 1a xgetbv
    "f7d0"  # 1d not eax
    "a806"  # 1f test al, 6: the system saves the wide registers
    "7513"  # 21 jnz no
    "b807000000"  # 23 mov eax, 7
    "31c9"  # 28 xor ecx, ecx
    "0fa2"  # 2a cpuid
    "c1eb05"  # 2c shr ebx, 5
    "83e301"  # 2f and ebx, 1: AVX2
    "89d8"  # 32 mov eax, ebx
    "5b"  # 34 pop rbx
    "c3"  # 35 ret
    "31c0"  # 36 no: xor eax, eax
    "5b"  # 38 pop rbx
    "c3"  # 39 ret
)
"""``int probe(void)``: whether the CPU has all instructions that are used."""

_PREPARE = bytes.fromhex(
    "f30f1efa"  # 00 endbr64
    "488937"  # 04 mov [rdi], rsi
    "48895708"  # 07 mov [rdi + 8], rdx
    "48c7471800000000"  # 0b mov qword [rdi + 24], 0
    "48894f20"  # 13 mov [rdi + 32], rcx
    "31c0"  # 17 xor eax, eax
    "c3"  # 19 ret
)
"""``void prepare(struct work *, void *source, void *target, void *other)``, where ``struct work`` begins with ``void
*source, *target; int64_t count, next; void *other``."""


_PUT = bytes.fromhex(
    "f30f1efa"  # 00 endbr64
    "488937"  # 04 mov [rdi], rsi
    "48895708"  # 07 mov [rdi + 8], rdx
    "48894f10"  # 0b mov [rdi + 16], rcx
    "31c0"  # 0f xor eax, eax
    "c3"  # 11 ret
)
"""``int put(int64_t *place, a, b, c)``: words of a table, three at a time."""


@functools.cache
def _prepare(library: Library) -> int:
    """Address of `_PREPARE`; 0 where the CPU lacks instructions, or the system allows no executable memory."""
    probe = executable(_PROBE)
    if not probe or not ffi.cast("int (*)(void)", probe)():
        return 0
    return executable(_PREPARE)


def placed(library: Library, code: bytes) -> int:
    """Put a function ``void code(struct work *)`` where it can run; 0 where it cannot. To be called once for each."""
    return executable(code) if _prepare(library) else 0


@functools.cache
def putting(library: Library) -> int:
    """Address of `_PUT`, for code whose work is a table; 0 where code cannot run."""
    return placed(library, _PUT)


class OwnCode:
    """Code that a plan has in the place of a `Primitive`; by itself, a pass over elements that stay in their order.

    Args:
        library: The library.
        arguments: Layouts of what is read and written, by argument code.
        code: Address of the function.
        implementation: Its name.
        count: Pieces of work.

    Attributes:
        arguments, hazards, implementation, is_reference, reach, takes_long: As of a `Primitive`.
        bound: Arguments of the first call that are addresses of buffers, and the codes of these. Those of calls behind
            it are counted on.
        length: An argument that is the address of what a run says of its past; None where there is none.
        grows: What that depends on besides, where there is one; see `execution.growth`.
    """

    __slots__ = ("_code", "_count", "_library", "_prepare", "arguments", "implementation")

    bound: tuple[tuple[int, int], ...] = ((1, Argument.SRC), (2, Argument.DST))
    length: int | None = None
    grows: tuple[int, int, int] = (0, 0, 0)
    hazards = Hazards(clamps=False, idle=False, overflows=False, leftovers=False, silent=False)
    is_reference = False
    takes_long = False

    def __init__(
        self, library: Library, arguments: Mapping[int, Desc], code: int, implementation: str, count: int
    ) -> None:
        self.arguments = dict(arguments)
        self.implementation = implementation
        self._count = count
        self._library = library
        self._prepare = _prepare(library)
        self._code = code

    @property
    def reach(self) -> tuple[tuple[int, int, int, bool], ...]:
        """As of a `Primitive`."""
        return tuple((code, *desc.reach, code == Argument.DST) for code, desc in self.arguments.items())

    def work(self, addresses: Mapping[int, int], threads: int = 1) -> Any:
        """The ``struct work``, but for what the first call sets: a line of the cache of its own."""
        work = ffi.new("intptr_t[]", _WORDS)
        work[2] = self._count
        return work

    def calls(self, addresses: Mapping[int, int], threads: int) -> Sequence[Call]:
        """The calls that do it, with buffers at addresses by argument code."""
        work = self.work(addresses, threads)
        call: Call = (self._code, (work,), False)
        threads = allowed(threads) if self._library.threaded else 1
        if threads > 1:
            call = self._library.c.GOMP_parallel, (self._code, work, threads, 0), False
        return (self._prepare, (work, *(addresses[code] for _, code in self.bound)), False), call

    def run(self, arrays: Mapping[int, Any]) -> None:
        """Do it now, with arrays of bytes by argument code, in the calling thread."""
        addresses = {code: array.ctypes.data for code, array in arrays.items()}
        work = self.work(addresses)
        for place, code in self.bound:
            work[_PLACES[place]] = addresses[code]
        ffi.cast("void (*)(void *)", self._code)(work)
