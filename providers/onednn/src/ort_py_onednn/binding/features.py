"""Properties of the CPU's arithmetic on 8-bit integers. Does not depend on ONNX."""

from __future__ import annotations

from ort_py_onednn.binding.instructions import AVX512_VNNI, AVX_VNNI
from ort_py_onednn.binding.library import open_library

__all__ = ["NO_EXACT_INTEGERS", "has_exact_integers"]

NO_EXACT_INTEGERS = "without VNNI the CPU adds pairs of products in 16 bits, where they overflow"


def has_exact_integers() -> bool:
    """Return whether products of 8-bit integers are exact: without VNNI, sums of two are cut to 16 bits on the way."""
    return bool(open_library().isa & (AVX_VNNI | AVX512_VNNI))
