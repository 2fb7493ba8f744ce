"""Exceptions on Windows pass frames of own code, and what is not an exception of C++ passes those that catch."""

from __future__ import annotations

import ctypes

import pytest

from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.calls import native_loop
from ort_py_onednn.binding.executable import executable
from ort_py_onednn.binding.structured_exceptions import stubs
from ort_py_onednn.binding.windows import WINDOWS

pytestmark = pytest.mark.skipif(not WINDOWS, reason="only Windows has exceptions of this form")

_READ_NOTHING = bytes.fromhex("31c0 8b00 c3")  # xor eax, eax; mov eax, [rax]; ret


def test_an_exception_passes_the_loop() -> None:
    """Its frames, and the entry in front of it, are described: the exception arrives where it is caught."""
    throw = ctypes.cast(getattr(ctypes.CDLL("msvcp140.dll"), "?_Xbad_alloc@std@@YAXXZ"), ctypes.c_void_p).value
    records = ffi.new("intptr_t[]", [throw, 0, 0, 0, 0, 0xFFFFFFFF, *[0] * 6])
    run = ffi.cast("int (*)(intptr_t *)", stubs({"loop": (native_loop(), 1)})["loop"])
    for _ in range(3):
        assert run(records) == 1


def test_an_invalid_address_is_not_caught() -> None:
    """It is no exception of C++: it passes to ctypes, which reports it."""
    stub = stubs({"bad": (executable(_READ_NOTHING), 0)})["bad"]
    with pytest.raises(OSError, match="access violation"):
        ctypes.CFUNCTYPE(ctypes.c_int)(stub)()
