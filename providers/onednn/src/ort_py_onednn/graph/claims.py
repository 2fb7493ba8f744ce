"""A graph's claims: what can run, cut into convex groups, and of these the ones whose work pays for a call.

A group without a product or a large tensor stays with the provider that completes: for a few numbers NumPy is faster
than a region's call. Knows nothing of how a region is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ort_py.contracts import Capability, Claim, ClaimKind, GraphView, NodeSpec, Refusal
from ort_py_onednn.graph.support import HEAVY, refusal

__all__ = ["capability", "convex_groups"]

_LARGE = 8192
"""Elements of a tensor from which an operator of a few instructions an element pays for a call."""

_UNKNOWN = 16
"""Size taken for a dimension that is not known before a run."""

_SMALL = "too little work for a call to oneDNN: no product, and no tensor of 8192 elements or more"


def capability(graph: GraphView, *, small: bool = False) -> Capability:
    """The provider's answer.

    Args:
        graph: The graph.
        small: Take groups too that do not pay.
    """
    refusals: list[Refusal] = []
    able: set[int] = set()
    for node in graph.nodes:
        reason = refusal(node, graph)
        if reason is None:
            able.add(node.index)
        else:
            refusals.append(Refusal(node.index, reason))
    claims: list[Claim] = []
    for group in convex_groups(graph, able):
        if small or any(_pays(graph.nodes[index]) for index in group):
            claims.append(Claim(group, ClaimKind.COMPILE, f"one of {len(group)} oneDNN operations"))
        else:
            refusals += [Refusal(index, _SMALL) for index in group]
    return Capability(tuple(claims), tuple(refusals))


def _pays(node: NodeSpec) -> bool:
    if node.op_type in HEAVY:
        return True
    value = node.outputs[0]
    shape = None if value is None else value.shape
    if shape is None or node.op_type in {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Identity"}:
        return False
    return math.prod(dim if isinstance(dim, int) else _UNKNOWN for dim in shape) >= _LARGE


def convex_groups(graph: GraphView, able: Iterable[int]) -> list[tuple[int, ...]]:
    """Connected groups that no path leaves and enters again, each as large as a walk in order makes it.

    A node's level counts how often the paths to it left the set and came back: what is of one level is convex together.
    """
    wanted = set(able)
    level = [0] * len(graph.nodes)
    for node in graph.nodes:
        for value in node.outputs:
            for reader in graph.consumers(value.name) if value is not None else ():
                after = level[node.index] + (node.index in wanted and reader not in wanted)
                level[reader] = max(level[reader], after)
    groups: list[tuple[int, ...]] = []
    left = set(wanted)
    for start in sorted(wanted):
        if start not in left:
            continue
        left.discard(start)
        group, pending = [start], [start]
        while pending:
            for near in _neighbours(graph, pending.pop()):
                if near in left and level[near] == level[start]:
                    left.discard(near)
                    group.append(near)
                    pending.append(near)
        groups.append(tuple(sorted(group)))
    return groups


def _neighbours(graph: GraphView, index: int) -> Sequence[int]:
    node = graph.nodes[index]
    found: list[int] = []
    for value in node.outputs:
        if value is not None:
            found += graph.consumers(value.name)
    for value in node.inputs:
        producer = graph.producer(value.name) if value is not None else None
        if producer is not None:
            found.append(producer)
    return found
