"""Types for which a CPU has instructions, by oneDNN's numbering of instruction sets. Opens nothing."""

from __future__ import annotations

from collections.abc import Mapping

from ort_py_onednn.binding.constants import F32, Element

__all__ = ["AVX2", "AVX512", "AVX512_VNNI", "AVX_VNNI", "native_elements", "needed_instructions"]

AVX2 = 0x4
"""The bit of AVX2."""

AVX_VNNI, AVX512_VNNI = 0x8, 0x40
"""Bits of a dot product of bytes that adds to 32 bits: that of AVX2, and that of AVX-512."""

AVX512 = 0x20
"""The bit of AVX-512, without which oneDNN has slower code for some functions."""

_AVX_NE_CONVERT = 0x10
_AVX512_BF16 = 0x80
_AVX512_FP16 = 0x100
_AMX_FP16 = 0x1000
_BITS: Mapping[Element, int] = {
    # Intel's AMX has a bit for bfloat16 of its own; oneDNN takes it only together with that of AVX-512.
    Element.BF16: _AVX512_BF16 | _AVX_NE_CONVERT,
    Element.F16: _AVX512_FP16 | _AMX_FP16,
}
_NAMES: Mapping[Element, str] = {
    Element.BF16: "AVX512_BF16, AMX or AVX-NE-CONVERT",
    Element.F16: "AVX512_FP16 or AMX-FP16",
}


def native_elements(isa: int) -> frozenset[Element]:
    """Floating types with instructions; of others oneDNN has slow code, or none.

    Args:
        isa: As `Library.isa`: what oneDNN uses, which `ONEDNN_MAX_CPU_ISA` may bound.
    """
    return frozenset({F32}) | {element for element, bits in _BITS.items() if isa & bits}


def needed_instructions(element: Element) -> str:
    """The instruction sets of which one is needed."""
    return _NAMES[element]
