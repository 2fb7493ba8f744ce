"""Exceptions on Windows pass frames of own code, and what is not an exception of C++ passes those that catch."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.calls import native_loop
from ort_py_onednn.binding.structured_exceptions import stubs
from ort_py_onednn.binding.windows import WINDOWS

pytestmark = pytest.mark.skipif(not WINDOWS, reason="only Windows has exceptions of this form")

_INVALID = """
from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.executable import executable
from ort_py_onednn.binding.structured_exceptions import stubs

bad = executable(bytes.fromhex("31c0 8b00 c3"))  # xor eax, eax; mov eax, [rax]; ret
ffi.cast("int (*)(void)", stubs({"bad": (bad, 0)})["bad"])()
print("it was caught")
"""


def test_an_exception_passes_the_loop() -> None:
    """Its frames, and the entry in front of it, are described: the exception arrives where it is caught."""
    throw = ctypes.cast(getattr(ctypes.CDLL("msvcp140.dll"), "?_Xbad_alloc@std@@YAXXZ"), ctypes.c_void_p).value
    records = ffi.new("intptr_t[]", [throw, 0, 0, 0, 0, 0xFFFFFFFF, *[0] * 6])
    run = ffi.cast("int (*)(intptr_t *)", stubs({"loop": (native_loop(), 1)})["loop"])
    for _ in range(3):
        assert run(records) == 1


def test_an_invalid_address_is_not_caught() -> None:
    """The process ends, or its own handler reports it; nothing is made a status."""
    found = subprocess.run([sys.executable, "-c", _INVALID], capture_output=True, text=True, timeout=120, check=False)
    assert found.returncode != 0
    assert "it was caught" not in found.stdout
