"""Keys and values of the past in front of the new ones, which attention operators can put there themselves.

Used by the fusions of attention. The operator then writes the present keys and values; whatever else reads these must
not lead back to its own inputs. PyTorch's older exporter cuts the mask to the length of the present keys: such shapes
are computed from those of the past and of the new keys instead.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ort_py.contracts import GraphEditor, NodeSpec, NodeTemplate, ValueSpec
from ort_py.lazy_dataclass import dataclass
from ort_py.transforms.attention.parts import operator, shape_of

_SEARCHED = 400
"""Nodes looked at behind a cache for those that the attention reads: they would come before and after it."""


@dataclass(frozen=True, slots=True)
class Past:
    """The two Concats that put the past in front of new keys and values; each tuple is (keys, values).

    Attributes:
        shapes: Nodes that read the shape of the present keys or values for the attention itself. They have to be
            replaced before the operator takes over the Concats; see `without_shapes`.
    """

    nodes: tuple[NodeSpec, NodeSpec]
    past: tuple[ValueSpec, ValueSpec]
    new: tuple[ValueSpec, ValueSpec]
    present: tuple[ValueSpec, ValueSpec]
    shapes: tuple[NodeSpec, ...] = ()


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
    if nodes[0].name == nodes[1].name:
        return None
    inputs, shapes = [*others, *past, *new], tuple[NodeSpec, ...]()
    if _leads_to(graph, nodes, inputs, inside):
        shapes = tuple(reader for node in nodes for reader in _readers(graph, node) if _is_shape(reader))
        if not shapes or _leads_to(graph, nodes, inputs, [*inside, *shapes]):
            return None
    return Past((nodes[0], nodes[1]), (past[0], past[1]), (new[0], new[1]), (present[0], present[1]), shapes)


def without_shapes(graph: GraphEditor, past: Past) -> None:
    """Compute the shapes of present keys and values that the attention needs from those of the past and the new."""
    for node in past.shapes:
        source, result = node.inputs[0], node.outputs[0]
        assert source is not None
        assert result is not None
        place = [one.name for one in past.present].index(source.name)
        counted, axis = _counted(graph, past.new[place])
        where = graph.add_constant(f"{result.name}/axis", np.array([axis], np.int64))
        length = graph.add_constant(f"{result.name}/length", np.array([0, 0, 1, 0], np.int64))
        before, shape, rows, longer = (
            graph.free_name(f"{result.name}/{part}") for part in ("past", "new", "rows", "longer")
        )
        templates = [
            NodeTemplate("Shape", (past.past[place].name,), (before,)),
            NodeTemplate("Shape", (counted,), (shape,)),
            NodeTemplate("Gather", (shape, where), (rows,)),
            NodeTemplate("Mul", (rows, length), (longer,)),
            NodeTemplate("Add", (before, longer), (result.name,)),
        ]
        graph.replace_nodes([node], templates)


def _counted(graph: GraphEditor, new: ValueSpec) -> tuple[str, int]:
    """A value and the axis of it that counts new keys: an input if there is one, since its shape is known first."""
    shape = shape_of(new)
    length = None if shape is None else shape[2]
    if isinstance(length, str):
        for value in graph.view.inputs:
            sizes = shape_of(value)
            if sizes is not None and length in sizes:
                return value.name, sizes.index(length)
    return new.name, 2


def _is_shape(node: NodeSpec) -> bool:
    return node.op_type == "Shape" and not node.domain and not node.attributes


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
