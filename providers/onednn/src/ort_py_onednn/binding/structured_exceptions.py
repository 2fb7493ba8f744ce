"""Conversion of C++ exceptions into a status on Windows: the frames of `exceptions` in the form that is usual there.

A frame is equivalent to ``__try { return f(…); } __except (is_bad_alloc(…)) { return 1; } __except (is_c_plus_plus(…))
{ return 5; }``. What follows an exception is in a table that ``__C_specific_handler`` of the C runtime reads; the two
filters are a few instructions that look at what was thrown, as Microsoft's compiler describes it. Other exceptions of
the system, such as an invalid address, pass.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping

from ort_py_onednn.binding.win64 import taking, unwinding
from ort_py_onednn.binding.windows import Frame, placed

__all__ = ["stubs"]

_STACK = 14
"""Arguments of a call that are passed on the stack at most."""

_REGISTERS = 4
_THROWN = 0xE06D7363
"""Code of an exception of C++."""

_IS_THROWN = bytes.fromhex("488b01 31d2 8138") + struct.pack("<I", _THROWN) + bytes.fromhex("0f94c2 89d0 c3")
"""``int is_c_plus_plus(EXCEPTION_POINTERS *)``: mov rax, [rcx]; xor edx, edx; cmp [rax], …; sete dl; mov eax, edx;
ret."""

_IS_BAD_ALLOC = (
    bytes.fromhex(
        "4c8b01"  # 00 mov r8, [rcx]: the record
        "31c0"  # 03 xor eax, eax
        "418138"  # 05 cmp dword [r8], …
    )
    + struct.pack("<I", _THROWN)
    + bytes.fromhex(
        "754c"  # 0c jne end
        "4d8b4830"  # 0e mov r9, [r8 + 48]: what the compiler wrote of the type
        "4d8b5038"  # 12 mov r10, [r8 + 56]: from where it counts places
        "4d85c9"  # 16 test r9, r9
        "743f"  # 19 jz end
        "458b490c"  # 1b mov r9d, [r9 + 12]: the list of what catches it
        "4d01d1"  # 1f add r9, r10
        "418b09"  # 22 mov ecx, [r9]
        "4983c104"  # 25 next: add r9, 4
        "83e901"  # 29 sub ecx, 1
        "782c"  # 2c js end
        "418b11"  # 2e mov edx, [r9]
        "418b541204"  # 31 mov edx, [r10 + rdx + 4]: the type
        "49b8"  # 36 mov r8, …
    )
    + b".?AVbad_"
    + bytes.fromhex(
        "4d39441210"  # 40 cmp [r10 + rdx + 16], r8: its name
        "75de"  # 45 jne next
        "49b8"  # 47 mov r8, …
    )
    + b"alloc@st"
    + bytes.fromhex(
        "4d39441218"  # 51 cmp [r10 + rdx + 24], r8
        "75cd"  # 56 jne next
        "ffc0"  # 58 inc eax
        "c3"  # 5a end: ret
    )
)
"""``int is_bad_alloc(EXCEPTION_POINTERS *)``: whether ``std::bad_alloc``, or what derives from it, was thrown."""


def stubs(functions: Mapping[str, tuple[int, int]]) -> Mapping[str, int]:
    """Put functions in memory that call others and throw nothing.

    Args:
        functions: By name, the address of a function and the number of its arguments.

    Returns:
        Their addresses by name; none where the system allows no executable memory.
    """
    handler = ctypes.cast(ctypes.CDLL("vcruntime140").__C_specific_handler, ctypes.c_void_p).value or 0
    code = _padded(b"\x48\xb8" + struct.pack("<Q", handler) + b"\xff\xe0")  # mov rax, …; jmp rax
    filters = []
    for one in (_IS_BAD_ALLOC, _IS_THROWN):
        filters.append(len(code))
        code += _padded(one)
    places, frames = [], []
    for words in (0, _STACK):
        places.append(len(code))
        part, frame = _frame(len(code), words, filters)
        code += _padded(part)
        frames.append(frame)
    found = {}
    for name, (target, count) in functions.items():
        assert count <= _REGISTERS + _STACK, f"{name} has {count} arguments"
        found[name] = len(code)
        head = b"\x49\xbb" + struct.pack("<Q", target)  # mov r11, target
        distance = places[count > _REGISTERS] - len(code) - len(head) - 5
        code += _padded(head + b"\xe9" + struct.pack("<i", distance))  # jmp
    base = placed(code, frames)
    return {name: base + start for name, start in found.items()} if base else {}


def _padded(code: bytes) -> bytes:
    return code + b"\xcc" * (-len(code) % 16)


def _frame(begin: int, words: int, filters: list[int]) -> tuple[bytes, Frame]:
    """Code that calls the function in r11 and returns its result, or a status if it throws.

    Args:
        begin: Where it will lie.
        words: Arguments on the stack, which are passed on, an even number; further ones do no harm.
        filters: Where the functions lie that say for which exceptions 1 and 5 are returned.
    """
    size = 8 * (_REGISTERS + words + 1)
    code = bytes.fromhex("4881ec") + struct.pack("<i", size)  # sub rsp, …
    taken = taking(len(code), size)
    for word in range(_REGISTERS, _REGISTERS + words):
        code += bytes.fromhex("488b8424") + struct.pack("<i", size + 8 + 8 * word)  # mov rax, [rsp + …]
        code += bytes.fromhex("48898424") + struct.pack("<i", 8 * word)  # mov [rsp + …], rax
    call = begin + len(code)
    code += bytes.fromhex("41ffd3 90")  # call r11; nop: the place behind the call is within what is guarded
    behind = begin + len(code)
    leave = bytes.fromhex("4881c4") + struct.pack("<i", size) + b"\xc3"  # add rsp, …; ret
    code += leave
    table = struct.pack("<I", len(filters))
    for place, status in zip(filters, (1, 5), strict=True):
        table += struct.pack("<IIII", call, behind, place, begin + len(code))
        code += b"\xb8" + struct.pack("<I", status) + leave  # mov eax, …
    return code, Frame(begin, begin + len(code), unwinding([taken], 0, table))
