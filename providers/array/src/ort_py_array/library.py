"""The kernels of the library, found by operator. Imports modules of kernels by need, see `families`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module

from ort_py.contracts.kernel import KernelCatalog, KernelDef
from ort_py.contracts.kernel import kernel_defs as _collect
from ort_py_array.families import FAMILIES

__all__ = ["LibraryKernels", "kernel_defs"]


def kernel_defs() -> list[KernelDef]:
    """All kernels of the library, in the order of `families` and of their definitions; imports all modules."""
    return [definition for family in FAMILIES for definition in _declared(family)]


class LibraryKernels(KernelCatalog):
    """The library's kernels, imported operator by operator."""

    def kernels_of(self, domain: str, op_type: str) -> Sequence[KernelDef]:
        return [
            definition
            for family in _families_of().get((domain, op_type), ())
            for definition in _declared(family)
            if (definition.domain, definition.op_type) == (domain, op_type)
        ]

    def __iter__(self) -> Iterator[KernelDef]:
        return iter(kernel_defs())


@cache
def _declared(family: str) -> tuple[KernelDef, ...]:
    return tuple(_collect(import_module(f"{__package__}.{family}")))


@cache
def _families_of() -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = {}
    for family, operators in FAMILIES.items():
        for operator in operators.split():
            domain, _, op_type = operator.rpartition(":")
            found.setdefault((domain, op_type), []).append(family)
    return found
