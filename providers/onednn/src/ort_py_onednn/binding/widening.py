"""Pictures of bytes as numbers of 16 bits, less their zero point and with their padding, in machine code for AVX2.

What `integer_windows` multiplies. Channels lie innermost; behind few channels there are zeroes. Comes after `own_code`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ort_py_onednn.binding.assembler import R12, R13, R14, RAX, RBX, RCX, RDI, RDX, RSI, Assembler, At
from ort_py_onednn.binding.constants import Argument, Element
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.library import Library
from ort_py_onednn.binding.own_code import CLEAR, ENTER, LEAVE, OwnCode, placed

__all__ = ["CHANNELS", "Widening", "claim", "padded", "widening_code"]

CHANNELS = 4
"""Inputs are fewer, or a multiple of this: two pairs."""

_AT_SOURCE, _AT_TARGET, _AT_COUNT, _AT_ZERO, _AT_TABLE = (At(RDI, place) for place in (0, 8, 16, 32, 48))
_TOGETHER = 16
"""Numbers that a turn of the loop converts."""

_ABOVE, _HEIGHT, _FULL_HEIGHT, _LEFT, _WIDE, _RIGHT, _LINE, _READ_LINE, _ZEROES = range(0, 72, 8)
"""Places in the table of `Widening`: rows of padding above, of the picture and of all; 8 bytes of padding on the left,
numbers of a row, or its pixels where channels are few, 8 bytes on the right; bytes of a row that is written and of one
that is read; sixteen zero points."""


def claim(a: Assembler) -> int:
    """Append code that takes the next piece of work into rax; returns the jump for when none is left."""
    a.digits(
        "b801000000"  # mov eax, 1
        "f0480fc14718"  # lock xadd [rdi + 24], rax
    )
    a.compare_whole(RAX, _AT_COUNT)
    return a.jump_if("at least")


def padded(channels: int) -> int:
    """Channels that are held for so many."""
    return max(channels, CHANNELS)


def _widening_code(source: Element, channels: int, *, given: bool) -> bytes:
    """Code of ``void widen(struct { void *source; int16_t *target; int64_t count, next; void *zero, *, *table; } *)``.

    Args:
        source: The type of bytes.
        channels: How many there are where they are fewer than `CHANNELS`, else that number: then rows are converted as
            they lie, otherwise each pixel gets zeroes behind its channels.
        given: Whether the zero point is given in the run.
    """
    a = Assembler()
    a.digits(ENTER)
    a.move(R13, _AT_TABLE)
    a.move(RBX, RDI)
    _spread_zero(a, source, given=given)
    piece = a.size
    a.move(RDI, RBX)
    end = claim(a)
    a.move(R12, RAX)
    a.move(R14, At(RBX, _AT_TARGET.behind))
    a.multiply(RAX, At(R13, _LINE))
    a.add(R14, RAX)
    a.move(RAX, R12)
    a.digits("4899")  # cqo
    a.digits("49f7bd" + (_FULL_HEIGHT).to_bytes(4, "little").hex())  # idiv qword [r13 + all rows]
    a.subtract(RDX, At(R13, _ABOVE))
    a.move(RDI, R14)
    a.digits("4885d2")  # test rdx, rdx
    above = a.jump_if("less")
    a.compare_whole(RDX, At(R13, _HEIGHT))
    below = a.jump_if("at least")
    # A row of the picture: the source's rows are those of all pictures, one behind the other.
    a.multiply(RAX, At(R13, _HEIGHT))
    a.add(RAX, RDX)
    a.multiply(RAX, At(R13, _READ_LINE))
    a.add(RAX, At(RBX, _AT_SOURCE.behind))
    a.move(RSI, RAX)
    a.move(RCX, At(R13, _LEFT))
    a.digits("31c0f348ab")  # xor eax, eax; rep stosq
    a.move(RCX, At(R13, _WIDE))
    convert = 0x30 if source == Element.U8 else 0x20
    if channels < CHANNELS:
        _convert_pixels(a, convert, channels)
    else:
        _convert(a, convert)
    a.move(RCX, At(R13, _RIGHT))
    a.digits("f348abe9")  # rep stosq; jmp piece
    a.jump(piece)
    a.land(above)
    a.land(below)
    a.move(RCX, At(R13, _LINE))
    a.shift(RCX, -3)
    a.digits("31c0f348abe9")
    a.jump(piece)
    a.land(end)
    a.digits(CLEAR + LEAVE)
    return a.code()


def _spread_zero(a: Assembler, source: Element, *, given: bool) -> None:
    """Append code that fills register 1 with the zero point: of the table, or of a byte that is given in the run."""
    if not given:
        a.read(1, At(R13, _ZEROES))
        return
    a.move(RAX, _AT_ZERO)
    a.digits("0fb600" if source == Element.U8 else "0fbe00")  # movzx or movsx eax, byte [rax]
    a.digits("c5f96ec8")  # vmovd xmm1, eax
    a.vex(1, 2, 0x79, 1, None, 1)  # vpbroadcastw


def _convert_pixels(a: Assembler, convert: int, channels: int) -> None:
    """Append code that converts rcx pixels of so many channels by an instruction with this opcode."""
    pixel = a.size
    a.do("vxorps", 0, 0, 0)
    for channel in range(channels):
        a.insert(0, At(RSI, channel), channel)
    a.vex(1, 2, convert, 0, None, 0)
    a.do("vpsubw", 0, 0, 1)
    a.half("write8", 0, At(RDI))
    a.add_number(RSI, channels)
    a.add_number(RDI, 2 * CHANNELS)
    a.add_number(RCX, -1)
    a.jump_if("unequal", pixel)


def _convert(a: Assembler, convert: int) -> None:
    """Append code that converts rcx numbers, a multiple of four, by an instruction with this opcode."""
    a.set_number(RDX, _TOGETHER)
    a.compare_whole(RCX, RDX)
    none = a.jump_if("less")
    many = a.size
    a.vex(1, 2, convert, 0, None, At(RSI))  # vpmovzxbw or vpmovsxbw
    a.do("vpsubw", 0, 0, 1)
    a.write(0, At(RDI))
    a.add_number(RSI, _TOGETHER)
    a.add_number(RDI, 2 * _TOGETHER)
    a.add_number(RCX, -_TOGETHER)
    a.compare_whole(RCX, RDX)
    a.jump_if("at least", many)
    a.land(none)
    a.digits("4885c9")  # test rcx, rcx
    even = a.jump_if("equal")
    few = a.size
    a.half("read4", 0, At(RSI))
    a.vex(1, 2, convert, 0, None, 0)
    a.do("vpsubw", 0, 0, 1)
    a.half("write8", 0, At(RDI))
    a.add_number(RSI, 4)
    a.add_number(RDI, 8)
    a.add_number(RCX, -4)
    a.jump_if("unequal", few)
    a.land(even)


@functools.cache
def widening_code(library: Library, source: Element, channels: int, *, given: bool) -> int:
    """Address of the code; 0 where the CPU has no AVX2 or the system allows no executable memory."""
    return placed(library, _widening_code(source, min(channels, CHANNELS), given=given))


class Widening(OwnCode):
    """A picture of bytes as numbers of 16 bits, less a zero point, with zeroes around it.

    Args:
        library: The library.
        source: Its layout: (pictures, channels, height, width) with channels innermost.
        pads: Rows and columns of zeroes: above, on the left, below, on the right.
        zero: The zero point; None where it is given in the run, as a byte of the picture's type. There are at least
            `CHANNELS` channels then.
    """

    __slots__ = ("bound", "table")

    def __init__(self, library: Library, source: Desc, pads: Sequence[int], zero: int | None) -> None:
        count, channels, height, width = source.dims
        above, left, below, right = pads
        full = above + height + below, left + width + right
        held = padded(channels)
        target = Desc.plain((count, *full, held // 2), Element.S32)
        eighth = held // CHANNELS
        numbers = width if channels < CHANNELS else width * channels
        sizes = (above, height, full[0], left * eighth, numbers, right * eighth)
        lines = full[1] * held * 2, width * channels
        zeroes = np.where(np.arange(16) % held < channels, zero or 0, 0).astype(np.int16)
        self.table = np.concatenate([np.array([*sizes, *lines], np.int64).view(np.int32), zeroes.view(np.int32)])
        table = Desc.plain(self.table.shape, Element.S32)
        arguments = {Argument.SRC: source, Argument.SRC_1: table, Argument.DST: target}
        code = widening_code(library, source.dtype, channels, given=zero is None)
        self.bound = OwnCode.bound
        if zero is None:
            place = Argument.zero_points(Argument.SRC)
            arguments[place] = Desc.plain((1,), source.dtype)
            self.bound = (*self.bound, (3, place))
        super().__init__(library, arguments, code, "own:widening:avx2", count * full[0])

    def work(self, addresses: Mapping[int, int], threads: int = 1) -> Any:
        """See `OwnCode`."""
        work = super().work(addresses)
        work[6] = addresses[Argument.SRC_1]
        return work
