"""An assembler of a few AVX2 instructions, so that a function of eight numbers can be read where it stands.

Registers are numbers: those of 256 bits from 0 to 15. Constants are the same number eight times; they stand behind the
code, and the register R8 holds their address. Each method that is named like an instruction appends that one. What it
makes is bytes; it does not run them.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

__all__ = ["R8", "R9", "R10", "R11", "RBP", "RBX", "RDX", "RSI", "Assembler", "At", "Constant", "Source"]

_WIDTH = 32
"""Bytes of a register."""

RDX, RBX, RBP, RSI, R8, R9, R10, R11 = 2, 3, 5, 6, 8, 9, 10, 11
"""Numbers of registers that hold addresses."""

_OPCODES = {
    "vandps": (0, 1, 0x54),
    "vorps": (0, 1, 0x56),
    "vaddps": (0, 1, 0x58),
    "vmulps": (0, 1, 0x59),
    "vsubps": (0, 1, 0x5C),
    "vdivps": (0, 1, 0x5E),
    "vpaddd": (1, 1, 0xFE),
    "vpminsd": (1, 2, 0x39),
    "vxorps": (0, 1, 0x57),
    "vfmadd213ps": (1, 2, 0xA8),
    "vfmadd231ps": (1, 2, 0xB8),
}
"""Prefix, map and opcode of instructions of three operands: 66 is prefix 1; 0F, 0F38 and 0F3A are maps 1 to 3."""


class Constant(int):
    """A constant, by the place of its first byte behind the code."""


class At(NamedTuple):
    """Numbers in memory: so many bytes behind what a register points to."""

    base: int
    behind: int = 0


Source: TypeAlias = "int | Constant | At"
"""A register, a constant, or numbers in memory."""


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
        self._memory(0, 1, 0x10, target, None, *source)

    def write(self, source: int, target: At) -> None:
        """Append vmovups to memory."""
        self._memory(0, 1, 0x11, source, None, *target)

    def spread(self, target: int, source: At) -> None:
        """Append vbroadcastss from memory."""
        self._memory(1, 2, 0x18, target, None, *source)

    def read_part(self, target: int, mask: int, source: At) -> None:
        """Append vmaskmovps from memory."""
        self._memory(1, 2, 0x2C, target, mask, *source)

    def write_part(self, source: int, mask: int, target: At) -> None:
        """Append vmaskmovps to memory."""
        self._memory(1, 2, 0x2E, source, mask, *target)

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
            self._memory(prefix, table, opcode, register, first, R8, int(second), last)
        elif isinstance(second, At):
            self._memory(prefix, table, opcode, register, first, *second, last)
        else:
            self._append(prefix, table, opcode, register, first, second + self._first, 0xC0, b"", last)

    def _memory(
        self,
        prefix: int,
        table: int,
        opcode: int,
        register: int,
        first: int | None,
        base: int,
        distance: int = 0,
        last: int | None = None,
    ) -> None:
        self._append(prefix, table, opcode, register, first, base, 0x80, struct.pack("<i", distance), last)

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
    ) -> None:
        register += self._first
        source = 0 if first is None else first + self._first
        extended = (~register >> 3 & 1) << 7 | 1 << 6 | (~second >> 3 & 1) << 5
        head = (0xC4, extended | table, (~source & 15) << 3 | 1 << 2 | prefix, opcode)
        self._code += bytes((*head, mode | (register & 7) << 3 | second & 7)) + behind
        if last is not None:
            self._code.append(last)
        self._ends.append(len(self._code))

    def _constant(self, content: bytes, times: int = 8) -> Constant:
        whole = content * times
        if whole not in self._constants:
            self._constants[whole] = Constant(sum(map(len, self._constants)))
        return self._constants[whole]
