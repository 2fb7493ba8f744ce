"""Common parts of the own code that works on rows of float32: places of arguments, and pieces of the rows.

Rows are claimed, several at once, and a row is computed by one thread: results do not depend on how many there are. The
numbers of a row behind the last whole register are read and written with a mask. Comes after `own_code`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.assembler import R12, R13, RAX, RCX, RDI, Assembler, At
from ort_py_onednn.binding.calls import Call, CallList
from ort_py_onednn.binding.constants import Argument
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.library import Library
from ort_py_onednn.binding.own_code import OwnCode

__all__ = [
    "BYTES",
    "MASK",
    "NUMBERS",
    "PART",
    "PLACES",
    "ROW",
    "WHOLE",
    "WORDS",
    "OwnRows",
    "claim",
    "part_of",
    "read",
    "write",
]

LANES, BYTES = 8, 32
"""Numbers and bytes of a register."""

_PIECES = 4
"""Pieces of the rows for each of several threads."""

WHOLE, _PIECE, ROW, NUMBERS, MASK, WORDS = 7, 10, 11, 12, 14, 18
"""Words of the work: bytes of a row's whole registers, rows that are taken at once, bytes from a row to the next, four
numbers of float32, the mask of the numbers behind the whole registers; and how many words there are."""

PLACES: Mapping[int, int] = {
    Argument.SRC: 0,
    Argument.DST: 1,
    Argument.SCALE: 4,
    Argument.SRC_1: 5,
    Argument.DST_1: 6,
    Argument.SHIFT: 9,
}
"""Words of addresses. The first call writes those of the first three arguments, a second one those of the others, as if
the work began five words later."""

_FIRST, _SECOND = (Argument.SRC, Argument.DST, Argument.SCALE), (Argument.SRC_1, Argument.DST_1, Argument.SHIFT)
_LATER = 5
_NEXT_CALL = CallList.place(1, 0) - CallList.place(0, 0)

PART = 15
"""Register of the mask."""


def claim(a: Assembler, piece: int = _PIECE) -> int:
    """Append code that takes the next rows: the first one in rax, how many in r12, and in r13 how many were left.

    Args:
        a: The code.
        piece: Word of the work that says how many are taken at once.

    Returns:
        The jump that is made where none is left. R12 holds how many would have been taken then.
    """
    a.move(RAX, At(RDI, 8 * piece))
    a.move(R12, RAX)
    a.digits("f0480fc14718")  # lock xadd [rdi + 24], rax
    a.move(R13, At(RDI, 16))
    a.subtract(R13, RAX)
    a.compare_number(R13, 0)
    end = a.jump_if("at most")
    a.compare_whole(R13, R12)
    a.move_if_at_most(R12, R13)
    return end


def part_of(a: Assembler, part: Callable[[Assembler, bool], None], length: At) -> None:
    """Append code that does something with each register of a row from rax on, and with the numbers behind them.

    Args:
        a: The code.
        part: Appends code for one register, at rax, of which only the masked numbers count where its argument is true.
        length: Bytes of a row; rcx holds those of its whole registers.
    """
    single = a.size
    a.compare_whole(RAX, RCX)
    last = a.jump_if("at least")
    part(a, False)
    a.add_number(RAX, BYTES)
    a.repeat(single)
    a.land(last)
    a.compare_whole(RAX, length)
    done = a.jump_if("equal")
    part(a, True)
    a.land(done)


def read(a: Assembler, register: int, place: At, partly: bool) -> None:
    """Append a read of eight numbers, or of those that the mask names."""
    if partly:
        a.read_part(register, PART, place)
    else:
        a.read(register, place)


def write(a: Assembler, register: int, place: At, partly: bool) -> None:
    """Append a write of eight numbers, or of those that the mask names."""
    if partly:
        a.write_part(register, PART, place)
    else:
        a.write(register, place)


class OwnRows(OwnCode):
    """Rows that are computed each by itself.

    Args:
        library: The library.
        arguments: Plain layouts by argument code, of those that have a place.
        code: Address of the function.
        implementation: Its name.
        count: Rows, as they are claimed.
        length: Numbers that are read one behind the other.
    """

    __slots__ = ("_length", "_second", "bound")

    def __init__(
        self, library: Library, arguments: Mapping[int, Desc], code: int, implementation: str, count: int, length: int
    ) -> None:
        super().__init__(library, arguments, code, implementation, count)
        self._length = length
        self._second = not arguments.keys().isdisjoint(_SECOND)
        self.bound = tuple(
            (_NEXT_CALL * call + place, code)
            for call, codes in enumerate((_FIRST, _SECOND))
            for place, code in enumerate(codes, 1)
            if code in arguments
        )

    @property
    def reach(self) -> tuple[tuple[int, int, int, bool], ...]:
        """See `OwnCode`."""
        return tuple((code, *desc.reach, code in Argument.WRITTEN) for code, desc in self.arguments.items())

    def words(self) -> Sequence[int]:
        """Words behind those of all such code."""
        return ()

    def work(self, addresses: Mapping[int, int], threads: int = 1) -> Any:
        """See `OwnCode`."""
        more = self.words()
        work = ffi.new("intptr_t[]", WORDS + len(more))
        work[WORDS : WORDS + len(more)] = list(more)
        for code, address in addresses.items():
            work[PLACES[code]] = address
        work[2] = self._count
        work[WHOLE] = self._length // LANES * BYTES
        work[_PIECE] = self._count if threads == 1 else -(-self._count // (_PIECES * threads))
        work[ROW] = 4 * self._length
        for one in range(self._length % LANES):
            ffi.cast("int32_t *", work + MASK)[one] = -1
        return work

    def calls(self, addresses: Mapping[int, int], threads: int) -> Sequence[Call]:
        """See `OwnCode`."""
        prepare, *call = super().calls({code: addresses.get(code, 0) for code in PLACES}, threads)
        work = prepare[1][0]
        found = [self._prepared(work, _FIRST, addresses)]
        if self._second:
            found.append(self._prepared(work + _LATER, _SECOND, addresses))
        return (*found, *call)

    def _prepared(self, work: Any, codes: Sequence[int], addresses: Mapping[int, int]) -> Call:
        return self._prepare, (work, *(addresses.get(code, 0) for code in codes)), False

    def run(self, arrays: Mapping[int, Any]) -> None:
        """See `OwnCode`."""
        work = self.work({code: array.ctypes.data for code, array in arrays.items()})
        ffi.cast("void (*)(void *)", self._code)(work)
