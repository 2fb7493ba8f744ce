"""Properties of the CPU's arithmetic on 8-bit integers. Does not depend on ONNX."""

from __future__ import annotations

from ort_py_onednn.binding.library import open_library

__all__ = ["NO_EXACT_INTEGERS", "has_exact_integers"]

_VNNI = 0x48
"""Bits of the instruction sets with a dot product of bytes that adds to 32 bits, for 256 and for 512 bits."""

NO_EXACT_INTEGERS = "without VNNI the CPU adds pairs of products in 16 bits, where they overflow"


def has_exact_integers() -> bool:
    """Return whether products of 8-bit integers are exact: without VNNI, sums of two are cut to 16 bits on the way."""
    return bool(open_library().isa & _VNNI)
