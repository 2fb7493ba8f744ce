"""Memory of Windows that can be executed, and functions that a library there imports and others take the place of.

A thread that unwinds its stack on Windows looks up each function by its address, so code that calls others is
registered with a description of its frame (`win64`). It does not depend on what the code does, and is imported on every
system; only calls need Windows.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
from collections.abc import Sequence
from typing import Any

from ort_py.light_tuple import NamedTuple

__all__ = ["WINDOWS", "Frame", "image", "placed", "redirect"]

WINDOWS = sys.platform == "win32"

_COMMIT_AND_RESERVE = 0x3000
_READ_WRITE, _EXECUTE_READ = 0x04, 0x20


class Frame(NamedTuple):
    """A function that calls others, in code.

    Attributes:
        begin, end: Its place.
        unwinding: Its ``UNWIND_INFO``, in which places are counted from the beginning of the code.
    """

    begin: int
    end: int
    unwinding: bytes


@functools.cache
def _kernel() -> Any:
    """Functions of the system, with the types of their arguments."""
    kernel = ctypes.CDLL("kernel32")
    address, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32
    kernel.VirtualAlloc.argtypes, kernel.VirtualAlloc.restype = [address, size, number, number], address
    kernel.VirtualProtect.argtypes = [address, size, number, ctypes.POINTER(number)]
    kernel.GetCurrentProcess.restype = address
    kernel.FlushInstructionCache.argtypes = [address, address, size]
    kernel.RtlAddFunctionTable.argtypes, kernel.RtlAddFunctionTable.restype = [address, number, address], ctypes.c_uint8
    return kernel


def image(code: bytes, frames: Sequence[Frame]) -> tuple[bytes, int]:
    """Put the descriptions of frames behind code.

    Returns:
        Both, and the place of the table of functions.
    """
    found, functions = code, b""
    for begin, end, unwinding in sorted(frames):
        found += b"\xcc" * (-len(found) % 4)
        functions += struct.pack("<III", begin, end, len(found))
        found += unwinding
    found += b"\xcc" * (-len(found) % 4)
    return found + functions, len(found)


def placed(code: bytes, frames: Sequence[Frame] = ()) -> int:
    """Put code where it can run, for as long as the process lives.

    Args:
        code: Functions, called as C code of Windows calls them.
        frames: Those that call others.

    Returns:
        Its address; 0 where the system allows no executable memory.
    """
    kernel = _kernel()
    content, table = image(code, frames)
    place = kernel.VirtualAlloc(None, len(content), _COMMIT_AND_RESERVE, _READ_WRITE)
    if not place:
        return 0
    ctypes.memmove(place, content, len(content))
    if not kernel.VirtualProtect(place, len(content), _EXECUTE_READ, ctypes.byref(ctypes.c_uint32())):
        return 0
    kernel.FlushInstructionCache(kernel.GetCurrentProcess(), place, len(content))
    if frames and not kernel.RtlAddFunctionTable(place + table, len(frames), place):
        return 0
    return int(place)


def redirect(module: int, library: str, name: str, address: int) -> bool:
    """Let a loaded library call another function in the place of one that it imports by name.

    Args:
        module: Where it is loaded.
        library: The name of the file that it imports the function from; letter case does not matter.
        name: The function.
        address: What is called instead.

    Returns:
        Whether it imports such a function, and calls the other one now.
    """
    word, text = ctypes.c_uint32.from_address, ctypes.string_at
    headers = module + word(module + 0x3C).value
    entry = module + word(headers + 0x90).value  # the directory of imports of an image of 64 bits
    while stored := word(entry + 12).value:
        if text(module + stored).decode("latin-1").lower() == library.lower():
            names, pointers = module + word(entry).value, module + word(entry + 16).value
            while found := ctypes.c_uint64.from_address(names).value:
                if not found >> 63 and text(module + found + 2).decode("latin-1") == name:
                    return _overwritten(pointers, address)
                names, pointers = names + 8, pointers + 8
        entry += 20
    return False


def _overwritten(place: int, address: int) -> bool:
    """Write to memory that is only read otherwise."""
    before = ctypes.c_uint32()
    protect = _kernel().VirtualProtect
    if not protect(place, 8, _READ_WRITE, ctypes.byref(before)):
        return False
    ctypes.c_uint64.from_address(place).value = address
    return bool(protect(place, 8, before.value, ctypes.byref(ctypes.c_uint32())))
