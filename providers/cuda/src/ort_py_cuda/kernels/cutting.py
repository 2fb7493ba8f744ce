"""The part of a kernel's declaration that remains if another kernel comes first.

A registry takes no two kernels for the same versions and types. What ours declare is cut out of the library's: its
versions before and after stay, and in between the types that ours do not name. It does not depend on operators.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ort_py.contracts.kernel import ALL_TENSORS, KernelDef

__all__ = ["without"]


def without(definitions: Iterable[KernelDef], ours: Sequence[KernelDef]) -> list[KernelDef]:
    """Declarations that together cover what `definitions` do and `ours` do not; no two of them overlap.

    Args:
        definitions: Kernels of one operator.
        ours: Kernels of the same operator that come first.
    """
    left = list(definitions)
    for cut in ours:
        left = [piece for definition in left for piece in _without(definition, cut)]
    return left


def _without(definition: KernelDef, cut: KernelDef) -> list[KernelDef]:
    first, last = max(definition.since, cut.since), min(definition.last, cut.last)
    if first > last:
        return [definition]
    pieces: list[KernelDef] = []
    if definition.since < first:
        pieces.append(definition.replace(until=first - 1))
    if definition.last > last:
        pieces.append(definition.replace(since=last + 1, until=definition.last))
    # A box minus a box: for each variable what only the one has, with the variables before it held to what both have.
    types = dict(definition.types)
    for variable, taken in cut.types.items():
        allowed = types.get(variable, ALL_TENSORS)
        rest, shared = allowed - taken, allowed & taken
        if rest:
            pieces.append(definition.replace(since=first, until=last, types={**types, variable: rest}))
        if not shared:
            return pieces
        types[variable] = shared
    return pieces
