"""The processor's flags of a run: whether its code met NaN where it could have lost it.

The code that oneDNN generates clamps with MAXPS, MINPS and compares of order. These give the other operand where one is
not a number, so NaN becomes a bound; but they raise the sticky Invalid flag of the thread's MXCSR register when they
do, and so does every instruction that makes a NaN. A flag that is still clear after a run therefore shows that nothing
was lost. The flags are read by a few bytes of machine code that are written out below, like the loop of `calls`, which
calls them; workers of OpenMP's team read their own. It does not depend on plans.
"""

from __future__ import annotations

import functools
from typing import Any

from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.calls import Call
from ort_py_onednn.binding.executable import executable
from ort_py_onednn.binding.library import WINDOWS, Library
from ort_py_onednn.binding.openmp import allowed

__all__ = ["INVALID", "OVERFLOW", "Flags", "can_look"]

INVALID = 1 << 0
OVERFLOW = 1 << 3

_COLLECT = bytes.fromhex(
    "f30f1efa"  # 00 endbr64
    "4883ec08"  # 04 sub rsp, 8
    "0fae1c24"  # 08 stmxcsr [rsp]
    "8b0424"  # 0c mov eax, [rsp]
    "8b4f04"  # 0f mov ecx, [rdi + 4]
    "21c8"  # 12 and eax, ecx
    "740d"  # 14 jz end
    "f7d1"  # 16 not ecx
    "210c24"  # 18 and [rsp], ecx
    "0fae1424"  # 1b ldmxcsr [rsp]
    "f00907"  # 1f lock or [rdi], eax
    "90"  # 22 nop
    "4883c408"  # 23 end: add rsp, 8
    "31c0"  # 27 xor eax, eax
    "c3"  # 29 ret
)
"""``void collect(struct { uint32_t found, wanted; } *flags)``: adds the wanted flags that are raised to those found,
and clears them in the thread."""


_CLEAN = bytes.fromhex(
    "f30f1efa"  # 00 endbr64
    "c5fc77"  # 04 vzeroall
    "31c0"  # 07 xor eax, eax
    "c3"  # 09 ret
)
"""``void clean(void *)``: makes the vector registers of the thread zero, on processors with AVX."""


@functools.cache
def _cleaner(library: Library) -> int:
    return executable(_CLEAN)


@functools.cache
def _collector(library: Library) -> int:
    """Address of the function; 0 where the system allows no executable memory."""
    return executable(_COLLECT)


def can_look(library: Library) -> bool:
    """Return whether the flags can be read here."""
    return _collector(library) != 0


class Flags:
    """The flags of the threads of one run, in words that calls of the run write.

    A call before the run clears the flag of the calling thread, for it has done other things since; workers were left
    with a clear flag. Every other call covers all threads.

    Args:
        library: For OpenMP's team.
    """

    __slots__ = ("_collect", "_library", "_words")

    def __init__(self, library: Library) -> None:
        self._library = library
        # Two words a purpose: those found and those wanted. Each has a line of the cache of its own.
        self._words = ffi.new("unsigned[]", 64)
        self._words[1] = INVALID
        self._words[17] = OVERFLOW
        self._words[33] = INVALID
        self._words[49] = OVERFLOW
        self._collect = _collector(library)

    def note(self, flag: int, threads: int = 1) -> Call:
        """The call that remembers whether a flag is raised in one of the threads, and clears it."""
        return self._call(0 if flag == INVALID else 16, threads)

    def forget(self, flag: int, threads: int = 1) -> Call:
        """The call that clears a flag."""
        return self._call(32 if flag == INVALID else 48, threads)

    def clean(self, threads: int = 1) -> Call:
        """The call that makes vector registers zero, so that code which computes with what they hold raises no flag."""
        return self._everywhere(_cleaner(self._library), self._words, threads)

    def raised(self) -> int:
        """The flags that were noted since this was asked last."""
        words = self._words
        found = words[0] | words[16]
        if found:
            words[0] = words[16] = 0
        return int(found)

    def _call(self, place: int, threads: int) -> Call:
        return self._everywhere(self._collect, self._words + place, threads)

    def _everywhere(self, function: int, argument: Any, threads: int) -> Call:
        threads = allowed(threads) if self._library.threaded else 1
        if threads == 1 or WINDOWS:  # there teams begin with clean registers, and their flags are the caller's: `vcomp`
            return function, (argument,), False
        return self._library.c.GOMP_parallel, (function, argument, threads, 0), False
