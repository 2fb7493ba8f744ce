"""The assembler: the bytes that GNU's assembler makes of the same instructions, jumps, constants, and two in turns."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from ort_py_onednn.binding.assembler import R8, R9, R10, R11, R12, RAX, RCX, RDI, RDX, RSI, Assembler, At

INSTRUCTIONS: list[tuple[str, Callable[[Assembler], None], str]] = [
    ("vfmadd213ps ymm12, ymm3, ymm14", lambda a: a.do("vfmadd213ps", 12, 3, 14), "c44265a8e6"),
    ("vfmaddsub213ps ymm0, ymm12, ymm1", lambda a: a.do("vfmaddsub213ps", 0, 12, 1), "c4e21da6c1"),
    ("vdivps ymm6, ymm6, ymm5", lambda a: a.do("vdivps", 6, 6, 5), "c4e14c5ef5"),
    ("vpaddd ymm5, ymm5, ymm3", lambda a: a.do("vpaddd", 5, 5, 3), "c4e155feeb"),
    ("vpslld ymm3, ymm9, 23", lambda a: a.shift_left(3, 9, 23), "c4c16572f117"),
    ("vmovaps ymm13, ymm11", lambda a: a.load(13, 11), "c4417c28eb"),
    ("vblendvps ymm9, ymm9, ymm7, ymm10", lambda a: a.choose(9, 9, 7, 10), "c463354acfa0"),
    ("vcmpgt_oqps ymm10, ymm1, [r8]", lambda a: a.compare(10, 1, a.number(1), 0x1E), "c44174c290000000001e"),
    ("vandps ymm1, ymm0, [r8]", lambda a: a.do("vandps", 1, 0, a.word(1)), "c4c17c548800000000"),
    ("vpminsd ymm9, ymm10, [r8]", lambda a: a.do("vpminsd", 9, 10, a.number(9)), "c4422d398800000000"),
    ("vmovups ymm0, [rsi + 32]", lambda a: a.read(0, At(RSI, 32)), "c4e17c108620000000"),
    ("vmovups [rdx], ymm9", lambda a: a.write(9, At(RDX)), "c4617c118a00000000"),
    ("vbroadcastss ymm8, [rsi + 4]", lambda a: a.spread(8, At(RSI, 4)), "c4627d188604000000"),
    ("vfmadd231ps ymm1, ymm9, [r8 + 64]", lambda a: a.do("vfmadd231ps", 1, 9, At(R8, 64)), "c4c235b88840000000"),
    ("vmaskmovps ymm0, ymm15, [rsi]", lambda a: a.read_part(0, 15, At(RSI)), "c4e2052c8600000000"),
    ("vmaskmovps [rdx], ymm15, ymm8", lambda a: a.write_part(8, 15, At(RDX)), "c462052e8200000000"),
    ("vmovups ymm3, [rsi + rax]", lambda a: a.read(3, At(RSI, 0, RAX)), "c4e17c109c0600000000"),
    (
        "vfmadd231ps ymm1, ymm8, [r12 + rax]",
        lambda a: a.do("vfmadd231ps", 1, 8, At(R12, 0, RAX)),
        "c4c23db88c0400000000",
    ),
    ("vhaddps ymm2, ymm2, ymm3", lambda a: a.do("vhaddps", 2, 2, 3), "c4e16f7cd3"),
    ("vfnmadd231ps ymm3, ymm11, ymm9", lambda a: a.do("vfnmadd231ps", 3, 11, 9), "c4c225bcd9"),
    ("vperm2f128 ymm1, ymm0, ymm4, 32", lambda a: a.join_halves(1, 0, 4, 0x20), "c4e37d06cc20"),
    ("vpermilps ymm3, ymm10, 0x4e", lambda a: a.turn(3, 10, 0x4E), "c4c37d04da4e"),
    ("cqo; idiv qword ptr [rdi + 8]", lambda a: a.divide(At(RDI, 8)), "489948f7bf08000000"),
    ("cmovle r9, rcx", lambda a: a.move_if_at_most(R9, RCX), "4c0f4ec9"),
    ("cmp rcx, 1000", lambda a: a.compare_number(RCX, 1000), "4881f9e8030000"),
    ("vpsrad ymm12, ymm11, 28", lambda a: a.shift_right(12, 11, 28), "c4c11d72e31c"),
    ("vpmovsxbd ymm13, [r11 + 72]", lambda a: a.widen(13, At(R11, 72)), "c4427d21ab48000000"),
    ("vaddps zmm9, zmm9, [r10 + 64]", lambda a: a.wide("vaddps", 9, 9, At(R10, 64)), "62513448588a40000000"),
    ("vpxord zmm11, zmm11, zmm11", lambda a: a.wide("vpxord", 11, 11, 11), "62512548efdb"),
    ("vpermps zmm12, zmm3, zmm15", lambda a: a.wide("vpermps", 12, 3, 15), "6252654816e7"),
    (
        "vfmadd231ps zmm5, zmm13, [rsi + 4]{1to16}",
        lambda a: a.wide("vfmadd231ps", 5, 13, At(RSI, 4), spread=True),
        "62f21558b8ae04000000",
    ),
    ("vpsrld zmm2, zmm9, 4", lambda a: a.wide_shift("right", 2, 9, 4), "62d16d4872d104"),
    ("vpslld zmm2, zmm9, 4", lambda a: a.wide_shift("left", 2, 9, 4), "62d16d4872f104"),
    ("vpsrad zmm12, zmm9, 28", lambda a: a.wide_shift("signed", 12, 9, 28), "62d11d4872e11c"),
    ("vcvtdq2ps zmm13, zmm12", lambda a: a.wide_move("vcvtdq2ps", 13, 12), "62517c485bec"),
    ("vpmovsxbd zmm13, [r11 + 16]", lambda a: a.wide_move("widen", 13, At(R11, 16)), "62527d4821ab10000000"),
    ("vmovups zmm15, [rdi + 64]", lambda a: a.wide_move("read", 15, At(RDI, 64)), "62717c4810bf40000000"),
    ("vmovups [rdx + 64], zmm8", lambda a: a.wide_move("write", 8, At(RDX, 64)), "62717c48118240000000"),
    ("vmovups zmm1, [r12 + 64]", lambda a: a.wide_move("read", 1, At(R12, 64)), "62d17c48108c2440000000"),
    ("prefetcht0 [r11 + 4096]", lambda a: a.fetch(At(R11, 4096)), "410f188b00100000"),
    (
        "{vex} vpdpbusd ymm7, ymm15, [r9 + 256]",
        lambda a: a.add_dots(7, 15, At(R9, 256), short=True),
        "c4c20550b900010000",
    ),
    (
        "vpdpbusd ymm7, ymm15, [r9 + 256]",
        lambda a: a.add_dots(7, 15, At(R9, 256), short=False),
        "62d2052850b900010000",
    ),
    (
        "vpdpbusd ymm9, ymm3, [r12 + rax + 8]",
        lambda a: a.add_dots(9, 3, At(R12, 8, RAX), short=False),
        "62526528508c0408000000",
    ),
    ("mov rdx, [r12 + rcx + 4]", lambda a: a.move(RDX, At(R12, 4, RCX)), "498b940c04000000"),
]
"""Text, the call, and the bytes: prefixes of three bytes (VEX) and of four (EVEX), and distances of four bytes."""


@pytest.mark.parametrize(("call", "wanted"), [one[1:] for one in INSTRUCTIONS], ids=[one[0] for one in INSTRUCTIONS])
def test_instructions(call: Callable[[Assembler], None], wanted: str) -> None:
    a = Assembler()
    call(a)
    assert a.code().hex() == wanted


def test_constants_stand_behind_the_code_once() -> None:
    """Eight times each, at the next multiple of 32 bytes, with the distance to the first where it is wanted."""
    a = Assembler()
    a.digits("4c8d05")
    distance = a.jump()
    first = a.number(2.5), a.word(7), a.number(2.5)
    whole = a.finished(distance)
    assert first == (0, 32, 0)
    assert len(whole) == 96
    assert struct.unpack("<i", whole[3:7]) == (32 - 7,)
    assert whole[32:] == struct.pack("<f", 2.5) * 8 + struct.pack("<I", 7) * 8


def test_jumps_count_from_behind_their_distance() -> None:
    a = Assembler()
    forward = a.jump()
    a.digits("cccc")
    a.land(forward)
    a.jump(0)
    assert struct.unpack("<i2xi", a.code()) == (2, -10)


def test_independent_instructions_take_turns() -> None:
    """The second stream is the first one with registers that are shifted; the count of a shift is none."""

    def write(a: Assembler) -> None:
        a.load(0, 1)
        a.shift_left(1, 0, 23)

    def one(first: int) -> list[bytes]:
        loaded, shifted = Assembler(), Assembler()
        loaded.load(first, first + 1)
        shifted.shift_left(first + 1, first, 23)
        return [loaded.code(), shifted.code()]

    a = Assembler()
    a.twice(write, 6)
    assert a.code() == b"".join(b"".join(pair) for pair in zip(one(0), one(6), strict=True))
