"""float16 and bfloat16 from and to float32 in machine code, for CPUs on which oneDNN has portable code for that.

oneDNN 3.2 generates such code for CPUs that compute in these types only; on others it takes 50 ns an element, of which
the instructions of F16C and AVX2 take 0.1. Rounding is to nearest, ties to even; what is too large becomes infinite,
subnormal numbers stay, and NaN stays NaN with its sign.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Mapping

from ort_py_onednn.binding.constants import F32, Argument, Element
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.library import Library
from ort_py_onednn.binding.own_code import BEGIN, OwnCode, placed

__all__ = ["Conversion", "converts"]

_CLAIM = (
    "b800400000"  # 00 claim: mov eax, 16384
    "f0480fc14718"  # 05 lock xadd [rdi + 24], rax
    "488b4f10"  # 0b mov rcx, [rdi + 16]
    "4829c1"  # 0f sub rcx, rax
    "0f8e{end}"  # 12 jle end
    "ba00400000"  # 18 mov edx, 16384
    "4839d1"  # 1d cmp rcx, rdx
    "480f4fca"  # 20 cmovg rcx, rdx
    "488b37"  # 24 mov rsi, [rdi]
    "488b5708"  # 27 mov rdx, [rdi + 8]
    "488d34{first_source}"  # 2b lea rsi, [rsi + rax * bytes of an element]
    "488d14{first_target}"  # 2f lea rdx, [rdx + rax * bytes of an element]
    "4883f908"  # 33 again: cmp rcx, 8
    "7d21"  # 37 jge convert
    "4885c9"  # 39 test rcx, rcx
    "74c2"  # 3c jz claim
    "48837f1008"  # 3e cmp qword [rdi + 16], 8
    "0f8c{few}"  # 43 jl few
    "4883e908"  # 49 sub rcx, 8: the last eight, of which some are converted twice
    "488d34{last_source}"  # 4d lea rsi, [rsi + rcx * bytes of an element]
    "488d14{last_target}"  # 51 lea rdx, [rdx + rcx * bytes of an element]
    "b908000000"  # 55 mov ecx, 8
)
_ADVANCE = (
    "4883c6{source}"  # 00 add rsi, bytes of eight elements
    "4883c2{target}"  # 04 add rdx, bytes of eight elements
    "4883e908"  # 08 sub rcx, 8
    "eb{again}"  # 0c jmp again
)
_END = bytes.fromhex(
    "c5f877"  # 00 end: vzeroupper
    "31c0"  # 03 xor eax, eax
    "c3"  # 05 ret
)
"""``void convert(struct work *)`` but for what converts eight elements at ``[rsi]`` to ``[rdx]``."""

_FEW = (
    "4989c8"  # 00 few: mov r8, rcx
    "4989d1"  # 03 mov r9, rdx
    "4883ec40"  # 06 sub rsp, 64
    "c5fdefc0"  # 0a vpxor ymm0, ymm0, ymm0: what is not there raises no flags
    "c5fe7f0424"  # 0e vmovdqu [rsp], ymm0
    "4889e7"  # 13 mov rdi, rsp
    "{copy_source}"  # 16 rep movs
    "4889e6"  # mov rsi, rsp
    "488d542420"  # lea rdx, [rsp + 32]
    "{convert}"
    "488d742420"  # lea rsi, [rsp + 32]
    "4c89cf"  # mov rdi, r9
    "4c89c1"  # mov rcx, r8
    "{copy_target}"  # rep movs
    "4883c440"  # add rsp, 64
)
"""Fewer elements than eight in all, by way of the stack: the eight around them belong to others."""

_FROM_HALF = bytes.fromhex(
    "c4e27d1306"  # 00 vcvtph2ps ymm0, [rsi]
    "c5fc1102"  # 05 vmovups [rdx], ymm0
)
_TO_HALF = bytes.fromhex(
    "c5fc1006"  # 00 vmovups ymm0, [rsi]
    "c4e37d1d0200"  # 04 vcvtps2ph [rdx], ymm0, 0
)
_FROM_BFLOAT = bytes.fromhex(
    "c4e27d3306"  # 00 vpmovzxwd ymm0, [rsi]
    "c5fd72f010"  # 05 vpslld ymm0, ymm0, 16
    "c5fe7f02"  # 0a vmovdqu [rdx], ymm0
)
_CONSTANTS = bytes.fromhex(
    "c5c576ff"  # 00 vpcmpeqd ymm7, ymm7, ymm7
    "c5ed72d71f"  # 04 vpsrld ymm2, ymm7, 31: 1
    "c5e572d711"  # 09 vpsrld ymm3, ymm7, 17: 0x7fff
    "c5dd72d701"  # 0e vpsrld ymm4, ymm7, 1: 0x7fffffff
    "c5d572d718"  # 13 vpsrld ymm5, ymm7, 24
    "c5d572f517"  # 18 vpslld ymm5, ymm5, 23: infinity
    "c5cd72d717"  # 1d vpsrld ymm6, ymm7, 23
    "c5cd72f606"  # 22 vpslld ymm6, ymm6, 6: 0x7fc0
    "c5bd72f706"  # 27 vpslld ymm8, ymm7, 6: 0xffffffc0
)
_TO_BFLOAT = bytes.fromhex(
    "c5fe6f06"  # 00 vmovdqu ymm0, [rsi]
    "c5f572d010"  # 04 vpsrld ymm1, ymm0, 16
    "c5f5dbfa"  # 09 vpand ymm7, ymm1, ymm2: whether what is kept is odd
    "c5c5fef8"  # 0d vpaddd ymm7, ymm7, ymm0
    "c5c5fefb"  # 11 vpaddd ymm7, ymm7, ymm3
    "c5c572d710"  # 15 vpsrld ymm7, ymm7, 16
    "c5fddbc4"  # 1a vpand ymm0, ymm0, ymm4
    "c5fd66c5"  # 1e vpcmpgtd ymm0, ymm0, ymm5: whether it is NaN
    "c5f5ebce"  # 22 vpor ymm1, ymm1, ymm6
    "c4c175dbc8"  # 26 vpand ymm1, ymm1, ymm8
    "c4e3454cc100"  # 2b vpblendvb ymm0, ymm7, ymm1, ymm0
    "c4e27d2bc0"  # 31 vpackusdw ymm0, ymm0, ymm0
    "c4e3fd00c008"  # 36 vpermq ymm0, ymm0, 8
    "c5fa7f02"  # 3c vmovdqu [rdx], xmm0
)


def _code(source: Element, target: Element, convert: bytes, before: bytes = b"") -> bytes:
    """The function that converts with a few instructions, before which others run once."""
    scales, copies = {2: 0x40, 4: 0x80}, {2: "66f3a5", 4: "f3a5"}
    from_, to = scales[source.nbytes], scales[target.nbytes]
    claim = bytes.fromhex(
        _CLAIM.format(
            end=struct.pack("<i", 0x42 + len(convert) + 0x0E).hex(),
            few=struct.pack("<i", 0x11 + len(convert) + 0x0E + len(_END)).hex(),
            first_source=f"{from_ | 0x06:02x}",
            first_target=f"{to | 0x02:02x}",
            last_source=f"{from_ | 0x0E:02x}",
            last_target=f"{to | 0x0A:02x}",
        )
    )
    again = struct.pack("<b", -(0x27 + len(convert) + 0x0E)).hex()
    advance = _ADVANCE.format(source=f"{8 * source.nbytes:02x}", target=f"{8 * target.nbytes:02x}", again=again)
    few = _FEW.format(copy_source=copies[source.nbytes], convert=convert.hex(), copy_target=copies[target.nbytes])
    begin = bytes.fromhex(BEGIN)
    return begin + before + claim + convert + bytes.fromhex(advance) + _END + bytes.fromhex(few) + _END


_CODE: Mapping[tuple[Element, Element], bytes] = {
    (Element.F16, F32): _code(Element.F16, F32, _FROM_HALF),
    (F32, Element.F16): _code(F32, Element.F16, _TO_HALF),
    (Element.BF16, F32): _code(Element.BF16, F32, _FROM_BFLOAT),
    (F32, Element.BF16): _code(F32, Element.BF16, _TO_BFLOAT, _CONSTANTS),
}


@functools.cache
def _functions(library: Library) -> Mapping[tuple[Element, Element], int]:
    """Address of the code for each pair of types; none where there can be no code."""
    found = {kinds: placed(library, code) for kinds, code in _CODE.items()}
    return found if all(found.values()) else {}


def converts(library: Library, source: Element, target: Element) -> bool:
    """Return whether there is code for two types here."""
    return (source, target) in _functions(library)


class Conversion(OwnCode):
    """A change of type that leaves elements in their order."""

    __slots__ = ()

    @classmethod
    def made(cls, library: Library, source: Desc, target: Desc) -> Conversion | None:
        """The change from one layout to another; None where elements move, or there is no code for it."""
        if not converts(library, source.dtype, target.dtype):
            return None
        moved = source.of(target.dtype)
        if moved is None or not moved.same(target):
            return None
        code = _functions(library)[source.dtype, target.dtype]
        return cls(library, {Argument.SRC: source, Argument.DST: target}, code, "f16c", math.prod(source.dims))
