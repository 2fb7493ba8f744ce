"""Microsoft's OpenMP runtime with what it lacks: numbers of threads by thread, and flags of a team in its caller.

``vcomp140.dll`` has one number of threads for the whole process. OneDNN asks for it when a primitive is made and when
it runs, and names the number of each team itself: so it is enough to let the library ask a function that keeps a number
for each calling thread, as other runtimes do.

Where several threads form teams, each team gets whatever threads are free, and a later one of the same caller gets
others. What is read after a primitive (`flags`) would miss the flags of threads that took part in it. So the function
that forms teams is replaced, too, by one that raises in the calling thread what was raised in the team. Teams for code
of our own are formed by the same.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.win64 import Step, entered, keeping, pushing, taking, unwinding
from ort_py_onednn.binding.windows import Frame, placed, redirect

__all__ = ["RUNTIME", "completed"]

RUNTIME = "vcomp140.dll"
_RBX, _RBP, _RSI = 3, 5, 6


def completed(module: int, runtime: Any) -> Mapping[str, Any] | None:
    """Let a loaded oneDNN keep numbers of threads by thread, and gather the processor's flags of teams.

    Args:
        module: Where the library is loaded.
        runtime: The functions of the OpenMP runtime.

    Returns:
        The functions with which other runtimes do what this one does not, by name; None where the library does not use
        it, or the system allows no executable memory.
    """
    kernel = ctypes.CDLL("kernel32")
    kernel.TlsAlloc.restype = ctypes.c_uint32
    slot = kernel.TlsAlloc()
    get = placed(*_framed(_get(slot, _address(kernel.TlsGetValue), runtime.omp_get_max_threads()), [taking(4, 40)]))
    set_ = placed(_set(slot, _address(kernel.TlsSetValue)))
    part = placed(*entered(_PART, [pushing(1, _RBX), pushing(2, _RBP), keeping(5, _RBP)]))
    fork = placed(*_framed(_fork(_number(runtime._vcomp_fork), part), [taking(9, 88)]))
    steps = [pushing(1, _RBX), pushing(2, _RSI), taking(6, 40)]
    parallel = placed(*_framed(_parallel(_number(runtime._vcomp_set_num_threads), fork), steps))
    if not all((get, set_, part, fork, parallel)):
        return None
    for name, address in (("omp_get_max_threads", get), ("_vcomp_fork", fork)):
        if not redirect(module, RUNTIME, name, address):
            return None
    return {
        "omp_get_max_threads": ffi.cast("int(*)(void)", get),
        "omp_set_num_threads": ffi.cast("void(*)(int)", set_),
        "GOMP_parallel": ffi.cast("void(*)(void *, void *, unsigned, unsigned)", parallel),
    }


def _framed(code: bytes, steps: Sequence[Step]) -> tuple[bytes, list[Frame]]:
    return code, [Frame(0, len(code), unwinding(steps))]


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _number(function: Any) -> int:
    return int(ffi.cast("intptr_t", function))


def _get(slot: int, get_value: int, otherwise: int) -> bytes:
    """Code of ``int omp_get_max_threads(void)``: the number of the thread, or that of the process where it has none."""
    return (
        bytes.fromhex("4883ec28 b9")  # sub rsp, 40; mov ecx, slot
        + struct.pack("<I", slot)
        + b"\x48\xb8"  # mov rax, …
        + struct.pack("<Q", get_value)
        + bytes.fromhex("ffd0 b9")  # call rax; mov ecx, …
        + struct.pack("<I", otherwise)
        + bytes.fromhex("85c0 0f44c1 4883c428 c3")  # test eax, eax; cmovz eax, ecx; add rsp, 40; ret
    )


def _set(slot: int, set_value: int) -> bytes:
    """Code of ``void omp_set_num_threads(int)``."""
    head = bytes.fromhex("89ca b9") + struct.pack("<I", slot)  # mov edx, ecx; mov ecx, slot
    return head + b"\x48\xb8" + struct.pack("<Q", set_value) + b"\xff\xe0"  # mov rax, …; jmp rax


def _parallel(set_count: int, fork: int) -> bytes:
    """Code of ``void GOMP_parallel(void *function, void *data, unsigned threads, unsigned flags)``."""
    return (
        bytes.fromhex(
            "53 56 4883ec28"  # push rbx; push rsi; sub rsp, 40
            "4889cb 4889d6"  # mov rbx, rcx; mov rsi, rdx
            "4489c1 48b8"  # mov ecx, r8d; mov rax, …
        )
        + struct.pack("<Q", set_count)
        + bytes.fromhex(
            "ffd0"  # call rax
            "b901000000 ba01000000"  # mov ecx, 1: in parallel; mov edx, 1: arguments
            "4989d8 4989f1 48b8"  # mov r8, rbx; mov r9, rsi; mov rax, …
        )
        + struct.pack("<Q", fork)
        + bytes.fromhex("ffd0 4883c428 5e 5b c3")  # call rax; add rsp, 40; pop rsi; pop rbx; ret
    )


_ZERO = b"".join(
    (b"\x45" if register > 7 else b"") + bytes((0x0F, 0x57, 0xC0 | 9 * (register & 7))) for register in range(16)
)
"""Xorps of all vector registers."""

_PART = (
    bytes.fromhex(
        "53"  # push rbx
        "55"  # push rbp
        "4889e5"  # mov rbp, rsp
        "4883ec18"  # sub rsp, 24
        "4889fb"  # mov rbx, rdi
    )
    + _ZERO
    + bytes.fromhex(
        "0fae5df4"  # stmxcsr [rbp - 12]
        "8b45f4"  # mov eax, [rbp - 12]
        "83e0c0"  # and eax, -64
        "8945f8"  # mov [rbp - 8], eax
        "0fae55f8"  # ldmxcsr [rbp - 8]
        "488b4308"  # mov rax, [rbx + 8]
        "4c8b5310"  # mov r10, [rbx + 16]
        "b904000000"  # mov ecx, 4
        "4839c8"  # cmp rax, rcx
        "480f4cc1"  # cmovl rax, rcx
        "4883c001"  # add rax, 1
        "4883e0fe"  # and rax, -2
        "48c1e003"  # shl rax, 3
        "4829c4"  # sub rsp, rax
        "488b4b08"  # mov rcx, [rbx + 8]
        "4885c9"  # copy: test rcx, rcx
        "7e0d"  # jle copied
        "48ffc9"  # dec rcx
        "498b04ca"  # mov rax, [r10 + rcx * 8]
        "488904cc"  # mov [rsp + rcx * 8], rax
        "ebee"  # jmp copy
        "488b0c24"  # copied: mov rcx, [rsp]
        "488b542408"  # mov rdx, [rsp + 8]
        "4c8b442410"  # mov r8, [rsp + 16]
        "4c8b4c2418"  # mov r9, [rsp + 24]
        "ff13"  # call [rbx]
        "0fae5df8"  # stmxcsr [rbp - 8]
        "8b45f8"  # mov eax, [rbp - 8]
        "83e03f"  # and eax, 63
        "f0094318"  # lock or [rbx + 24], eax
        "0fae55f4"  # ldmxcsr [rbp - 12]
        "31c0"  # xor eax, eax
        "488d6500"  # lea rsp, [rbp]
        "5d5bc3"  # pop rbp; pop rbx; ret
    )
)
"""``void part(struct { void *function; int64_t count; void **arguments; uint32_t flags; } *)``, for System V: calls the
function of a team in one of its threads, with vector registers of zero, and adds the flags it raised to those of the
team. The thread keeps its own."""


def _fork(fork: int, part: int) -> bytes:
    """Code of ``void _vcomp_fork(int parallel, int count, void *function, ...)``.

    It raises in the calling thread what was raised in one of the team.
    """
    return (
        bytes.fromhex(
            "4c894c2420"  # mov [rsp + 32], r9: beside the arguments that follow
            "4883ec58"  # sub rsp, 88
            "4c89442420"  # mov [rsp + 32], r8
            "89d2"  # mov edx, edx
            "4889542428"  # mov [rsp + 40], rdx
            "488d442478"  # lea rax, [rsp + 120]
            "4889442430"  # mov [rsp + 48], rax
            "c744243800000000"  # mov dword [rsp + 56], 0
            "ba01000000"  # mov edx, 1
            "49b8"  # mov r8, …
        )
        + struct.pack("<Q", part)
        + bytes.fromhex("4c8d4c2420 48b8")  # lea r9, [rsp + 32]; mov rax, …
        + struct.pack("<Q", fork)
        + bytes.fromhex(
            "ffd0"  # call rax
            "0fae5c243c"  # stmxcsr [rsp + 60]
            "8b442438"  # mov eax, [rsp + 56]
            "0944243c"  # or [rsp + 60], eax
            "0fae54243c"  # ldmxcsr [rsp + 60]
            "4883c458"  # add rsp, 88
            "c3"  # ret
        )
    )
