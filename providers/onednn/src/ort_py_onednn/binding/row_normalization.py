"""Normalisations of rows of float32 in machine code for AVX2: by the mean and the variance, or by the root mean square.

oneDNN has one primitive for the first, which takes half a microsecond for the shortest row, and none for the second:
six primitives of a third of a microsecond each. Here it is one call, which also adds a second tensor in front where
there is one. A row is read two or three times while it is in the first-level cache, the variance is the mean of squares
of what is left without the mean, and each row is computed by one thread. Four sums of eight numbers are added
side by side. NaN and infinities make of a row what the definition makes of it. Comes after `own_code`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ort_py.light_tuple import NamedTuple
from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.assembler import (
    R8,
    R9,
    R10,
    R11,
    R12,
    R13,
    R14,
    RAX,
    RCX,
    RDI,
    RDX,
    RSI,
    Assembler,
    At,
)
from ort_py_onednn.binding.calls import Call, CallList
from ort_py_onednn.binding.constants import Argument
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.instructions import AVX2
from ort_py_onednn.binding.library import Library
from ort_py_onednn.binding.own_code import BEGIN, OwnCode, placed
from ort_py_onednn.binding.widening import POP, PUSH

__all__ = ["RowNormalization", "has_row_normalization"]

_LANES, _BYTES = 8, 32
"""Numbers and bytes of a register."""

_TOGETHER = 4
"""Registers that are read side by side, each with a sum of its own."""

_PIECES = 4
"""Pieces of the rows for each of several threads."""

_WHOLE, _PIECE, _ROW, _NUMBERS, _MASK, _WORDS = 7, 10, 11, 12, 14, 18
"""Words of the work: bytes of a row's whole registers, rows that are taken at once, bytes of a row, three numbers of
float32 (the length, epsilon and one), and the mask of the numbers behind the whole registers."""

_PLACES: Mapping[int, int] = {
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

_MEAN, _FACTOR, _OTHER, _PART = 12, 13, 14, 15
"""Registers: the mean of a row, what its numbers are multiplied by, one for what comes and goes, and the mask."""


class _Form(NamedTuple):
    """The work that the code of one kind does.

    Attributes:
        centred: Whether the mean is subtracted: else a row is divided by its root mean square.
        added: Whether a second tensor is added in front.
        kept: Whether that sum is written to a place of its own.
        scaled, shifted: Whether each column is multiplied by a number, and one added, in the end.
    """

    centred: bool
    added: bool
    kept: bool
    scaled: bool
    shifted: bool


_Part = Callable[[Assembler, int, int, bool], None]
"""Appends code for one register of a row: which of those side by side, its distance in bytes, and whether it is part of
a register only."""


def _all(a: Assembler, part: _Part) -> None:
    """Append code for a whole row: four registers at once, then one, then the numbers behind them."""
    a.set_number(RAX, 0)
    a.compare_whole(RAX, R14)
    few = a.jump_if("at least")
    again = a.size
    for one in range(_TOGETHER):
        part(a, one, _BYTES * one, False)
    a.add_number(RAX, _BYTES * _TOGETHER)
    a.compare_whole(RAX, R14)
    a.jump_if("less", again)
    a.land(few)
    single = a.size
    a.compare_whole(RAX, RCX)
    last = a.jump_if("at least")
    part(a, 0, 0, False)
    a.add_number(RAX, _BYTES)
    a.repeat(single)
    a.land(last)
    a.compare_whole(RAX, At(RDI, 8 * _ROW))
    done = a.jump_if("equal")
    part(a, 1, 0, True)
    a.land(done)


def _read(a: Assembler, register: int, place: At, partly: bool) -> None:
    if partly:
        a.read_part(register, _PART, place)
    else:
        a.read(register, place)


def _write(a: Assembler, register: int, place: At, partly: bool) -> None:
    if partly:
        a.write_part(register, _PART, place)
    else:
        a.write(register, place)


def _total(a: Assembler, target: int) -> None:
    """Append code for the mean of a row out of the four sums, in all places of a register."""
    a.do("vaddps", 0, 0, 1)
    a.do("vaddps", 2, 2, 3)
    a.do("vaddps", 0, 0, 2)
    a.exchange_halves(1, 0)
    a.do("vaddps", 0, 0, 1)
    for order in (0x4E, 0xB1):
        a.turn(1, 0, order)
        a.do("vaddps", 0, 0, 1)
    a.spread(1, At(RDI, 8 * _NUMBERS))
    a.do("vdivps", target, 0, 1)


def _sums(a: Assembler, part: _Part, target: int) -> None:
    """Append code that adds something of each number of a row, and divides by their count."""
    for one in range(_TOGETHER):
        a.do("vxorps", one, one, one)
    _all(a, part)
    _total(a, target)


def _row(a: Assembler, form: _Form) -> None:
    """Append code for a row: what is normalised is at r13, which is where it is read first but for a sum."""

    def first(a: Assembler, lane: int, behind: int, partly: bool) -> None:
        value = 4 + lane
        _read(a, value, At(RSI, behind, RAX), partly)
        if form.added:
            _read(a, 8 + lane, At(R9, behind, RAX), partly)
            a.do("vaddps", value, value, 8 + lane)
            _write(a, value, At(R13, behind, RAX), partly)
        if form.centred:
            a.do("vaddps", lane, lane, value)
        else:
            a.do("vfmadd231ps", lane, value, value)

    def squares(a: Assembler, lane: int, behind: int, partly: bool) -> None:
        value = 4 + lane
        _read(a, value, At(R13, behind, RAX), partly)
        a.do("vsubps", value, value, _MEAN)
        if partly:
            a.do("vandps", value, value, _PART)
        a.do("vfmadd231ps", lane, value, value)

    def result(a: Assembler, lane: int, behind: int, partly: bool) -> None:
        value = 4 + lane
        _read(a, value, At(R13, behind, RAX), partly)
        if form.centred:
            a.do("vsubps", value, value, _MEAN)
        a.do("vmulps", value, value, _FACTOR)
        if form.scaled:
            _read(a, 8 + lane, At(R8, behind, RAX), partly)
            a.do("vmulps", value, value, 8 + lane)
        if form.shifted:
            _read(a, 8 + lane, At(R11, behind, RAX), partly)
            a.do("vaddps", value, value, 8 + lane)
        _write(a, value, At(RDX, behind, RAX), partly)

    a.move(R13, (R10 if form.kept else RDX) if form.added else RSI)
    _sums(a, first, _MEAN)
    if form.centred:
        _sums(a, squares, _FACTOR)
    else:
        a.load(_FACTOR, _MEAN)
    a.spread(_OTHER, At(RDI, 8 * _NUMBERS + 4))
    a.do("vaddps", _FACTOR, _FACTOR, _OTHER)
    a.root(_FACTOR, _FACTOR)
    a.spread(_OTHER, At(RDI, 8 * _NUMBERS + 8))
    a.do("vdivps", _FACTOR, _OTHER, _FACTOR)
    _all(a, result)


def _code(form: _Form) -> bytes:
    """Code of ``void normalize(struct work *)`` (`own_code`): threads take several rows at once."""
    a = Assembler()
    a.digits(BEGIN + PUSH)
    a.move(RCX, At(RDI, 8 * _WHOLE))
    a.move(R14, RCX)
    a.shift(R14, -7)
    a.shift(R14, 7)
    a.read(_PART, At(RDI, 8 * _MASK))
    moving = {RSI: Argument.SRC, RDX: Argument.DST}
    moving |= {R9: Argument.SRC_1} if form.added else {}
    moving |= {R10: Argument.DST_1} if form.kept else {}
    fixed = {R8: Argument.SCALE, R11: Argument.SHIFT}
    for register, code in fixed.items():
        a.move(register, At(RDI, 8 * _PLACES[code]))
    claim = a.size
    a.move(RAX, At(RDI, 8 * _PIECE))
    a.move(R12, RAX)
    a.digits("f0480fc14718")  # lock xadd [rdi + 24], rax
    a.move(R13, At(RDI, 16))
    a.subtract(R13, RAX)
    a.compare_number(R13, 0)
    end = a.jump_if("at most")
    a.compare_whole(R13, R12)
    a.move_if_at_most(R12, R13)
    a.multiply(RAX, At(RDI, 8 * _ROW))
    for register, code in moving.items():
        a.move(register, At(RDI, 8 * _PLACES[code]))
        a.add(register, RAX)
    row = a.size
    _row(a, form)
    for register in moving:
        a.add(register, At(RDI, 8 * _ROW))
    a.add_number(R12, -1)
    a.jump_if("greater", row)
    a.repeat(claim)
    a.land(end)
    a.digits("c5f877" + POP + "31c0c3")  # vzeroupper; pop …; xor eax, eax; ret
    return a.code()


@functools.cache
def _address(library: Library, form: _Form) -> int:
    return placed(library, _code(form)) if library.isa & AVX2 else 0


def has_row_normalization(library: Library) -> bool:
    """Return whether there is such code here: it needs AVX2, and memory that can be executed."""
    return _address(library, _Form(centred=False, added=False, kept=False, scaled=True, shifted=False)) != 0


class RowNormalization(OwnCode):
    """Rows that are normalised, each by itself.

    Its arguments are the rows (``SRC``), what is added to them (``SRC_1``), that sum (``DST_1``), the result (``DST``),
    and a factor and a summand for each column (``SCALE``, ``SHIFT``); all are plain and of float32. The result may take
    the place of the rows.

    Args:
        library: The library, which has the code.
        arguments: Layouts by argument code, of rows with two dimensions.
        epsilon: Added to the variance or the mean square.
        centred: Whether the mean is subtracted.
    """

    __slots__ = ("_epsilon", "_length", "_second", "bound")

    def __init__(self, library: Library, arguments: Mapping[int, Desc], epsilon: float, *, centred: bool) -> None:
        form = _Form(
            centred,
            Argument.SRC_1 in arguments,
            Argument.DST_1 in arguments,
            Argument.SCALE in arguments,
            Argument.SHIFT in arguments,
        )
        rows, self._length = arguments[Argument.SRC].dims
        super().__init__(library, arguments, _address(library, form), "own:rows:avx2", rows)
        self._epsilon = epsilon
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

    def work(self, addresses: Mapping[int, int], threads: int = 1) -> Any:
        """See `OwnCode`."""
        work = ffi.new("intptr_t[]", _WORDS)
        for code, address in addresses.items():
            work[_PLACES[code]] = address
        work[2] = self._count
        work[_WHOLE] = self._length // _LANES * _BYTES
        work[_PIECE] = self._count if threads == 1 else -(-self._count // (_PIECES * threads))
        work[_ROW] = 4 * self._length
        numbers = ffi.cast("float *", work + _NUMBERS)
        numbers[0], numbers[1], numbers[2] = self._length, self._epsilon, 1.0
        for one in range(self._length % _LANES):
            ffi.cast("int32_t *", work + _MASK)[one] = -1
        return work

    def calls(self, addresses: Mapping[int, int], threads: int) -> Sequence[Call]:
        """See `OwnCode`."""
        prepare, *call = super().calls({code: addresses.get(code, 0) for code in (*_FIRST, *_SECOND)}, threads)
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
