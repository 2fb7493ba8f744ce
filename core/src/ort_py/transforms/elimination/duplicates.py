"""Constants with equal content, and nodes that compute what an earlier node of the same graph computes already."""

from __future__ import annotations

from collections.abc import Hashable
from math import prod
from typing import Any

import numpy as np

from ort_py.contracts import GraphEditor, GraphTransform, NodeSpec, TransformContext, TransformResult, ValueSpec
from ort_py.transforms.folding.repeatable import is_repeatable


class _InEachGraph(GraphTransform):
    """Changes each graph for itself: what a branch computes may not be needed outside."""

    def run(self, graph: GraphEditor, context: TransformContext) -> TransformResult:
        changes = 0
        pending = [graph]
        while pending:
            editor = pending.pop()
            changes += self._run_one(editor)
            pending.extend(editor.subgraphs())
        return TransformResult(changes)

    def _run_one(self, graph: GraphEditor) -> int:
        raise NotImplementedError


class MergeDuplicateInitializers(_InEachGraph):
    """Lets readers of the later constant read the first of the same graph. Those that callers may override stay."""

    name = "DuplicateInitializers"

    def _run_one(self, graph: GraphEditor) -> int:
        changes = 0
        first: dict[str, str] = {}
        for value in graph.constants():
            if graph.is_output(value):
                continue  # its name is promised
            kept = first.setdefault(graph.constant_key(value), value.name)
            if kept != value.name and graph.uses(value):
                graph.replace_uses(value, kept)
                changes += 1
        return changes


_SMALL = 256
"""Bytes up to which two constants are compared by content: scalars, shapes and axes, which exporters write again for
each use. Larger ones that are equal are held once anyway."""


class EliminateCommonSubexpressions(_InEachGraph):
    """Lets readers of the later node read the earlier one's outputs."""

    name = "CommonSubexpressionElimination"

    def _run_one(self, graph: GraphEditor) -> int:
        changes = 0
        first: dict[Hashable, tuple[ValueSpec | None, ...]] = {}
        lone: dict[Hashable, NodeSpec | None] = {}
        contents: dict[str, Hashable] = {}
        returned = {value.name for value in graph.view.outputs}
        for known in graph.nodes:
            node = graph.node(known) if changes else known
            assert node is not None  # only the node at hand is ever removed
            inputs = tuple([value and _input_key(value, graph, contents) for value in node.inputs])
            kind = node.op_type, node.domain, node.since_version, inputs
            other = lone.setdefault(kind, node)
            if other is node or not is_repeatable(node):
                continue  # attributes are compared only where inputs are equal
            if other is not None:
                lone[kind], first[kind, _attributes(other)] = None, other.outputs
            key = kind, _attributes(node)
            earlier = first.setdefault(key, node.outputs)
            pairs = [(old, new) for old, new in zip(node.outputs, earlier, strict=True) if old and new]
            if earlier is node.outputs or any(returned.issuperset((old.name, new.name)) for old, new in pairs):
                continue  # where the graph returns both, one of the names would need a copy, which is not a gain
            for old, new in pairs:
                graph.replace_uses(old.name, new.name)
            graph.replace_nodes([node], ())
            # A value may have taken over the name of a graph output.
            taken = {new.name: old for old, new in pairs if old.name in returned}
            first[key] = tuple([new and taken.get(new.name, new) for new in earlier])
            changes += 1
        return changes


def _attributes(node: NodeSpec) -> Hashable:
    """The attributes of a node, and which of its operator's outputs it writes, to be compared."""
    attributes = sorted((name, _attribute_key(value)) for name, value in node.attributes.items())
    return repr(attributes) if attributes else "", tuple([value is not None for value in node.outputs])


def _input_key(value: ValueSpec, graph: GraphEditor, contents: dict[str, Hashable]) -> Hashable:
    if not value.constant:
        return value.name
    if value.name not in contents:
        contents[value.name] = value.name
        sizes = value.shape if value.shape is not None else (None,)
        if all(isinstance(size, int) for size in sizes):
            count = prod(size for size in sizes if isinstance(size, int))
            array = graph.constant(value) if count <= _SMALL else None
            if array is not None and array.nbytes <= _SMALL:
                contents[value.name] = _array_key(array)
    return contents[value.name]


def _array_key(array: Any) -> tuple[str, tuple[int, ...], Hashable]:
    content: Hashable = tuple(array.ravel().tolist()) if array.dtype.hasobject else array.tobytes()
    return str(array.dtype), tuple(array.shape), content


def _attribute_key(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _array_key(value)
    if isinstance(value, tuple) and value and isinstance(value[0], np.ndarray):
        return tuple([_attribute_key(item) for item in value])
    return type(value).__name__, value
