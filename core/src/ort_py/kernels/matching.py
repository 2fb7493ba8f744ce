"""Matching of kernels and nodes, with every reason for every candidate that does not fit.

Functions over `KernelDef` and `NodeSpec`; the registry keeps the candidates.
"""

from __future__ import annotations

from collections.abc import Iterable

from ort_py.contracts import KernelDef, KernelMatch, NodeSpec
from ort_py.errors import operator_title

__all__ = ["match_kernel", "overlap", "refusal_of"]


def refusal_of(definition: KernelDef, node: NodeSpec) -> str | None:
    """Explain why a kernel of the node's operator does not fit it; None if it fits."""
    reasons: list[str] = []
    if not definition.since <= node.since_version <= definition.last:
        reasons.append(f"the node needs version {node.since_version}")
    for variable, allowed in definition.types.items():
        bound = node.type_bindings.get(variable)
        if bound is not None and bound not in allowed:
            reasons.append(f"{variable} is {bound}")
    if not reasons and definition.refuses is not None:
        try:
            reason = definition.refuses(node)
        except Exception as error:  # a plug-in's code: the node is left to others, with the reason
            reason = f"its function `refuses` raised {type(error).__name__}: {error}"
        reasons += [reason] if reason else []
    return f"kernel {definition}: {', '.join(reasons)}" if reasons else None


def match_kernel(candidates: Iterable[KernelDef], node: NodeSpec) -> KernelMatch:
    """The first candidate that fits, else every refusal. Candidates never overlap, so order does not matter."""
    refusals: list[str] = []
    for definition in candidates:
        refusal = refusal_of(definition, node)
        if refusal is None:
            return KernelMatch(definition)
        refusals.append(refusal)
    if not refusals:
        refusals.append(f"no kernel for {operator_title(node.op_type, node.domain)}")
    return KernelMatch(None, tuple(refusals))


def overlap(left: KernelDef, right: KernelDef) -> str | None:
    """Describe in words the nodes that two kernels of one operator both claim; None if no node could match both."""
    first, last = max(left.since, right.since), min(left.last, right.last)
    if first > last:
        return None
    shared: list[str] = []
    for variable in sorted(left.types.keys() & right.types.keys()):
        both = left.types[variable] & right.types[variable]
        if not both:
            return None
        shared.append(f"{variable}: {', '.join(sorted(both))}")
    versions = f"version {first}" if first == last else f"versions {first} to {last}"
    return f"{versions} for {'; '.join(shared) or 'every type'}"
