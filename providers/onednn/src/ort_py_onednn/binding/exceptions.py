"""Conversion of C++ exceptions that the library throws into a status, so that none leaves it.

oneDNN's C functions throw ``std::bad_alloc`` where their own code finds no memory. Nothing on the way to Python catches
it, and the process would end. So each function is called through a frame of machine code that is equivalent to ``try {
return f(…); } catch (const std::bad_alloc &) { return 1; } catch (...) { return 5; }``. The frame makes the call, and
tables of the usual form define where execution continues after an exception: DWARF frames, and a language-specific data
area (Itanium C++ ABI, exception handling, level 2). They are registered with the unwinder that the library is linked
with.

Windows has tables of another form: see `structured_exceptions`.

What is thrown in another thread of OpenMP cannot be caught here. Where the system allows no executable memory, the
functions are called as they are.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping
from typing import Any

from ort_py.lazy_dataclass import dataclass
from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.executable import executable, keep_until_exit
from ort_py_onednn.binding.library import WINDOWS

__all__ = ["Guarded", "guarded"]

_STACK = 12
"""Arguments of a call that are passed on the stack at most."""

_REGISTERS = 6
_STUB = 32
_BARE = frozenset(
    {"dnnl_version", "dnnl_memory_desc_get_size", "dnnl_memory_desc_equal", "dnnl_primitive_desc_query_md"}
)
"""Functions that return no status: they look something up, and allocate nothing."""


class Guarded:
    """The functions of a library, where those that return a status never throw.

    Args:
        raw: The functions.
        stubs: Addresses of the functions that catch exceptions, by name.
    """

    def __init__(self, raw: Any, stubs: Mapping[str, int]) -> None:
        self._raw = raw
        self._stubs = stubs

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._raw, name)
        address = self._stubs.get(name)
        if address is not None:
            found = ffi.cast(ffi.typeof(found), address)
        self.__dict__[name] = found
        return found


def guarded(raw: Any) -> Any:
    """Wrap the functions of a library so that none that returns a status throws.

    Args:
        raw: The functions, as `cffi` opened them.

    Returns:
        The functions, with the names that they have; `raw` itself where nothing can be caught.
    """
    functions = {name: function for name in dir(raw) if (function := _throwing(raw, name)) is not None}
    if WINDOWS:
        from ort_py_onednn.binding import structured_exceptions

        targets = {name: (_place(one), len(ffi.typeof(one).args)) for name, one in functions.items()}
        found = structured_exceptions.stubs(targets)
        return Guarded(raw, found) if found else raw
    try:
        runtime, unwinder = ctypes.CDLL("libstdc++.so.6"), ctypes.CDLL("libgcc_s.so.1")
        register = unwinder.__register_frame
        begin, end, personality = (
            _address(runtime, name) for name in ("__cxa_begin_catch", "__cxa_end_catch", "__gxx_personality_v0")
        )
        bad_alloc = ctypes.addressof(ctypes.c_void_p.in_dll(runtime, "_ZTISt9bad_alloc"))
    except (OSError, AttributeError, ValueError):
        return raw  # another C++ runtime
    frames = [_Frame.made(words, begin, end) for words in (0, _STACK)]
    code, starts = b"", []
    for frame in frames:
        starts.append(len(code))
        code += _padded(frame.code, _STUB)
    stubs: dict[str, int] = {}
    for name, function in functions.items():
        stubs[name] = len(code)
        place = starts[_stack_words(function) > 0]
        code += _padded(_stub(_place(function), place - len(code)), _STUB)
    base = executable(code)
    if not base:
        return raw
    tables = _tables(frames, [base + start for start in starts], personality, bad_alloc)
    keep_until_exit(tables)  # they stay registered
    register.argtypes, register.restype = [ctypes.c_void_p], None
    register(tables.begin)
    return Guarded(raw, {name: base + start for name, start in stubs.items()})


def _throwing(raw: Any, name: str) -> Any:
    if not name.startswith("dnnl_") or name in _BARE:
        return None
    try:
        return getattr(raw, name)
    except AttributeError:  # of another version
        return None


def _place(function: Any) -> int:
    return int(ffi.cast("intptr_t", function))


def _address(library: ctypes.CDLL, name: str) -> int:
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0


def _stack_words(function: Any) -> int:
    arguments = ffi.typeof(function).args
    floats = sum(one.cname in {"float", "double"} for one in arguments)
    words = max(0, len(arguments) - floats - _REGISTERS)
    assert words <= _STACK, f"{function} has {words} arguments on the stack"
    return words


def _padded(code: bytes, unit: int) -> bytes:
    return code + b"\xcc" * (-len(code) % unit)


def _stub(target: int, distance: int) -> bytes:
    """Go to a frame (that lies so many bytes from here) with the function to call."""
    head = bytes.fromhex("f30f1efa 49bb") + struct.pack("<Q", target)  # endbr64; mov r11, target
    return head + b"\xe9" + struct.pack("<i", distance - len(head) - 5)  # jmp


@dataclass(frozen=True, slots=True)
class _Frame:
    """Code that calls the function in r11 and returns its result, or a status if it throws.

    Attributes:
        code: The code.
        called: Address of the call, and of the instruction after it.
        landing: Address where execution continues after an exception.
    """

    code: bytes
    called: tuple[int, int]
    landing: int

    @classmethod
    def made(cls, words: int, begin_catch: int, end_catch: int) -> _Frame:
        """The code.

        Args:
            words: Arguments on the stack, which are passed on, an even number; further ones do no harm.
            begin_catch, end_catch: Functions of the C++ runtime.
        """
        code = bytes.fromhex("f30f1efa 55 4889e5")  # endbr64; push rbp; mov rbp, rsp
        if words:
            code += bytes.fromhex("4883ec") + struct.pack("<B", 8 * words)  # sub rsp, …
        for word in range(words):
            code += bytes.fromhex("488b45") + struct.pack("<B", 16 + 8 * word)  # mov rax, [rbp + …]
            code += bytes.fromhex("48894424") + struct.pack("<B", 8 * word)  # mov [rsp + …], rax
        begin = len(code)
        code += bytes.fromhex("41ffd3")  # call r11
        end = len(code)
        code += bytes.fromhex("c9 c3")  # leave; ret
        landing = len(code)
        code += bytes.fromhex(
            "52 52 4889c7"
        )  # push rdx, twice (which of the types it is); mov rdi, rax (the exception)
        code += b"\x48\xb8" + struct.pack("<Q", begin_catch) + b"\xff\xd0"  # mov rax, …; call rax
        code += b"\x48\xb8" + struct.pack("<Q", end_catch) + b"\xff\xd0"
        # pop rdx; xor eax, eax; cmp edx, 1; setne al; lea eax, [rax * 4 + 1]; leave; ret
        code += bytes.fromhex("5a 31c0 83fa01 0f95c0 8d048501000000 c9 c3")
        return cls(code, (begin, end), landing)

    def data_area(self, bad_alloc: int) -> bytes:
        """The language-specific data area: the exceptions caught at each call, and where execution continues."""
        size = len(self.code)
        begin, end = self.called
        calls = b"".join(
            map(_uleb, (begin, end - begin, self.landing, 1, self.landing, size - self.landing, 0, 0))
        )  # the second: what is caught is freed, nothing is thrown
        actions = bytes((1, 1, 2, 0))  # the first type, else the second
        types = struct.pack("<QQ", 0, bad_alloc)  # counted from the end; 0 is any
        table = b"\x01" + _uleb(len(calls)) + calls + actions
        for pad in range(8):  # the types are to lie at an even address
            head = b"\xff\x00" + _uleb(len(table) + pad + len(types))
            if (len(head) + len(table) + pad) % 8 == 0:
                return head + table + b"\x00" * pad + types
        raise AssertionError("one of eight fits")


class _Tables:
    """Tables in memory that does not move.

    Attributes:
        begin: Address of the frames' descriptions.
    """

    def __init__(self, size: int) -> None:
        self.memory = ctypes.create_string_buffer(size + 16)
        self.begin = -(-ctypes.addressof(self.memory) // 16) * 16

    def write(self, data: bytes) -> None:
        """Fill it."""
        ctypes.memmove(self.begin, data, len(data))


def _tables(frames: list[_Frame], places: list[int], personality: int, bad_alloc: int) -> _Tables:
    """The frames' descriptions (``.eh_frame``), and their data areas behind them."""
    areas = [_padded(frame.data_area(bad_alloc), 16) for frame in frames]
    # Version, augmentation, units of code and data, the register of the return address; then absolute addresses of the
    # personality and, in each frame's own record, of code and data area; CFA = rsp + 8, return address at CFA - 8.
    common = b"\x00\x00\x00\x00\x01zPLR\x00\x01\x78\x10" + _uleb(11) + b"\x00" + struct.pack("<Q", personality)
    head = _record(common + b"\x00\x00" + bytes.fromhex("0c0708 9001"))
    first = len(head) + len(frames) * _FRAME_RECORD + 8
    first += -first % 16
    made = _Tables(first + sum(map(len, areas)))
    text, at = head, first
    for frame, place, area in zip(frames, places, areas, strict=True):
        own = struct.pack("<IQQ", len(text) + 4, place, len(frame.code)) + _uleb(8)
        own += struct.pack("<Q", made.begin + at)
        # Behind endbr64 and push: CFA = rsp + 16, rbp at CFA - 16; behind mov: CFA = rbp + 16.
        text += _record(own + bytes.fromhex("45 0e10 8602 43 0d06"))
        at += len(area)
    text += struct.pack("<Q", 0)
    made.write(text + b"\x00" * (first - len(text)) + b"".join(areas))
    return made


_FRAME_RECORD = 48


def _record(body: bytes) -> bytes:
    """With its length in front, padded with instructions that do nothing."""
    body += b"\x00" * (-(len(body) + 4) % 8)
    return struct.pack("<I", len(body)) + body


def _uleb(number: int) -> bytes:
    found = b""
    while number > 0x7F:
        found += bytes((number & 0x7F | 0x80,))
        number >>= 7
    return found + bytes((number,))
