"""Machine code that stays where it was put until the process ends."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.executable import executable
from ort_py_onednn.binding.library import Library, find
from ort_py_onednn.binding.windows import WINDOWS

_RETURN = b"\xc3"


def _is_executable(address: int) -> bool:
    """Whether the system has an executable mapping at an address."""
    for line in Path("/proc/self/maps").read_text(encoding="ascii").splitlines():
        span, rights = line.split()[:2]
        begin, end = (int(part, 16) for part in span.split("-"))
        if begin <= address < end:
            return "x" in rights
    return False


def test_code_stays_although_nothing_refers_to_it() -> None:
    """Objects that are collected after their modules were torn down still call it."""
    library = find()
    if not isinstance(library, Library):
        pytest.skip(library.reason)
    address = executable(_RETURN)
    if not address:
        pytest.skip("the system allows no executable memory")
    gc.collect()
    assert WINDOWS or _is_executable(address)
    ffi.cast("void (*)(void)", address)()
