"""Microsoft's OpenMP runtime with what it lacks: a number of threads for each thread, and a call in all of a team.

``vcomp140.dll`` has one number of threads for the whole process. OneDNN asks for it when a primitive is made and when
it runs, and names the number of each team itself: so it is enough to let the library ask a function that keeps a number
for each calling thread, as other runtimes do. Teams of our own code are formed as the compiler's code forms them.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping
from typing import Any

from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.win64 import pushing, taking, unwinding
from ort_py_onednn.binding.windows import Frame, placed, redirect

__all__ = ["RUNTIME", "completed"]

RUNTIME = "vcomp140.dll"
_RBX, _RSI = 3, 6


def completed(module: int, runtime: Any) -> Mapping[str, Any] | None:
    """Let a loaded oneDNN keep numbers of threads by thread.

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
    get = _get(slot, _address(kernel.TlsGetValue), runtime.omp_get_max_threads())
    set_ = _set(slot, _address(kernel.TlsSetValue))
    parallel = _parallel(*(_number(one) for one in (runtime._vcomp_set_num_threads, runtime._vcomp_fork)))
    code, starts, frames = b"", [], []
    for part, steps in (
        (get, [taking(4, 40)]),
        (set_, []),
        (parallel, [pushing(1, _RBX), pushing(2, _RSI), taking(6, 40)]),
    ):
        starts.append(len(code))
        if steps:
            frames.append(Frame(len(code), len(code) + len(part), unwinding(steps)))
        code += part + b"\xcc" * (-len(part) % 16)
    base = placed(code, frames)
    if not base or not redirect(module, RUNTIME, "omp_get_max_threads", base + starts[0]):
        return None
    names = "omp_get_max_threads", "omp_set_num_threads", "GOMP_parallel"
    types = "int(*)(void)", "void(*)(int)", "void(*)(void *, void *, unsigned, unsigned)"
    return {name: ffi.cast(kind, base + start) for name, kind, start in zip(names, types, starts, strict=True)}


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
