"""The provider of a session: the kernels of the operator library on NumPy arrays of the host.

Everything is `ArrayModuleProvider`'s default: claims by kernel look-up, host memory, no streams, nothing compiled.
"""

from __future__ import annotations

from ort_py.dtypes import DataType
from ort_py_array import ArrayModuleProvider

__all__ = ["CpuProvider"]

_EMULATED = frozenset({DataType.FLOAT16, DataType.BFLOAT16})


class CpuProvider(ArrayModuleProvider):
    """Runs every operator of `ort_py_array` with NumPy. Holds no state of its own, so `close` has nothing to do."""

    @property
    def widened_types(self) -> frozenset[DataType]:
        """NumPy has no arithmetic for these: each kernel widens what it reads and rounds what it writes."""
        return _EMULATED

    @property
    def dequantizes_constants(self) -> bool:
        """NumPy has no fast products of integers: what reads a quantised weight computes in floating point."""
        return True
