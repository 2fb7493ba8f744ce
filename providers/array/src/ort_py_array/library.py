"""The kernels of the library, found by operator. Imports modules of kernels by need, see `families`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module

from ort_py.contracts.kernel import KernelCatalog, KernelDef
from ort_py.contracts.kernel import kernel_defs as _collect

__all__ = ["LibraryKernels", "families_by_operator", "kernel_defs"]


def kernel_defs() -> list[KernelDef]:
    """All kernels of the library, in the order of `families` and of their definitions; imports all modules."""
    from ort_py_array.families import FAMILIES  # a session without such kernels does not need the table

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
    from ort_py_array.families import FAMILIES

    return families_by_operator(FAMILIES)


def families_by_operator(families: Mapping[str, str]) -> dict[tuple[str, str], list[str]]:
    """Modules of kernels by (domain, operator), of a table like `families.FAMILIES`: module → operators.

    Args:
        families: Operators of each module, between spaces; ``domain:Operator`` outside of ``ai.onnx``.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for family, operators in families.items():
        for operator in operators.split():
            domain, _, op_type = operator.rpartition(":")
            found.setdefault((domain, op_type), []).append(family)
    return found
