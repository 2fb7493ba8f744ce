"""What a session holds: the kernels of the operator library on NumPy arrays of the host.

Everything else is the contract's default: claims by kernel look-up, host memory, no streams, nothing compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import ort_py_array
from ort_py.contracts import IExecutionProvider, KernelDef

__all__ = ["CpuProvider"]


@cache
def _kernels() -> tuple[KernelDef, ...]:
    """The library's declarations, collected once a process: importing all families takes tens of milliseconds."""
    return tuple(ort_py_array.kernel_defs())


class CpuProvider(IExecutionProvider):
    """Runs every operator of `ort_py_array` with NumPy. Holds no state of its own, so `close` has nothing to do."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def name(self) -> str:
        """As registered by the plug-in."""
        return self._name

    def kernel_registry(self) -> Sequence[KernelDef]:
        """The whole operator library."""
        return _kernels()
