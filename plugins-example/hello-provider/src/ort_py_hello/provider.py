"""The provider of one session. The default `get_capability` claims every node that has a kernel here."""

from __future__ import annotations

from collections.abc import Sequence

from ort_py.contracts import IExecutionProvider, KernelDef, kernel_defs
from ort_py_hello import kernels

__all__ = ["HelloProvider"]


class HelloProvider(IExecutionProvider):
    """Runs Relu and Add on the host; everything else is left to the next provider."""

    @property
    def name(self) -> str:
        """The factory's name."""
        return "HelloExecutionProvider"

    def kernel_registry(self) -> Sequence[KernelDef]:
        """The two kernels."""
        return kernel_defs(kernels)
