"""Estimated memory of a primitive: what oneDNN holds for its description and for its generated code.

OneDNN does not tell these sizes. The numbers are means over the primitives of trained models, with AVX2 and with
AVX-512; the C library's own statistics were read around the calls that create them. `tests/binding/test_footprint.py`
measures again and compares. It uses only the names of primitives and implementations.
"""

from __future__ import annotations

__all__ = ["primitive_bytes"]

_KIB = (
    ("brgconv_strided", 193),
    ("brgconv_1x1", 66),
    ("brgconv", 80),
    ("brdgmm", 66),
    ("brgemm:", 173),
    ("simple", 10),
    ("reorder", 14),
    ("brg_matmul", 320),
    ("brg:", 128),
)
"""Sizes where the name of the primitive, or of its implementation, contains a text; the first that matches counts."""

_OTHER_KIB = 38


def primitive_bytes(call: str, implementation: str) -> int:
    """The bytes that a primitive takes once its code is generated, estimated from its name and its implementation's."""
    name = f"{call} {implementation}"
    return next((size for text, size in _KIB if text in name), _OTHER_KIB) << 10
