"""Element types that cuDNN computes on here, under NumPy's names, and what each is called on either side.

A leaf. Sums are formed in float32 throughout.
"""

from __future__ import annotations

from typing import Any

__all__ = ["FRONTEND_NAMES", "HALVES", "LEGACY_CODES", "SUPPORTED", "type_name"]

FRONTEND_NAMES = {"float32": "FLOAT", "float16": "HALF", "bfloat16": "BFLOAT16", "int32": "INT32"}
"""Members of the front end's ``data_type``."""

LEGACY_CODES = {"float32": 0, "float16": 2, "bfloat16": 9}
"""``cudnnDataType_t``."""

HALVES = frozenset({"float16", "bfloat16"})

SUPPORTED = frozenset(LEGACY_CODES)
"""What convolutions, pools, norms and recurrent layers are given to cuDNN in; other types are the array library's."""


def type_name(x: Any) -> str:
    """The name of an array's element type."""
    name: str = x.dtype.name
    return name
