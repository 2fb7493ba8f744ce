"""Keys and values of the past in front of the new ones, which attention operators can put there themselves.

Used by the fusions of attention. The operator then writes the present keys and values; whatever else reads these must
not lead back to its own inputs. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from ort_py.contracts import GraphEditor, NodeSpec, ValueSpec
from ort_py.lazy_dataclass import dataclass
from ort_py.transforms.attention.parts import operator, shape_of

_SEARCHED = 400
"""Nodes looked at behind a cache for those that the attention reads: they would come before and after it."""


@dataclass(frozen=True, slots=True)
class Past:
    """The two Concats that put the past in front of new keys and values; each tuple is (keys, values)."""

    nodes: tuple[NodeSpec, NodeSpec]
    past: tuple[ValueSpec, ValueSpec]
    new: tuple[ValueSpec, ValueSpec]
    present: tuple[ValueSpec, ValueSpec]


def past_of(
    graph: GraphEditor,
    keys: ValueSpec | None,
    values: ValueSpec | None,
    others: Sequence[ValueSpec | None],
    inside: Sequence[NodeSpec],
) -> Past | None:
    """The past of an attention. None if there is none, or the operator cannot take it over.

    Args:
        keys, values: Arrays ``(batch, heads, length, size)``.
    """
    nodes, past, new, present = list[NodeSpec](), list[ValueSpec](), list[ValueSpec](), list[ValueSpec]()
    for value in (keys, values):
        node = operator(graph, value, "Concat")
        if value is None or node is None or len(node.inputs) != 2 or node.attributes.get("axis") not in (2, -2):
            return None
        before, added = node.inputs
        old, recent = shape_of(before), shape_of(added)
        if before is None or added is None or old is None or recent is None or len(old) != 4 or len(recent) != 4:
            return None
        if None in old[:2] or old[:2] != recent[:2] or old[3] is None or old[3] != recent[3]:
            return None
        nodes.append(node)
        past.append(before)
        new.append(added)
        present.append(value)
    if nodes[0].name == nodes[1].name or _leads_to(graph, nodes, [*others, *past, *new], inside):
        return None
    return Past((nodes[0], nodes[1]), (past[0], past[1]), (new[0], new[1]), (present[0], present[1]))


def _leads_to(
    graph: GraphEditor, caches: Sequence[NodeSpec], inputs: Sequence[ValueSpec | None], inside: Sequence[NodeSpec]
) -> bool:
    """Return whether a reader of the caches outside the attention computes one of its inputs, or whether this is too
    far to decide.
    """
    makers = {node.name for one in inputs if (node := graph.producer(one)) is not None}
    seen = {node.name for node in inside}
    pending = [reader for cache in caches for reader in _readers(graph, cache)]
    while pending:
        node = pending.pop()
        if node.name in seen:
            continue
        if node.name in makers or len(seen) > _SEARCHED:
            return True
        seen.add(node.name)
        pending += _readers(graph, node)
    return False


def _readers(graph: GraphEditor, node: NodeSpec) -> list[NodeSpec]:
    return [reader for output in node.outputs if output is not None for reader in graph.readers(output)]
