"""In which element type sums are formed: narrow floats are widened to float32 and rounded once at the end.

Used by every family that multiplies and adds (matmul, convolution, pooling, normalisation, recurrence, resize). Knows
dtypes only by name, because bfloat16 is not a type of NumPy itself.
"""

from __future__ import annotations

from typing import Any

from ort_py.contracts.graph_view import Array

__all__ = ["is_narrow", "rounded", "widened"]

_NARROW = frozenset(("float16", "bfloat16"))


def is_narrow(dtype: Any) -> bool:
    """Whether sums of this dtype are formed in float32 instead."""
    return dtype.itemsize == 2 and dtype.name in _NARROW


def widened(xp: Any, x: Array) -> Array:
    """`x` itself, or as float32 where its type is too narrow to add up in."""
    # The size first: a dtype makes its name anew each time it is asked, which takes longer than small kernels do.
    return x.astype(xp.float32) if x.itemsize == 2 and x.dtype.name in _NARROW else x


def rounded(y: Array, dtype: Any) -> Array:
    """`y` itself, or rounded to the operator's output type."""
    return y if y.dtype == dtype else y.astype(dtype)
