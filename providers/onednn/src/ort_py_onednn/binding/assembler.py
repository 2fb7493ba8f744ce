"""An assembler of a few AVX2 instructions, so that a function of eight numbers can be read where it stands.

Registers are numbers: those of 256 bits from 0 to 15. Constants are the same number eight times; they stand behind the
code, and the register R8 holds their address. Each method that is named like an instruction appends that one. What it
makes is bytes; it does not run them.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from typing import TypeAlias

from ort_py.light_tuple import NamedTuple

__all__ = [
    "R8",
    "R9",
    "R10",
    "R11",
    "R12",
    "R13",
    "R14",
    "R15",
    "RAX",
    "RBP",
    "RBX",
    "RCX",
    "RDI",
    "RDX",
    "RSI",
    "RSP",
    "Assembler",
    "At",
    "Constant",
    "Source",
]

_WIDTH = 32
"""Bytes of a register."""

RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15 = range(16)
"""Numbers of registers of 64 bits, which hold addresses and counts."""

_CONDITIONS = {"less": 0x8C, "at least": 0x8D, "at most": 0x8E, "greater": 0x8F, "equal": 0x84, "unequal": 0x85}
"""Second bytes of jumps, by what a comparison of signed numbers said."""

_OPCODES = {
    "vandps": (0, 1, 0x54),
    "vorps": (0, 1, 0x56),
    "vaddps": (0, 1, 0x58),
    "vmulps": (0, 1, 0x59),
    "vsubps": (0, 1, 0x5C),
    "vdivps": (0, 1, 0x5E),
    "vmaxps": (0, 1, 0x5F),
    "vminps": (0, 1, 0x5D),
    "vpackssdw": (1, 1, 0x6B),
    "vpacksswb": (1, 1, 0x63),
    "vpackuswb": (1, 1, 0x67),
    "vpaddd": (1, 1, 0xFE),
    "vpaddw": (1, 1, 0xFD),
    "vpmaddubsw": (1, 2, 0x04),
    "vpmaddwd": (1, 1, 0xF5),
    "vpsubd": (1, 1, 0xFA),
    "vpsubw": (1, 1, 0xF9),
    "vpermd": (1, 2, 0x36),
    "vpminsd": (1, 2, 0x39),
    "vxorps": (0, 1, 0x57),
    "vfmadd213ps": (1, 2, 0xA8),
    "vfmaddsub213ps": (1, 2, 0xA6),
    "vfmadd231ps": (1, 2, 0xB8),
    "vfnmadd231ps": (1, 2, 0xBC),
    "vhaddps": (3, 1, 0x7C),
}
"""Prefix, map and opcode of instructions of three operands: 66 is prefix 1, F2 prefix 3; 0F, 0F38 and 0F3A are maps 1
to 3."""


_256_BITS, _512_BITS = 0x20, 0x40
"""Lengths of registers, as the prefix of four bytes has them."""

_WIDE = {
    "vaddps": (0, 1, 0x58),
    "vmulps": (0, 1, 0x59),
    "vpandd": (1, 1, 0xDB),
    "vpxord": (1, 1, 0xEF),
    "vpdpbusd": (1, 2, 0x50),
    "vpermps": (1, 2, 0x16),
    "vfmadd231ps": (1, 2, 0xB8),
}
"""The same of instructions on 512 bits."""

_WIDE_MOVES = {
    "read": (0, 1, 0x10),
    "write": (0, 1, 0x11),
    "vcvtdq2ps": (0, 1, 0x5B),
    "widen": (1, 2, 0x21),
    "spread": (1, 2, 0x58),
}
"""The same of instructions of one source: vmovups from and to memory, vpmovsxbd, which makes words of bytes, and
vpbroadcastd from memory."""

_HALVES = {
    "read16": (0, 0x10),
    "read8": (2, 0x7E),
    "read4": (1, 0x6E),
    "write16": (0, 0x11),
    "write8": (1, 0xD6),
    "write4": (2, 0x11),
}
"""Prefix and opcode of instructions on 128 bits and memory. Prefix 2 is F3."""


class Constant(int):
    """A constant, by the place of its first byte behind the code."""


class At(NamedTuple):
    """Numbers in memory: so many bytes behind what a register points to.

    Attributes:
        base: The register.
        behind: How many.
        along: A register whose bytes are added, one of the first eight but the fourth; None for none.
    """

    base: int
    behind: int = 0
    along: int | None = None

    @property
    def named(self) -> int:
        """The register that the byte of an instruction names, by its lower three bits; the fourth says that `_behind`
        begins with one more byte."""
        return self.base if self.along is None else self.base & 8 | RSP


Source: TypeAlias = "int | Constant | At"
"""A register, a constant, or numbers in memory."""


def _behind(place: At) -> bytes:
    """The bytes behind the one that names a register and memory: an index and a distance.

    The fourth register of each eight stands for a byte with the base and an index; as an index it is none.
    """
    distance = struct.pack("<i", place.behind)
    if place.along is None and place.base & 7 != RSP:
        return distance
    index = RSP if place.along is None else place.along
    return bytes((index << 3 | place.base & 7,)) + distance


class Assembler:
    """Code while it is written."""

    def __init__(self) -> None:
        self._code = bytearray()
        self._constants: dict[bytes, Constant] = {}
        self._first = 0
        self._ends: list[int] = []

    def digits(self, text: str) -> None:
        """Append bytes that are written in hexadecimal digits."""
        self._code += bytes.fromhex(text)

    @property
    def size(self) -> int:
        """Bytes of code so far."""
        return len(self._code)

    def code(self) -> bytes:
        """The code so far."""
        return bytes(self._code)

    def twice(self, write: Callable[[Assembler], None], registers: int) -> None:
        """Append instructions twice, in turns: once as they are, and once with other registers.

        They are independent, so that a processor has something to do while it waits for a result.

        Args:
            write: Appends instructions, none of them a jump.
            registers: Number of registers that they use, from 0 on.
        """
        whole, streams = self._code, []
        for first in (0, registers):
            self._code, self._first, self._ends = bytearray(), first, [0]
            write(self)
            streams.append([self._code[start:end] for start, end in itertools.pairwise(self._ends)])
        self._code, self._first = whole, 0
        for pair in zip(*streams, strict=True):
            self._code += b"".join(pair)

    def jump(self, target: int = 0) -> int:
        """Append the distance to a place, where an instruction of a jump wants it; returns where the distance is."""
        place = len(self._code)
        self._code += struct.pack("<i", target - place - 4)
        return place

    def land(self, jump: int) -> None:
        """Let a jump end here."""
        self._code[jump : jump + 4] = struct.pack("<i", len(self._code) - jump - 4)

    def number(self, value: float) -> Constant:
        """A constant of float32."""
        return self._constant(struct.pack("<f", value))

    def word(self, value: int) -> Constant:
        """A constant of 32 bits."""
        return self._constant(struct.pack("<I", value))

    def table(self, words: tuple[int, ...]) -> Constant:
        """Several words that stand one behind the other."""
        return self._constant(struct.pack(f"<{len(words)}I", *words), times=1)

    def finished(self, constants: int) -> bytes:
        """The code with its constants behind it.

        Args:
            constants: Where the distance to the constants is.
        """
        self._code += b"\xcc" * (-len(self._code) % _WIDTH)
        self.land(constants)
        return bytes(self._code) + b"".join(self._constants)

    def do(self, name: str, target: int, first: int, second: Source) -> None:
        """Append an instruction of a target and two sources."""
        self.vex(*_OPCODES[name], target, first, second)

    def load(self, target: int, source: Source) -> None:
        """Append vmovaps."""
        self.vex(0, 1, 0x28, target, None, source)

    def shift_left(self, target: int, source: int, count: int) -> None:
        """Append vpslld."""
        self.vex(1, 1, 0x72, 6 - self._first, target, source, count)  # 6 belongs to the opcode

    def shift_right(self, target: int, source: int, count: int) -> None:
        """Append vpsrad, which keeps the sign."""
        self.vex(1, 1, 0x72, 4 - self._first, target, source, count)  # 4 belongs to the opcode

    def shift_down(self, target: int, source: int, count: int) -> None:
        """Append vpsrld: zeroes come in from above."""
        self.vex(1, 1, 0x72, 2 - self._first, target, source, count)  # 2 belongs to the opcode

    def widen(self, target: int, source: At) -> None:
        """Append vpmovsxbd from memory: eight bytes with a sign become words."""
        self._memory(1, 2, 0x21, target, None, source)

    def compare(self, target: int, first: int, second: Source, kind: int) -> None:
        """Append vcmpps."""
        self.vex(0, 1, 0xC2, target, first, second, kind)

    def choose(self, target: int, otherwise: int, chosen: Source, where: int) -> None:
        """Append vblendvps: elements of `chosen` where the sign of `where` is set."""
        self.vex(1, 3, 0x4A, target, otherwise, chosen, where + self._first << 4)

    def polynomial(self, target: int, argument: int, coefficients: tuple[Source, ...]) -> None:
        """Append a load and multiplications with additions: the last coefficient is that of the highest power."""
        self.load(target, coefficients[-1])
        for one in reversed(coefficients[:-1]):
            self.do("vfmadd213ps", target, argument, one)

    def read(self, target: int, source: At) -> None:
        """Append vmovups from memory."""
        self._memory(0, 1, 0x10, target, None, source)

    def write(self, source: int, target: At) -> None:
        """Append vmovups to memory."""
        self._memory(0, 1, 0x11, source, None, target)

    def spread(self, target: int, source: At) -> None:
        """Append vbroadcastss from memory."""
        self._memory(1, 2, 0x18, target, None, source)

    def read_part(self, target: int, mask: int, source: At) -> None:
        """Append vmaskmovps from memory."""
        self._memory(1, 2, 0x2C, target, mask, source)

    def write_part(self, source: int, mask: int, target: At) -> None:
        """Append vmaskmovps to memory."""
        self._memory(1, 2, 0x2E, source, mask, target)

    def change(self, name: str, target: int, source: int) -> None:
        """Append an instruction of a target and one source, both registers: ``vcvtdq2ps`` or ``vcvtps2dq``."""
        self.vex({"vcvtdq2ps": 0, "vcvtps2dq": 1}[name], 1, 0x5B, target, None, source)

    def root(self, target: int, source: int) -> None:
        """Append vsqrtps."""
        self.vex(0, 1, 0x51, target, None, source)

    def half(self, name: str, register: int, place: At) -> None:
        """Append an instruction on the lower 128 bits of a register and memory; see `_HALVES`.

        The number says how many bytes are written or read.
        """
        prefix, opcode = _HALVES[name]
        self._memory(prefix, 1, opcode, register, None, place, whole=False)

    def round(self, target: int, source: int) -> None:
        """Append vroundps: to the nearest whole numbers, halves to even ones."""
        self.vex(1, 3, 0x08, target, None, source, 0)

    def exchange(self, target: int, source: int) -> None:
        """Append vpshufd on 128 bits: the two words in the middle change places."""
        self._append(1, 1, 0x70, target, None, source, 0xC0, b"", 0xD8, whole=False)

    def upper(self, target: int, source: int) -> None:
        """Append vpsrldq on 128 bits: the upper eight bytes are moved to the lower ones."""
        self._append(1, 1, 0x73, 3 - self._first, target, source, 0xC0, b"", 8, whole=False)

    def add_dots(self, target: int, first: int, second: At, *, short: bool) -> None:
        """Append vpdpbusd: sums of four products of an unsigned and a signed byte are added to each word.

        Args:
            target: The register of the sums.
            first: That of the unsigned bytes.
            second: The signed bytes.
            short: Whether to use the form of AVX-VNNI, else that of AVX512-VNNI with AVX512-VL.
        """
        if short:
            self._memory(1, 2, 0x50, target, first, second)
            return
        self._evex(1, 2, 0x50, target, first, second, length=_256_BITS)

    def insert(self, register: int, source: At, place: int) -> None:
        """Append vpinsrb from memory, into the lower 128 bits."""
        self._memory(1, 3, 0x20, register, register, source, place, whole=False)

    def exchange_halves(self, target: int, source: int) -> None:
        """Append vperm2f128: the halves of 128 bits change places."""
        self.join_halves(target, source, source, 0x01)

    def join_halves(self, target: int, first: int, second: int, which: int) -> None:
        """Append vperm2f128; 0x20 takes both lower halves, 0x31 both upper ones."""
        self.vex(1, 3, 0x06, target, first, second, which)

    def turn(self, target: int, source: int, order: int) -> None:
        """Append vpermilps: numbers of each half in an order of four times two bits."""
        self.vex(1, 3, 0x04, target, None, source, order)

    def fold(self, name: str, register: int, other: int) -> None:
        """Append code that combines all eight numbers of a register, and leaves the result in all of them.

        Args:
            name: Of an instruction of three operands.
            register: The register.
            other: One that it may change.
        """
        self.exchange_halves(other, register)
        self.do(name, register, register, other)
        for order in (0x4E, 0xB1):
            self.turn(other, register, order)
            self.do(name, register, register, other)

    # Registers of 512 bits --------------------------------------------------------------------------------------------

    def wide(self, name: str, target: int, first: int, second: At | int, *, spread: bool = False) -> None:
        """Append an instruction of a target and two sources on 512 bits; see `_WIDE`.

        Args:
            name: Of the instruction.
            target, first: Registers.
            second: A register, or memory.
            spread: Whether one number in memory stands for all sixteen.
        """
        self._evex(*_WIDE[name], target, first, second, spread=spread)

    def wide_move(self, name: str, register: int, other: At | int) -> None:
        """Append an instruction of two places on 512 bits; see `_WIDE_MOVES`."""
        self._evex(*_WIDE_MOVES[name], register, None, other)

    def wide_shift(self, way: str, target: int, source: int, count: int) -> None:
        """Append a shift of words on 512 bits: vpslld to the left, vpsrld to the right, or vpsrad with the sign."""
        self._evex(1, 1, 0x72, {"right": 2, "signed": 4, "left": 6}[way], target, source)
        self._code.append(count)

    def _evex(
        self,
        prefix: int,
        table: int,
        opcode: int,
        register: int,
        first: int | None,
        second: At | int,
        *,
        spread: bool = False,
        length: int = _512_BITS,
    ) -> None:
        """Append an instruction with a prefix of four bytes, which has thirty-two registers."""
        at = second if isinstance(second, At) else None
        base = second if at is None else at.named
        assert isinstance(base, int)
        upper = 0 if at is not None else base >> 4
        extended = (~register >> 3 & 1) << 7 | (~upper & 1) << 6 | (~base >> 3 & 1) << 5 | (~register >> 4 & 1) << 4
        source = 0 if first is None else first
        last = length | spread << 4 | (~source >> 4 & 1) << 3
        head = (0x62, extended | table, (~source & 15) << 3 | 1 << 2 | prefix, last, opcode)
        self._code += bytes((*head, (0xC0 if at is None else 0x80) | (register & 7) << 3 | base & 7))
        if at is not None:
            self._code += _behind(at)

    # Registers of 64 bits ---------------------------------------------------------------------------------------------

    def move(self, target: int, source: At | int) -> None:
        """Append mov to a register, from memory or from another one."""
        self._general(0x8B, target, source)

    def keep(self, source: int, target: At) -> None:
        """Append mov to memory."""
        self._general(0x89, source, target)

    def add(self, target: int, source: At | int) -> None:
        """Append add."""
        self._general(0x03, target, source)

    def subtract(self, target: int, source: At | int) -> None:
        """Append sub."""
        self._general(0x2B, target, source)

    def multiply(self, target: int, source: At | int) -> None:
        """Append imul."""
        self._general(0x0FAF, target, source)

    def take_number(self, register: int, place: At) -> None:
        """Append lock xadd: memory is increased by a register, which gets what was there before."""
        self._code.append(0xF0)
        self._general(0x0FC1, register, place)

    def divide(self, divisor: At) -> None:
        """Append cqo and idiv: rax becomes the quotient, rdx the remainder."""
        self._code += b"\x48\x99"
        self._general(0xF7, 7, divisor)

    def move_if_at_most(self, target: int, source: int) -> None:
        """Append cmovle."""
        self._general(0x0F4E, target, source)

    def compare_number(self, first: int, number: int) -> None:
        """Append cmp with a number of 32 bits."""
        self._general(0x81, 7, first)
        self._code += struct.pack("<i", number)

    def repeat(self, target: int) -> None:
        """Append a jump that is always made, back to a place."""
        self._code.append(0xE9)
        self.jump(target)

    def compare_whole(self, first: int, second: At | int) -> None:
        """Append cmp."""
        self._general(0x3B, first, second)

    def fetch(self, place: At) -> None:
        """Append prefetcht0: memory that is read soon."""
        self._code += bytes((0x40 | place.base >> 3, 0x0F, 0x18, 0x80 | 1 << 3 | place.named & 7)) + _behind(place)

    def set_number(self, target: int, number: int) -> None:
        """Append mov of a number of 32 bits."""
        self._general(0xC7, 0, target)
        self._code += struct.pack("<i", number)

    def add_number(self, target: int, number: int) -> None:
        """Append add of a number of 32 bits."""
        self._general(0x81, 0, target)
        self._code += struct.pack("<i", number)

    def shift(self, target: int, count: int) -> None:
        """Append shl, or sar where the count is negative."""
        self._general(0xC1, 4 if count > 0 else 7, target)
        self._code.append(abs(count))

    def jump_always(self) -> int:
        """Append a jump that is always made; see `jump`."""
        self._code.append(0xE9)
        return self.jump()

    def jump_unless_zero(self, word: At) -> int:
        """Append a comparison of 32 bits in memory with zero, and a jump where they are not; see `jump`."""
        self._code += bytes((0x40 | word.base >> 3, 0x83, 0x80 | 7 << 3 | word.named & 7)) + _behind(word) + b"\x00"
        return self.jump_if("unequal")

    def jump_if(self, condition: str, target: int = 0) -> int:
        """Append a jump where the last comparison said so; see `jump`."""
        self._code += bytes((0x0F, _CONDITIONS[condition]))
        return self.jump(target)

    def _general(self, opcode: int, register: int, other: At | int) -> None:
        at = other if isinstance(other, At) else None
        base = other if at is None else at.named
        assert isinstance(base, int)
        self._code.append(0x48 | (register >> 3) << 2 | base >> 3)
        self._code += opcode.to_bytes(2 if opcode > 0xFF else 1, "big")
        self._code.append((0xC0 if at is None else 0x80) | (register & 7) << 3 | base & 7)
        if at is not None:
            self._code += _behind(at)

    def vex(
        self,
        prefix: int,
        table: int,
        opcode: int,
        register: int,
        first: int | None,
        second: Source,
        last: int | None = None,
    ) -> None:
        """Append an instruction with a prefix of three bytes.

        Args:
            prefix, table, opcode: As in `_OPCODES`.
            register: The register, or the rest of the opcode.
            first: The register of the first source; None where there is none.
            second: The second source.
            last: The byte behind it, if there is one.
        """
        if isinstance(second, Constant):
            self._memory(prefix, table, opcode, register, first, At(R8, int(second)), last)
        elif isinstance(second, At):
            self._memory(prefix, table, opcode, register, first, second, last)
        else:
            self._append(prefix, table, opcode, register, first, second + self._first, 0xC0, b"", last)

    def _memory(
        self,
        prefix: int,
        table: int,
        opcode: int,
        register: int,
        first: int | None,
        place: At,
        last: int | None = None,
        *,
        whole: bool = True,
    ) -> None:
        self._append(prefix, table, opcode, register, first, place.named, 0x80, _behind(place), last, whole=whole)

    def _append(
        self,
        prefix: int,
        table: int,
        opcode: int,
        register: int,
        first: int | None,
        second: int,
        mode: int,
        behind: bytes,
        last: int | None,
        *,
        whole: bool = True,
    ) -> None:
        register += self._first
        source = 0 if first is None else first + self._first
        extended = (~register >> 3 & 1) << 7 | 1 << 6 | (~second >> 3 & 1) << 5
        head = (0xC4, extended | table, (~source & 15) << 3 | whole << 2 | prefix, opcode)
        self._code += bytes((*head, mode | (register & 7) << 3 | second & 7)) + behind
        if last is not None:
            self._code.append(last)
        self._ends.append(len(self._code))

    def _constant(self, content: bytes, times: int = 8) -> Constant:
        whole = content * times
        if whole not in self._constants:
            self._constants[whole] = Constant(sum(map(len, self._constants)))
        return self._constants[whole]
