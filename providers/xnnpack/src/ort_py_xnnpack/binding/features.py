"""Features of the processor that decide what XNNPACK is given. A leaf."""

from __future__ import annotations

import ctypes
import platform
import sys
from functools import cache

__all__ = ["has_outer_products"]

_HWCAP2 = 26
_HWCAP2_SME = 1 << 23
"""Of `getauxval` of Linux: https://docs.kernel.org/arch/arm64/elf_hwcaps.html."""


@cache
def has_outer_products() -> bool:
    """Return whether this is an ARM processor with the Scalable Matrix Extension.

    XNNPACK has code of its own for integers there. On the only processor of this kind that it was tried on, an emulated
    one, its convolutions of 8 bits gave wrong integers for some data; without the extension, all were right.
    """
    if platform.machine().lower() not in {"aarch64", "arm64"}:
        return False
    if sys.platform == "darwin":
        found, size = ctypes.c_int(0), ctypes.c_size_t(ctypes.sizeof(ctypes.c_int))
        failed = ctypes.CDLL(None).sysctlbyname(
            b"hw.optional.arm.FEAT_SME", ctypes.byref(found), ctypes.byref(size), None, ctypes.c_size_t(0)
        )
        return not failed and bool(found.value)
    if sys.platform.startswith("linux"):
        ask = ctypes.CDLL(None).getauxval
        ask.restype, ask.argtypes = ctypes.c_ulong, [ctypes.c_ulong]
        return bool(ask(_HWCAP2) & _HWCAP2_SME)
    return False
