"""Calling convention of Windows: entries for code that is written for System V, the loop, and descriptions of frames.

The code runs anywhere: on Linux, by way of a few instructions that call it as Windows does.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest

from ort_py_onednn.binding import win64, windows
from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.executable import executable
from ort_py_onednn.binding.windows import WINDOWS, Frame

_WEIGHED = bytes.fromhex(
    "488d0477"  # lea rax, [rdi + rsi * 2]
    "488d0490"  # lea rax, [rax + rdx * 4]
    "488d04c8"  # lea rax, [rax + rcx * 8]
    "31ff31f631d231c9"  # xor edi, edi; …
    "c5fc77"  # vzeroall
    "c3"
)
"""A function of four numbers for System V, which changes registers that belong to the caller on Windows."""

_AS_WINDOWS = bytes.fromhex(
    "f30f1efa"  # endbr64
    "4883ec28"  # sub rsp, 40
    "4889f8"  # mov rax, rdi
    "4d89c1"  # mov r9, r8
    "4989c8"  # mov r8, rcx
    "4889f1"  # mov rcx, rsi
    "ffd0"  # call rax
    "4883c428"  # add rsp, 40
    "c3"  # ret
)
"""``long call(void *function, long, long, long, long)``: a call as on Windows. The third argument stays where it is."""


def _watch() -> bytes:
    """Code of ``void watch(void *function, char *registers)``.

    It calls a function as on Windows, with registers from memory, and writes them behind those afterwards.
    """
    code = bytes.fromhex("f30f1efa 53 4889f3 4889f8")  # endbr64; push rbx; mov rbx, rsi; mov rax, rdi
    for register in range(6, 16):
        code += _movups(0x10, register, 16 * (register - 6))
    code += bytes.fromhex("488bbba0000000 488bb3a8000000")  # mov rdi, [rbx + 160]; mov rsi, [rbx + 168]
    code += bytes.fromhex("4883ec20 ffd0 4883c420")  # sub rsp, 32; call rax; add rsp, 32
    for register in range(6, 16):
        code += _movups(0x11, register, 176 + 16 * (register - 6))
    return code + bytes.fromhex("4889bb50010000 4889b358010000 5b c3")  # mov [rbx + 336], rdi; mov [rbx + 344], rsi


def _movups(opcode: int, register: int, place: int) -> bytes:
    high = b"\x44" if register > 7 else b""
    return high + struct.pack("<BBBi", 0x0F, opcode, 0x83 | (register & 7) << 3, place)


def _placed(code: bytes, frames: list[Frame]) -> int:
    """Put code for Windows in memory."""
    found = windows.placed(code, frames) if WINDOWS else executable(code)
    if not found:
        pytest.skip("the system allows no executable memory")
    return found


def _call(address: int, *arguments: int) -> int:
    """Call a function as on Windows."""
    given = [*arguments, 0, 0, 0, 0][:4]
    if WINDOWS:
        return int(ffi.cast("intptr_t (*)(intptr_t, intptr_t, intptr_t, intptr_t)", address)(*given))
    call = ffi.cast("intptr_t (*)(intptr_t, intptr_t, intptr_t, intptr_t, intptr_t)", executable(_AS_WINDOWS))
    return int(call(address, *given))


def test_arguments_reach_a_function_for_system_v() -> None:
    assert _call(_placed(*win64.entered(_WEIGHED)), 1, 10, 100, 1000) == 1 + 20 + 400 + 8000


@pytest.mark.skipif(WINDOWS, reason="its registers are watched by code for System V")
def test_registers_of_the_caller_stay() -> None:
    """Two for addresses, and the lower halves of ten for vectors."""
    given = bytes(range(1, 177))
    memory = ffi.new("char[]", given + bytes(176))
    watch = ffi.cast("void (*)(intptr_t, char *)", executable(_watch()))
    watch(_placed(*win64.entered(_WEIGHED)), memory)
    assert ffi.buffer(memory)[176:352] == given


def _records(*calls: tuple[int, tuple[int, ...], bool]) -> Any:
    words = [
        word for function, arguments, checked in calls for word in (function, *arguments, 0xFFFFFFFF if checked else 0)
    ]
    return ffi.new("intptr_t[]", [*words, 0, 0, 0, 0, 0, 0])


def test_the_loop_calls_with_four_arguments_until_one_fails() -> None:
    """The failing record is returned, with the status behind its mask; what is not checked does not fail."""
    function = _placed(*win64.entered(_WEIGHED))
    good, unchecked, bad = (
        (function, (0, 0, 0, 0), True),
        (function, (1, 0, 0, 0), False),
        (function, (1, 1, 1, 1), True),
    )
    records = _records(good, unchecked, bad, good)
    start = int(ffi.cast("intptr_t", records))
    loop = _placed(*win64.loop())
    assert _call(loop, start) == start + 2 * 48
    assert records[2 * 6 + 5] >> 32 == 15
    assert _call(loop, start + 3 * 48) == 0


def test_a_frame_is_described_as_compilers_do() -> None:
    """That of ``push rbx; sub rsp, 32``, and one that saves a vector register and has a handler."""
    assert win64.unwinding([win64.pushing(2, 3), win64.taking(6, 32)]) == bytes.fromhex("01060200 06320230")
    long = win64.unwinding([win64.taking(7, 168), (12, 8, 7)], handler=0x40, data=b"data")
    assert long == bytes.fromhex("090c0400 0c780100 07011500 40000000") + b"data"


def test_descriptions_stand_behind_the_code() -> None:
    """Their places, in a table in the order of the functions."""
    content, table = windows.image(b"\xc3" * 5, [Frame(3, 5, b"later"), Frame(0, 2, b"sooner")])
    first, second = struct.unpack_from("<III", content, table), struct.unpack_from("<III", content, table + 12)
    assert first[:2] == (0, 2)
    assert content[first[2] :].startswith(b"sooner")
    assert second[:2] == (3, 5)
    assert content[second[2] :].startswith(b"later")
    assert not any(place % 4 for place in (first[2], second[2], table))
