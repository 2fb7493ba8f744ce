"""Tanh and Erf of float32 in machine code, for CPUs with AVX2 on which oneDNN has slow code for one and none for the
other.

oneDNN 3.2 takes 3 ns for a tanh without AVX-512; these take 0.4. Each is an odd polynomial near 0, and 1 less something
with an exponential elsewhere: both are computed for eight numbers, and one is chosen. Coefficients are those of the
least relative error, rounded to float32. All float32 numbers from 1e-38 on have errors of at most 2.6 units in the last
place. NaN stays NaN, infinities give ±1, zeros keep their sign; no flag is raised but those of inexact results.

Comes after `own_code`; what the registers hold stands beside each instruction.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable, Mapping

from ort_py_onednn.binding.assembler import RDX, RSI, Assembler, At
from ort_py_onednn.binding.constants import F32, Argument, Eltwise
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.instructions import AVX2, AVX512, native_elements
from ort_py_onednn.binding.library import Library
from ort_py_onednn.binding.own_code import BEGIN, OwnCode, placed

__all__ = ["VectorFunction", "has_code", "tanh"]

_X, _MASK = 0, 15
"""Registers of the argument, which becomes the result, and of the mask of the last elements of a piece."""
_USED = 6
"""Registers that a function uses, the argument's first."""

_EXPONENTIAL = (1.0, 0.693147, 0.24022242, 0.055507336, 0.009671513, 0.0013264725)
_TANH = (-0.3333328, 0.1333144, -0.053739525, 0.020638436, -0.0057042288)
_ERF = (1.1283791, -0.37612495, 0.11281815, -0.026766578, 0.004993116, -0.0005990499)
_ERFC = (0.0002864466, 1.6268749, 0.9192885, 0.14991631, -0.03205448, 0.0043873778, -0.00028236612)
"""The binary logarithm of 1 / (1 - erf) from 0.92 on."""

_GREATER, _NOT_A_NUMBER = 0x1E, 3
"""Kinds of comparisons that raise no flag."""


def _magnitude(a: Assembler, most: float) -> None:
    """Register 1: the argument without its sign, at most a number, as which NaN counts."""
    a.do("vandps", 1, _X, a.word(0x7FFFFFFF))
    a.do("vpminsd", 1, 1, a.number(most))


def _power_of_two(a: Assembler) -> None:
    """Register 5: two to the power of register 2, which is between -126 and 127. Changes registers 2 to 4."""
    shift = a.number(1.5 * 2**23)  # added to a number, it leaves an integer in the lowest bits
    a.do("vaddps", 3, 2, shift)
    a.do("vsubps", 4, 3, shift)
    a.do("vsubps", 2, 2, 4)  # between -0.5 and 0.5
    a.polynomial(5, 2, tuple(map(a.number, _EXPONENTIAL)))
    a.shift_left(3, 3, 23)
    a.do("vpaddd", 5, 5, 3)


def _chosen(a: Assembler, bound: float) -> None:
    """The argument becomes register 5 where register 1 is greater than a bound, else 3, with the sign of the argument;
    NaN stays. Changes registers 2 and 3."""
    a.compare(2, 1, a.number(bound), _GREATER)
    a.choose(3, 3, 5, 2)
    a.do("vandps", 2, _X, a.word(0x80000000))
    a.do("vorps", 3, 3, 2)
    a.compare(2, _X, _X, _NOT_A_NUMBER)
    a.choose(_X, 3, _X, 2)


def tanh(a: Assembler) -> None:
    """Append code that makes register 0 its hyperbolic tangent; changes registers 1 to 5."""
    _magnitude(a, 9.1)  # from where on it is 1
    a.do("vmulps", 2, 1, a.number(2 / math.log(2)))
    _power_of_two(a)  # exp(2 x)
    a.do("vaddps", 5, 5, a.number(1))
    a.load(4, a.number(2))
    a.do("vdivps", 4, 4, 5)
    a.load(5, a.number(1))
    a.do("vsubps", 5, 5, 4)  # 1 - 2 / (exp(2 x) + 1)
    a.do("vmulps", 2, 1, 1)
    a.polynomial(3, 2, tuple(map(a.number, _TANH)))
    a.do("vmulps", 3, 3, 2)
    a.do("vfmadd213ps", 3, 1, 1)  # x + x³ · …
    _chosen(a, 0.625)


def _erf(a: Assembler) -> None:
    _magnitude(a, 3.95)  # from where on it is 1
    a.polynomial(2, 1, tuple(a.number(-one) for one in _ERFC))
    _power_of_two(a)
    a.load(4, a.number(1))
    a.do("vsubps", 5, 4, 5)
    a.do("vmulps", 2, 1, 1)
    a.polynomial(3, 2, tuple(map(a.number, _ERF)))
    a.do("vmulps", 3, 3, 1)
    _chosen(a, 0.921875)


_FUNCTIONS: Mapping[int, Callable[[Assembler], None]] = {Eltwise.TANH: tanh, Eltwise.ERF: _erf}


def _pass(function: Callable[[Assembler], None]) -> bytes:
    """Code of ``void pass(struct work *)`` (`own_code`): pieces of elements are claimed until none is left."""
    a = Assembler()
    a.digits(BEGIN)
    a.digits("4c8d05")  # lea r8, [constants]
    constants = a.jump()
    claim = a.size
    a.digits(
        "b800400000"  # mov eax, 16384
        "f0480fc14718"  # lock xadd [rdi + 24], rax
        "488b4f10"  # mov rcx, [rdi + 16]
        "4829c1"  # sub rcx, rax
        "0f8e"  # jle end
    )
    end = a.jump()
    a.digits(
        "ba00400000"  # mov edx, 16384
        "4839d1"  # cmp rcx, rdx
        "480f4fca"  # cmovg rcx, rdx
        "488b37"  # mov rsi, [rdi]
        "488b5708"  # mov rdx, [rdi + 8]
        "488d3486"  # lea rsi, [rsi + rax * 4]
        "488d1482"  # lea rdx, [rdx + rax * 4]
    )
    again = a.size
    a.digits("4883e910")  # sub rcx, 16
    a.digits("0f8c")  # jl rest
    rest = a.jump()
    a.read(_X, At(RSI))
    a.read(_X + _USED, At(RSI, 32))
    a.twice(function, _USED)
    a.write(_X, At(RDX))
    a.write(_X + _USED, At(RDX, 32))
    a.digits("4883c6404883c240")  # add rsi, 64; add rdx, 64
    a.digits("e9")  # jmp again
    a.jump(again)
    a.land(rest)
    a.digits("4883c110")  # add rcx, 16
    part = a.size
    a.digits("4885c9")  # test rcx, rcx
    a.digits("0f8e")  # jle claim
    a.jump(claim)
    a.digits("b808000000")  # mov eax, 8
    a.digits("4839c1")  # cmp rcx, rax
    a.digits("480f4cc1")  # cmovl rax, rcx
    a.digits("48f7d8")  # neg rax
    ones = a.table((0xFFFFFFFF,) * 8 + (0,) * 8)
    a.digits("c4417c10bc80" + struct.pack("<i", ones + 32).hex())  # vmovups ymm15, [r8 + rax * 4 + ones + 32]
    a.read_part(_X, _MASK, At(RSI))
    function(a)
    a.write_part(_X, _MASK, At(RDX))
    a.digits("4883c6204883c220")  # add rsi, 32; add rdx, 32
    a.digits("4883e908")  # sub rcx, 8
    a.digits("e9")  # jmp part
    a.jump(part)
    a.land(end)
    a.digits("c5f87731c0c3")  # vzeroupper; xor eax, eax; ret
    return a.finished(constants)


@functools.cache
def _address(library: Library, algorithm: int) -> int:
    """Address of a function's code; 0 where there is none, or oneDNN's own is good."""
    if algorithm not in _FUNCTIONS or not library.isa & AVX2 or native_elements(library.isa) != {F32}:
        return 0
    if library.isa & AVX512:
        return 0
    return placed(library, _pass(_FUNCTIONS[algorithm]))


def has_code(library: Library, algorithm: int) -> bool:
    """Return whether there is code for a function here."""
    return _address(library, algorithm) != 0


class VectorFunction(OwnCode):
    """A function of each element.

    Args:
        library: The library.
        algorithm: One that there is code for.
        desc: Layout of what is read and written: float32 without gaps.
    """

    __slots__ = ()

    def __init__(self, library: Library, algorithm: int, desc: Desc) -> None:
        arguments = {Argument.SRC: desc, Argument.DST: desc}
        super().__init__(library, arguments, _address(library, algorithm), "own:avx2", math.prod(desc.dims))
