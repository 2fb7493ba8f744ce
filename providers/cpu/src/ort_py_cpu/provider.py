"""What a session holds: the kernels of the operator library on NumPy arrays of the host.

Everything else is the contract's default: claims by kernel look-up, host memory, no streams, nothing compiled.
"""

from __future__ import annotations

from ort_py.contracts import IExecutionProvider, KernelCatalog
from ort_py.dtypes import DataType
from ort_py_array import LibraryKernels

__all__ = ["CpuProvider"]

_KERNELS = LibraryKernels()

_EMULATED = frozenset({DataType.FLOAT16, DataType.BFLOAT16})


class CpuProvider(IExecutionProvider):
    """Runs every operator of `ort_py_array` with NumPy. Holds no state of its own, so `close` has nothing to do."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def name(self) -> str:
        """As registered by the plug-in."""
        return self._name

    @property
    def widened_types(self) -> frozenset[DataType]:
        """NumPy has no arithmetic for these: each kernel widens what it reads and rounds what it writes."""
        return _EMULATED

    def kernel_registry(self) -> KernelCatalog:
        """The whole operator library."""
        return _KERNELS
