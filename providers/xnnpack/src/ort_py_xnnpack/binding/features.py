"""Features of the processor that decide what XNNPACK is given. A leaf."""

from __future__ import annotations

import ctypes
import platform
import sys
from functools import cache
from pathlib import Path

__all__ = ["has_half_arithmetic", "has_outer_products"]

_HWCAP, _HWCAP2 = 16, 26
_HALVES = 1 << 9 | 1 << 10
_SME = 1 << 23
"""Bits of `getauxval` of Linux: https://docs.kernel.org/arch/arm64/elf_hwcaps.html."""


@cache
def has_outer_products() -> bool:
    """Return whether this is an ARM processor with the Scalable Matrix Extension.

    XNNPACK has code of its own for integers there. On the only processor of this kind that it was tried on, an emulated
    one, its convolutions of 8 bits gave wrong integers for some data; without the extension, all were right.
    """
    return _has_of_arm("FEAT_SME", _HWCAP2, _SME)


@cache
def has_half_arithmetic() -> bool:
    """Return whether the processor computes with numbers of float16: ARM's FP16, or AVX512-FP16."""
    if platform.machine().lower() in {"x86_64", "amd64"}:
        listed = Path("/proc/cpuinfo")
        return sys.platform.startswith("linux") and listed.is_file() and b" avx512_fp16" in listed.read_bytes()
    return _has_of_arm("FEAT_FP16", _HWCAP, _HALVES)


def _has_of_arm(name: str, word: int, bits: int) -> bool:
    """Return whether this is an ARM processor with a feature.

    Args:
        name: That of the feature on macOS.
        word, bits: Those of it on Linux.
    """
    if platform.machine().lower() not in {"aarch64", "arm64"}:
        return False
    if sys.platform == "darwin":
        found, size = ctypes.c_int(0), ctypes.c_size_t(ctypes.sizeof(ctypes.c_int))
        failed = ctypes.CDLL(None).sysctlbyname(
            f"hw.optional.arm.{name}".encode(), ctypes.byref(found), ctypes.byref(size), None, ctypes.c_size_t(0)
        )
        return not failed and bool(found.value)
    if sys.platform.startswith("linux"):
        ask = ctypes.CDLL(None).getauxval
        ask.restype, ask.argtypes = ctypes.c_ulong, [ctypes.c_ulong]
        return bool(ask(word) & bits == bits)
    return False
