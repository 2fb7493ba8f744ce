"""A list of C calls that runs without the interpreter: one call from Python for a whole region.

A `CallList` is an array of records, each a function's address and up to four arguments. A loop of 53 bytes of machine
code, written out below and for Windows in `win64`, calls one after the other and stops at the first that fails. oneDNN
generates its own code in the same way, so wherever it runs this does; should the system refuse executable memory all
the same, the loop is Python's, and gives the same results. Calls that come again and again are records again and again:
see `Repeated`.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from ort_py.lazy_dataclass import dataclass
from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.executable import executable
from ort_py_onednn.binding.library import WINDOWS
from ort_py_onednn.binding.status import check

__all__ = ["Call", "CallList", "Repeated", "native_loop"]

# struct { void *function, *arguments[4]; uint32_t mask; uint32_t status; }, all fields as 64-bit words.
_WORDS = 6
_CHECKED = 0xFFFFFFFF

_LOOP = bytes.fromhex(
    "f30f1efa"  # 00 endbr64
    "53"  # 04 push rbx
    "4889fb"  # 05 mov rbx, rdi
    "488b03"  # 08 loop: mov rax, [rbx]
    "4885c0"  # 0b test rax, rax
    "7423"  # 0e jz end
    "488b7b08"  # 10 mov rdi, [rbx + 8]
    "488b7310"  # 14 mov rsi, [rbx + 16]
    "488b5318"  # 18 mov rdx, [rbx + 24]
    "488b4b20"  # 1c mov rcx, [rbx + 32]
    "ffd0"  # 20 call rax
    "854328"  # 22 test eax, [rbx + 40]
    "7506"  # 25 jnz failed
    "4883c330"  # 27 add rbx, 48
    "ebdb"  # 2b jmp loop
    "89432c"  # 2d failed: mov [rbx + 44], eax
    "4889d8"  # 30 mov rax, rbx
    "5b"  # 33 end: pop rbx
    "c3"  # 34 ret
)
_SHORT = 0.01
"""Seconds in which no look at the clock is needed. What calls do follows from their shapes: one time tells the next."""

Call = tuple[Any, tuple[Any, ...], bool]
"""A function, its arguments (pointers or numbers), and whether it returns a status."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """Calls that are made in order, again and again.

    Attributes:
        calls: The calls of one time.
        count: How often they are made.
        strides: By call and argument, what is added to that argument each time.
    """

    calls: Sequence[Call]
    count: int
    strides: Mapping[tuple[int, int], int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.calls) * self.count

    def records(self) -> np.ndarray[Any, Any]:
        """The records as words: (times, calls, words of a record)."""
        once = np.array([_record(call) for call in self.calls], np.int64).reshape(len(self.calls), _WORDS)
        found = np.repeat(once[None], self.count, axis=0)
        for (call, argument), stride in self.strides.items():
            found[:, call, 1 + argument] += stride * np.arange(self.count, dtype=np.int64)
        return found


@functools.cache
def native_loop() -> int:
    """Address of the loop; 0 where the system allows no executable memory."""
    if WINDOWS:
        from ort_py_onednn.binding import win64, windows

        return windows.placed(*win64.loop())
    return executable(_LOOP)


class CallList:
    """Calls in order; arguments may be changed between runs. Used by one thread at a time.

    Args:
        calls: The calls.
        names: What each is for, for errors; the calls of a `Repeated` share one.
        kind: What those with a status are, for errors.

    Attributes:
        words: The records, as 64-bit words.
        pointers: The same as addresses: what is assigned there may be any buffer.
    """

    __slots__ = ("_address", "_keep", "_kind", "_names", "_run", "_short", "pointers", "words")

    def __init__(
        self, calls: Sequence[Call | Repeated], names: Sequence[str], kind: str = "dnnl_primitive_execute"
    ) -> None:
        self._kind = kind
        self._short = False
        lengths = [len(call) if isinstance(call, Repeated) else 1 for call in calls]
        self.words = ffi.new("intptr_t[]", (sum(lengths) + 1) * _WORDS)
        self.pointers = ffi.cast("void **", self.words)
        self._names = tuple(name for name, length in zip(names, lengths, strict=True) for _ in range(length))
        self._keep = tuple(calls)  # the words are bare addresses of what these own
        start = 0
        for call, length in zip(calls, lengths, strict=True):
            if isinstance(call, Repeated):
                ffi.memmove(self.words + start, ffi.from_buffer(call.records()), 8 * length * _WORDS)
            else:
                self.words[start : start + _WORDS] = _record(call)
            start += length * _WORDS
        self._address = ffi.cast("void *", self.words)
        loop = native_loop()
        self._run = ffi.cast("intptr_t (*)(void *)", loop) if loop else self._slowly

    @staticmethod
    def place(call: int, argument: int) -> int:
        """Index in `words` of an argument of a call."""
        return call * _WORDS + 1 + argument

    @property
    def address(self) -> int:
        """Address of the records: the argument of the loop."""
        return int(ffi.cast("intptr_t", self._address))

    def run(self) -> None:
        """Make all calls.

        Raises:
            EPFail: One of them failed; those after it were not made.
            MemoryError: It failed for want of memory.
        """
        failed = self._run(self._address)
        if failed:
            index = (failed - self.address) // (8 * _WORDS)
            check(self.words[index * _WORDS + 5] >> 32 & 0xFFFFFFFF, self._kind, self._names[index])

    def run_watched(self, time_check: Callable[[], None]) -> None:
        """Make all calls, and call a function before each; a list that was short the last time is made in one go.

        Args:
            time_check: Raises if no more calls are to be made.

        Raises:
            EPFail, MemoryError: As `run`.
            Exception: Whatever `time_check` raises.
        """
        begun = time.monotonic()
        if self._short:
            time_check()
            self.run()
        else:
            self._run_singly(time_check)
        self._short = time.monotonic() - begun < _SHORT

    def _run_singly(self, time_check: Callable[[], None]) -> None:
        words, size = self.words, 8 * _WORDS
        for index in range(len(self._names)):
            time_check()
            end = (index + 1) * _WORDS
            following, words[end] = words[end], 0  # the loop ends where there is no function
            try:
                failed = self._run(ffi.cast("void *", self.address + index * size))
            finally:
                words[end] = following
            if failed:
                check(words[index * _WORDS + 5] >> 32 & 0xFFFFFFFF, self._kind, self._names[index])

    def _slowly(self, address: Any) -> int:
        words = self.words
        first = (int(ffi.cast("intptr_t", address)) - self.address) // 8
        for start in range(first, len(words) - _WORDS, _WORDS):
            if not words[start]:
                return 0
            function = ffi.cast("int (*)(intptr_t, intptr_t, intptr_t, intptr_t)", words[start])
            status = function(words[start + 1], words[start + 2], words[start + 3], words[start + 4])
            if status and words[start + 5]:
                words[start + 5] = _CHECKED | status << 32
                return self.address + 8 * start
        return 0


def _record(call: Call) -> list[int]:
    function, arguments, checked = call
    words = [_word(function), *map(_word, arguments), 0, 0, 0, 0][: _WORDS - 1]
    return [*words, _CHECKED if checked else 0]


def _word(value: Any) -> int:
    return value if isinstance(value, int) else int(ffi.cast("intptr_t", value))
