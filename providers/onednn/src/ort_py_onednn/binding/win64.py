"""Calling convention of Windows on x86-64: how code that is written for System V is called there, and calls others.

The machine code of this package is written for System V. On Windows each function gets an entry in front that moves its
arguments and keeps the registers that a caller there expects unchanged. Only the loop of `calls` calls functions of the
system; it is written for both. What is made here is bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from ort_py_onednn.binding.windows import Frame

__all__ = ["entered", "keeping", "loop", "pushing", "taking", "unwinding"]

_PUSH, _LARGE, _SMALL, _FRAME, _SAVE = 0, 1, 2, 3, 8
"""Operations of ``UNWIND_INFO``: a register pushed, many or few bytes taken, the stack's end kept in a register, a
vector register saved."""

_RBX, _RSI, _RDI = 3, 6, 7
_VECTORS = range(6, 16)
"""Vector registers whose lower halves belong to the caller."""

_ROOM = 16 * len(_VECTORS) + 8

Step = tuple[int, int, int]
"""A step of a function's beginning: the place behind its instruction, an operation, and its register or bytes."""


def unwinding(steps: Sequence[Step], handler: int | None = None, data: bytes = b"") -> bytes:
    """Describe a frame.

    Args:
        steps: What the function does at its beginning, in order; a vector register is saved at 16 times its distance
            from the sixth.
        handler: The place of a function that is called when an exception passes the frame.
        data: What that reads.
    """
    slots, frame = b"", 0
    for place, operation, operand in reversed(steps):
        if operation == _LARGE:
            slots += struct.pack("<BBH", place, _LARGE, operand // 8)
        elif operation == _SMALL:
            slots += struct.pack("<BB", place, (operand // 8 - 1) << 4 | _SMALL)
        elif operation == _FRAME:
            slots += struct.pack("<BB", place, _FRAME)
            frame = operand
        elif operation == _SAVE:
            slots += struct.pack("<BBH", place, operand << 4 | _SAVE, operand - _VECTORS[0])
        else:
            slots += struct.pack("<BB", place, operand << 4 | _PUSH)
    head = struct.pack("<BBBB", 1 | (handler is not None) << 3, steps[-1][0], len(slots) // 2, frame)
    slots += b"\x00" * (-len(slots) % 4)
    return head + slots + (b"" if handler is None else struct.pack("<I", handler) + data)


def taking(begin: int, size: int) -> Step:
    """The step that takes bytes of the stack."""
    return begin, _SMALL if size <= 128 else _LARGE, size


def pushing(begin: int, register: int) -> Step:
    """The step that pushes a register."""
    return begin, _PUSH, register


def keeping(begin: int, register: int) -> Step:
    """The step that keeps the end of the stack in a register, after which any number of bytes may be taken."""
    return begin, _FRAME, register


def entered(function: bytes, steps_of_function: Sequence[Step] = ()) -> tuple[bytes, list[Frame]]:
    """Put an entry in front of a function for System V.

    Args:
        function: With up to four arguments, which are integers or addresses.
        steps_of_function: What it does at its beginning, where it calls others.
    """
    begin = bytes.fromhex("5756 4881ec") + struct.pack("<i", _ROOM)  # push rdi; push rsi; sub rsp, …
    steps = [pushing(1, _RDI), pushing(2, _RSI), taking(len(begin), _ROOM)]
    for register in _VECTORS:
        begin += _vector(0x29, register)
        steps.append((len(begin), _SAVE, register))
    code = begin + bytes.fromhex(
        "4889cf"  # mov rdi, rcx
        "4889d6"  # mov rsi, rdx
        "4c89c2"  # mov rdx, r8
        "4c89c9"  # mov rcx, r9
        "e8"  # call function
    )
    rest = b"".join(_vector(0x28, register) for register in _VECTORS)
    rest += bytes.fromhex("4881c4") + struct.pack("<i", _ROOM) + bytes.fromhex("5e5fc3")  # add rsp, …; pop …; ret
    end = len(code) + 4 + len(rest)
    padding = b"\xcc" * (-end % 32)  # the function may have constants behind it that lie at even addresses
    code += struct.pack("<i", len(rest) + len(padding)) + rest + padding
    frames = [Frame(0, end, unwinding(steps))]
    if steps_of_function:
        frames.append(Frame(len(code), len(code) + len(function), unwinding(steps_of_function)))
    return code + function, frames


def _vector(opcode: int, register: int) -> bytes:
    """Movaps between a vector register and its place on the stack."""
    high = b"\x44" if register > 7 else b""
    where = struct.pack("<BBi", 0x84 | (register & 7) << 3, 0x24, 16 * (register - _VECTORS[0]))
    return high + bytes((0x0F, opcode)) + where


_LOOP = bytes.fromhex(
    "53"  # 00 push rbx
    "4883ec20"  # 01 sub rsp, 32
    "0f57f60f57ff"  # 05 xorps xmm6, xmm6, …: what the caller left there raises no flags (`flags`)
    "450f57c0450f57c9450f57d2450f57db"  # 0b
    "450f57e4450f57ed450f57f6450f57ff"  # 1b
    "4889fb"  # 2b mov rbx, rdi
    "488b03"  # 2e loop: mov rax, [rbx]
    "4885c0"  # 31 test rax, rax
    "7423"  # 34 jz end
    "488b4b08"  # 36 mov rcx, [rbx + 8]
    "488b5310"  # 3a mov rdx, [rbx + 16]
    "4c8b4318"  # 3e mov r8, [rbx + 24]
    "4c8b4b20"  # 42 mov r9, [rbx + 32]
    "ffd0"  # 46 call rax
    "854328"  # 48 test eax, [rbx + 40]
    "7506"  # 4b jnz failed
    "4883c330"  # 4d add rbx, 48
    "ebdb"  # 51 jmp loop
    "89432c"  # 53 failed: mov [rbx + 44], eax
    "4889d8"  # 56 mov rax, rbx
    "4883c420"  # 59 end: add rsp, 32
    "5b"  # 5d pop rbx
    "c3"  # 5e ret
)
"""The loop of `calls`, for functions that are called as those of Windows are."""


def loop() -> tuple[bytes, list[Frame]]:
    """The loop of `calls`, with an entry."""
    return entered(_LOOP, [pushing(1, _RBX), taking(5, 32)])
