"""Normalisations of rows of float32 in machine code for AVX2: by the mean and the variance, or by the root mean square.

oneDNN has one primitive for the first, which takes half a microsecond for the shortest row, and none for the second:
six primitives of a third of a microsecond each. Here it is one call, which also adds a second tensor in front where
there is one. A row is read two or three times while it is in the first-level cache, the variance is the mean of squares
of what is left without the mean, the mean of what is left corrects the mean, and each row is computed by one thread.
Four sums of eight numbers are added side by side. NaN and infinities make of a row what the definition makes of it.
Comes after `own_rows`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
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
from ort_py_onednn.binding.constants import Argument
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.instructions import AVX2
from ort_py_onednn.binding.library import Library
from ort_py_onednn.binding.own_code import CLEAR, ENTER, LEAVE, placed
from ort_py_onednn.binding.own_rows import (
    BYTES,
    MASK,
    NUMBERS,
    PART,
    PLACES,
    ROW,
    WHOLE,
    OwnRows,
    claim,
    part_of,
    read,
    write,
)

__all__ = ["RowNormalization", "has_row_normalization"]

_TOGETHER, _LEFT = 4, 8
"""Registers that are read side by side, each with a sum of its own; and the first of those with sums of what is left
without the mean, which tell what it is wrong by."""

_MEAN, _FACTOR, _OTHER = 12, 13, 14
"""Registers: the mean of a row, what its numbers are multiplied by, and one for what comes and goes."""


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
        part(a, one, BYTES * one, False)
    a.add_number(RAX, BYTES * _TOGETHER)
    a.compare_whole(RAX, R14)
    a.jump_if("less", again)
    a.land(few)
    part_of(a, lambda a, partly: part(a, int(partly), 0, partly), At(RDI, 8 * ROW))


def _total(a: Assembler, target: int, sums: int = 0) -> None:
    """Append code for the mean of a row out of the four sums, in all places of a register."""
    for one, other in ((0, 1), (2, 3), (0, 2)):
        a.do("vaddps", sums + one, sums + one, sums + other)
    a.fold("vaddps", sums, sums + 1)
    a.spread(sums + 1, At(RDI, 8 * NUMBERS))
    a.do("vdivps", target, sums, sums + 1)


def _sums(a: Assembler, part: _Part, target: int) -> None:
    """Append code that adds something of each number of a row, and divides by their count."""
    for one in (*range(_TOGETHER), *range(_LEFT, _LEFT + _TOGETHER)):
        a.do("vxorps", one, one, one)
    _all(a, part)
    _total(a, target)


def _row(a: Assembler, form: _Form) -> None:
    """Append code for a row: what is normalised is at r13, which is where it is read first but for a sum."""

    def first(a: Assembler, lane: int, behind: int, partly: bool) -> None:
        value = 4 + lane
        read(a, value, At(RSI, behind, RAX), partly)
        if form.added:
            read(a, 8 + lane, At(R9, behind, RAX), partly)
            a.do("vaddps", value, value, 8 + lane)
            write(a, value, At(R13, behind, RAX), partly)
        if form.centred:
            a.do("vaddps", lane, lane, value)
        else:
            a.do("vfmadd231ps", lane, value, value)

    def squares(a: Assembler, lane: int, behind: int, partly: bool) -> None:
        value = 4 + lane
        read(a, value, At(R13, behind, RAX), partly)
        a.do("vsubps", value, value, _MEAN)
        if partly:
            a.do("vandps", value, value, PART)
        a.do("vfmadd231ps", lane, value, value)
        a.do("vaddps", _LEFT + lane, _LEFT + lane, value)

    def result(a: Assembler, lane: int, behind: int, partly: bool) -> None:
        value = 4 + lane
        read(a, value, At(R13, behind, RAX), partly)
        if form.centred:
            a.do("vsubps", value, value, _MEAN)
        a.do("vmulps", value, value, _FACTOR)
        if form.scaled:
            read(a, 8 + lane, At(R8, behind, RAX), partly)
            a.do("vmulps", value, value, 8 + lane)
        if form.shifted:
            read(a, 8 + lane, At(R11, behind, RAX), partly)
            a.do("vaddps", value, value, 8 + lane)
        write(a, value, At(RDX, behind, RAX), partly)

    a.move(R13, (R10 if form.kept else RDX) if form.added else RSI)
    _sums(a, first, _MEAN)
    if form.centred:
        _sums(a, squares, _FACTOR)
        # The first mean is as exact as a sum of all numbers; this one, as a number can be.
        _total(a, _OTHER, _LEFT)
        a.do("vaddps", _MEAN, _MEAN, _OTHER)
    else:
        a.load(_FACTOR, _MEAN)
    a.spread(_OTHER, At(RDI, 8 * NUMBERS + 4))
    a.do("vaddps", _FACTOR, _FACTOR, _OTHER)
    a.root(_FACTOR, _FACTOR)
    a.spread(_OTHER, At(RDI, 8 * NUMBERS + 8))
    a.do("vdivps", _FACTOR, _OTHER, _FACTOR)
    _all(a, result)


def _code(form: _Form) -> bytes:
    """Code of ``void normalize(struct work *)`` (`own_code`): threads take several rows at once."""
    a = Assembler()
    a.digits(ENTER)
    a.move(RCX, At(RDI, 8 * WHOLE))
    a.move(R14, RCX)
    a.shift(R14, -7)
    a.shift(R14, 7)
    a.read(PART, At(RDI, 8 * MASK))
    moving = {RSI: Argument.SRC, RDX: Argument.DST}
    moving |= {R9: Argument.SRC_1} if form.added else {}
    moving |= {R10: Argument.DST_1} if form.kept else {}
    fixed = {R8: Argument.SCALE, R11: Argument.SHIFT}
    for register, code in fixed.items():
        a.move(register, At(RDI, 8 * PLACES[code]))
    again = a.size
    end = claim(a)
    a.multiply(RAX, At(RDI, 8 * ROW))
    for register, code in moving.items():
        a.move(register, At(RDI, 8 * PLACES[code]))
        a.add(register, RAX)
    row = a.size
    _row(a, form)
    for register in moving:
        a.add(register, At(RDI, 8 * ROW))
    a.add_number(R12, -1)
    a.jump_if("greater", row)
    a.repeat(again)
    a.land(end)
    a.digits(CLEAR + LEAVE)
    return a.code()


@functools.cache
def _address(library: Library, form: _Form) -> int:
    return placed(library, _code(form)) if library.isa & AVX2 else 0


def has_row_normalization(library: Library) -> bool:
    """Return whether there is such code here: it needs AVX2, and memory that can be executed."""
    return _address(library, _Form(centred=False, added=False, kept=False, scaled=True, shifted=False)) != 0


class RowNormalization(OwnRows):
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

    __slots__ = ("_epsilon",)

    def __init__(self, library: Library, arguments: Mapping[int, Desc], epsilon: float, *, centred: bool) -> None:
        form = _Form(
            centred,
            Argument.SRC_1 in arguments,
            Argument.DST_1 in arguments,
            Argument.SCALE in arguments,
            Argument.SHIFT in arguments,
        )
        rows, length = arguments[Argument.SRC].dims
        super().__init__(library, arguments, _address(library, form), "own:rows:avx2", rows, length)
        self._epsilon = epsilon

    def work(self, addresses: Mapping[int, int], threads: int = 1) -> Any:
        """See `OwnCode`."""
        work = super().work(addresses, threads)
        numbers = ffi.cast("float *", work + NUMBERS)
        numbers[0], numbers[1], numbers[2] = self._length, self._epsilon, 1.0
        return work
