"""Numbers made bytes with a scale that follows from their range, in machine code for AVX2: one call a row.

oneDNN takes a primitive for the largest number, one for the least, some for scale and zero point, and one for the
bytes, at half a microsecond and more each: ten times as long as all of this takes for a row of a few hundred numbers.
The range always holds 0. Divisions and roundings are those of the primitives, so bytes, scales and zero points are the
same. Maxima lose NaN and raise the processor's flag. Comes after `own_code`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from ort_py_onednn.binding.assembler import R9, R10, R11, RAX, RCX, RDI, RDX, RSI, Assembler, At
from ort_py_onednn.binding.constants import F32, Argument, Element
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.hazards import Hazards
from ort_py_onednn.binding.instructions import AVX2
from ort_py_onednn.binding.library import Library
from ort_py_onednn.binding.own_code import BEGIN, OwnCode, placed

__all__ = [
    "SCALE",
    "ZERO",
    "DynamicQuantization",
    "add_bytes",
    "add_range",
    "add_scale_and_zero",
    "has_dynamic_quantization",
]

_AT_ONCE = 8
"""Numbers of a register: the least length of a row."""

_MOST = 255
_LENGTH = At(RDI, 16)
"""Place of the length of a row."""

_ROWS = 5
"""Word of the work that counts rows."""

_X, _LOW, SCALE, _OTHER, ZERO = 0, 1, 2, 3, 4
"""Registers, all of the first five. The first one holds the largest numbers, and then those that are made bytes; scale
and zero point are there eight times."""

_EQUAL = 0
"""Kind of a comparison that raises no flag."""


def _go_on(a: Assembler, again: int, pointers: Mapping[int, int]) -> None:
    """Go back for the next eight numbers, if there are any. The last eight of a row may overlap those before them: some
    are then computed twice.

    Args:
        again: Where to go.
        pointers: Registers that are eight numbers further on, and the binary logarithm of the bytes of a number.
    """
    a.add_number(RCX, -_AT_ONCE)
    done = a.jump_if("equal")
    a.compare_number(RCX, _AT_ONCE)
    a.jump_if("at least", again)
    a.add_number(RCX, -_AT_ONCE)
    for pointer, shift in pointers.items():
        if not shift:
            a.add(pointer, RCX)
    for pointer, shift in pointers.items():
        if shift:
            a.shift(RCX, shift)
            a.add(pointer, RCX)
    a.set_number(RCX, _AT_ONCE)
    a.repeat(again)
    a.land(done)


def add_range(a: Assembler, length: At) -> None:
    """Append code that finds the largest of the numbers from rsi on and the least one, or 0; changes rax and rcx."""
    a.do("vxorps", _X, _X, _X)
    a.do("vxorps", _LOW, _LOW, _LOW)
    a.move(RAX, RSI)
    a.move(RCX, length)
    again = a.size
    a.do("vmaxps", _X, _X, At(RAX))
    a.do("vminps", _LOW, _LOW, At(RAX))
    a.add_number(RAX, 4 * _AT_ONCE)
    _go_on(a, again, {RAX: 2})
    a.fold("vmaxps", _X, _OTHER)
    a.fold("vminps", _LOW, _OTHER)


def add_scale_and_zero(a: Assembler, tiny: float) -> None:
    """Append code that finds the scale and the zero point of what `add_range` found, in `SCALE` and `ZERO`."""
    a.do("vsubps", SCALE, _X, _LOW)
    a.do("vdivps", SCALE, SCALE, a.number(_MOST))
    a.do("vxorps", _OTHER, _OTHER, _OTHER)
    if tiny:
        a.do("vmaxps", SCALE, SCALE, a.number(tiny))
    else:
        a.compare(_X, SCALE, _OTHER, _EQUAL)
        a.choose(SCALE, SCALE, a.number(1), _X)
    a.do("vdivps", ZERO, _LOW, SCALE)
    a.do("vsubps", ZERO, _OTHER, ZERO)
    a.round(ZERO, ZERO)
    a.do("vminps", ZERO, ZERO, a.number(_MOST))


def add_bytes(a: Assembler, length: At) -> None:
    """Append code that writes the numbers from rsi on as bytes from rdx on; changes rcx, rsi and rdx."""
    a.move(RCX, length)
    again = a.size
    a.read(_X, At(RSI))
    a.do("vdivps", _X, _X, SCALE)
    a.round(_X, _X)
    a.do("vaddps", _X, _X, ZERO)
    a.change("vcvtps2dq", _X, _X)
    a.exchange_halves(_OTHER, _X)
    a.do("vpackssdw", _X, _X, _OTHER)
    a.do("vpackuswb", _X, _X, _X)
    a.half("write8", _X, At(RDX))
    a.add_number(RSI, 4 * _AT_ONCE)
    a.add_number(RDX, _AT_ONCE)
    _go_on(a, again, {RSI: 2, RDX: 0})


def _code(tiny: float) -> bytes:
    """Code of ``void quantize(struct work *)`` (`own_code`).

    Args:
        tiny: The least scale; with 0, a range of nothing has the scale 1.
    """
    a = Assembler()
    a.digits(BEGIN)
    a.digits("4c8d05")  # lea r8, [constants]
    constants = a.jump()
    a.move(RSI, At(RDI))
    a.move(RDX, At(RDI, 8))
    a.move(R9, At(RDI, 32))  # scales, and behind them the zero points
    a.move(R10, At(RDI, 8 * _ROWS))
    a.move(R11, R10)
    a.shift(R11, 2)
    a.add(R11, R9)
    row = a.size
    add_range(a, _LENGTH)
    add_scale_and_zero(a, tiny)
    a.half("write4", SCALE, At(R9))
    a.half("write4", ZERO, At(R11))
    add_bytes(a, _LENGTH)
    a.add_number(R9, 4)
    a.add_number(R11, 4)
    a.add_number(R10, -1)
    a.jump_if("greater", row)
    a.digits("c5f87731c0c3")  # vzeroupper; xor eax, eax; ret
    return a.finished(constants)


@functools.cache
def _address(library: Library, tiny: float) -> int:
    return placed(library, _code(tiny)) if library.isa & AVX2 else 0


def has_dynamic_quantization(library: Library, size: int) -> bool:
    """Return whether there is code here for rows of so many numbers."""
    return size >= _AT_ONCE and _address(library, 0.0) != 0


class DynamicQuantization(OwnCode):
    """Rows of numbers made bytes, each row with a scale and a zero point of its own.

    Its arguments are the numbers (``SRC``), the bytes (``DST``), and (``DST_1``) the scales of all rows with their zero
    points behind them, both of float32.

    Args:
        library: The library, which has code for such rows.
        rows, size: The shape.
        tiny: The least scale; with 0, a range of nothing has the scale 1.
    """

    __slots__ = ("_rows",)

    bound = ((1, Argument.SRC), (2, Argument.DST), (3, Argument.DST_1))
    hazards = Hazards(clamps=True, idle=False, overflows=False, leftovers=False, silent=False)

    def __init__(self, library: Library, rows: int, size: int, tiny: float = 0.0) -> None:
        arguments = {
            Argument.SRC: Desc.plain((rows, size), F32),
            Argument.DST: Desc.plain((rows, size), Element.U8),
            Argument.DST_1: Desc.plain((2, rows), F32),
        }
        super().__init__(library, arguments, _address(library, tiny), "own:range:avx2", size)
        self._rows = rows

    @property
    def reach(self) -> tuple[tuple[int, int, int, bool], ...]:
        """See `OwnCode`."""
        return tuple((code, *desc.reach, code in Argument.WRITTEN) for code, desc in self.arguments.items())

    def work(self, addresses: Mapping[int, int], threads: int = 1) -> Any:
        """See `OwnCode`."""
        work = super().work(addresses, threads)
        work[_ROWS] = self._rows
        return work
