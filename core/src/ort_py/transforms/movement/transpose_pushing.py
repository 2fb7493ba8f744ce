"""Transposes moved behind the operators that read them, where fewer are left then.

From a Transpose on, a region of operators that compute as well on what it reads (`transposed_operators`) grows node by
node. Transposes that lead into it or out of it fall away or merge; values that others read are transposed at the
border. The best region met is taken, if it has fewer Transposes than before: so the rule cannot go in circles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TypeVar

import numpy as np

from ort_py.contracts import GraphEditor, NodeSpec, NodeTemplate, RewriteRule, TransformContext, ValueSpec
from ort_py.lazy_dataclass import dataclass
from ort_py.transforms.movement.transposed_operators import Permutation, Pushed, is_identity, push
from ort_py.transforms.movement.transposes import permutation_of

_LARGEST = 24
"""Nodes of a region: beyond, looking costs more than it finds."""

_MOST_READERS = 8
"""Readers of a value that are looked at; one with more is transposed at the border."""


class PushTransposes(RewriteRule):
    """Unary and elementwise operators, Concat, Split, Slice, Pad, Softmax, reductions, Squeeze and Unsqueeze."""

    name = "TransposeOptimizer"
    op_types = frozenset({"Transpose"})

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        start = permutation_of(node)
        if node.domain or start is None or node.inputs[0] is None or node.outputs[0] is None or is_identity(start):
            return False
        region = _Region(node, start, graph)
        best: tuple[int, list[NodeSpec]] = (0, [])
        while len(region.nodes) < _LARGEST and region.grow():
            saved = region.saved()
            if saved > best[0]:
                best = (saved, list(region.nodes))
        if not region.nodes:
            return False
        if not best[1]:
            return "as many Transposes would be needed behind the operators that read it"
        region.take(best[1])
        region.apply()
        return True


@dataclass(slots=True)
class _Region:
    """Nodes to be computed on what a Transpose reads.

    Attributes:
        nodes: The nodes, each after those of them that it reads.
        known: Values in the region, and how they are transposed; those that other Transposes bring included.
        sources: Name of the value that is read instead of each value that a Transpose writes.
    """

    start: NodeSpec
    permutation: Permutation
    graph: GraphEditor
    nodes: list[NodeSpec] = field(default_factory=list)
    pushed: dict[str, Pushed] = field(default_factory=dict)
    known: dict[str, Permutation] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    _read: dict[str, Sequence[NodeSpec]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._enter(self.start, self.permutation)

    def _enter(self, node: NodeSpec, permutation: Permutation) -> None:
        source, value = node.inputs[0], node.outputs[0]
        assert source is not None
        assert value is not None
        self.known[value.name] = permutation
        self.sources[value.name] = source.name

    # Growing ----------------------------------------------------------------------------------------------------------

    def grow(self) -> bool:
        """Take one more node in; False where none can be."""
        inside = {node.name for node in self.nodes}
        for name in list(self.known):
            for reader in self._readers(name) if self.graph.uses(name) <= _MOST_READERS else ():
                if reader.name in inside or reader.op_type == "Transpose":
                    continue
                if self._add(reader):
                    return True
        return False

    def _add(self, node: NodeSpec) -> bool:
        """Take one more node in; leaves the region as it was where it cannot be computed.

        All others are computed anew only where one of them reads what it writes.
        """
        outputs = set(_names(node.outputs))
        read = {name for one in self.nodes for name in _names(one.inputs)}
        if not outputs.isdisjoint(read) or not outputs.isdisjoint(self.sources.values()):
            return self.take([*self.nodes, node])
        sources = set(self.sources)
        if self._push(node, {name for one in self.nodes for name in _names(one.outputs)} | outputs):
            return True
        for name in [name for name in self.sources if name not in sources]:
            del self.sources[name], self.known[name]
        return False

    def _readers(self, name: str) -> Sequence[NodeSpec]:
        found = self._read.get(name)
        if found is None:
            found = self._read[name] = self.graph.readers(name)
        return found

    def take(self, nodes: list[NodeSpec]) -> bool:
        """Compute how all nodes are computed; leaves the region as it was where one cannot be."""
        before = self.pushed, self.known, self.sources, self.nodes
        self.pushed, self.known, self.sources, self.nodes = {}, {}, {}, []
        self._enter(self.start, self.permutation)
        inside = {name for node in nodes for name in _names(node.outputs)}
        for node in _sorted(nodes):
            if not self._push(node, inside):
                self.pushed, self.known, self.sources, self.nodes = before
                return False
        return True

    def _push(self, node: NodeSpec, inside: set[str]) -> bool:
        """Compute how one more node is computed, which none of the others reads; False where it cannot be.

        Args:
            inside: Values that the region computes.
        """
        self._enter_transposes(node, inside)
        touched = any(value is not None and value.name in self.known for value in node.inputs)
        pushed = push(node, self.known, self.graph) if touched else None
        if pushed is None:
            return False
        self.nodes.append(node)
        self.pushed[node.name] = pushed
        for value, permutation in zip(node.outputs, pushed.outputs, strict=True):
            if value is not None:
                self.known[value.name] = permutation
        return True

    def _enter_transposes(self, node: NodeSpec, inside: set[str]) -> None:
        """Let a node read what a Transpose reads that would have to be undone, if the region does not compute that."""
        wanted = {self.known[value.name] for value in node.inputs if value is not None and value.name in self.known}
        for value in node.inputs:
            if value is None or value.name in self.known:
                continue
            producer = self.graph.producer(value)
            if producer is None or producer.op_type != "Transpose" or producer.domain or producer.inputs[0] is None:
                continue
            if producer.inputs[0].name in inside:
                continue
            permutation = permutation_of(producer)
            if permutation in wanted and permutation is not None:
                self._enter(producer, permutation)

    # Counting ---------------------------------------------------------------------------------------------------------

    def saved(self) -> int:
        saved = len(self._gone())
        for value in self._values():
            saved -= self._border(value)
            saved += len(self._undone(value))
        turned = {
            (node.inputs[position], permutation)
            for node in self.nodes
            for position, permutation in self.pushed[node.name].turned.items()
        }
        return saved - len(turned)

    def _values(self) -> list[ValueSpec]:
        return [value for node in self.nodes for value in node.outputs if value is not None]

    def _gone(self) -> list[NodeSpec]:
        """Transposes that lead into the region and nowhere else."""
        inside = {node.name for node in self.nodes}
        found: list[NodeSpec] = []
        for name in self.sources:
            producer = self.graph.producer(name)
            if producer is None or self.graph.is_output(name):
                continue
            if all(reader.name in inside for reader in self._readers(name)):
                found.append(producer)
        return found

    def _border(self, value: ValueSpec) -> bool:
        """Return whether a value is needed in its original form and would require a Transpose."""
        if is_identity(self.known[value.name]):
            return False
        inside = {node.name for node in self.nodes}
        if self.graph.is_output(value):
            return True
        return any(
            reader.name not in inside and (reader.op_type != "Transpose" or bool(reader.domain))
            for reader in self._readers(value.name)
        )

    def _leaving(self, value: ValueSpec) -> list[NodeSpec]:
        return [node for node in self._readers(value.name) if node.op_type == "Transpose" and not node.domain]

    def _undone(self, value: ValueSpec) -> list[NodeSpec]:
        """Those readers that become no-ops on the replaced value."""
        return [node for node in self._leaving(value) if is_identity(self._merged(value, node))]

    def _merged(self, value: ValueSpec, node: NodeSpec) -> Permutation:
        permutation = self.known[value.name]
        behind = permutation_of(node) or tuple(reversed(range(len(permutation))))
        return tuple([permutation[axis] for axis in behind])

    # Writing ----------------------------------------------------------------------------------------------------------

    def apply(self) -> None:
        """Put the new nodes in the place of the old ones."""
        names = {**self.sources, **{value.name: self._name(value) for value in self._values()}}
        leaving = [node for value in self._values() for node in self._leaving(value)]
        # A node of the region may read what a Transpose makes of another node's result.
        templates = _sorted([*self._computed(names), *self._behind(names)])
        self.graph.replace_nodes([*self._gone(), *self.nodes, *leaving], templates)

    def _name(self, value: ValueSpec) -> str:
        """The name of the replacement of a value: the name of an existing Transpose of it, if there is one."""
        if is_identity(self.known[value.name]):
            return value.name
        undone = [output.name for node in self._undone(value) if (output := node.outputs[0]) is not None]
        return undone[0] if undone else self._fresh(f"{value.name}/untransposed")

    def _fresh(self, wanted: str) -> str:
        name, number = wanted, 1
        while self.graph.value(name) is not None:
            name, number = f"{wanted}_{number}", number + 1
        return name

    def _computed(self, names: dict[str, str]) -> list[NodeTemplate]:
        """The nodes of the region, with Transposes of inputs in front."""
        templates: list[NodeTemplate] = []
        turned: dict[tuple[str, Permutation], str] = {}
        for node in self.nodes:
            pushed = self.pushed[node.name]
            inputs = ["" if one is None else names.get(one.name, one.name) for one in node.inputs]
            for position, permutation in pushed.turned.items():
                key = (inputs[position], permutation)
                if key not in turned:
                    turned[key] = self._fresh(f"{inputs[position]}/turned_{len(turned)}")
                    templates.append(NodeTemplate("Transpose", key[:1], (turned[key],), {"perm": permutation}))
                inputs[position] = turned[key]
            for position, array in pushed.replaced.items():
                inputs += [""] * (position + 1 - len(inputs))
                inputs[position] = self.graph.add_constant(f"{node.name}/turned", np.ascontiguousarray(array))
            outputs = ["" if one is None else names[one.name] for one in node.outputs]
            templates.append(NodeTemplate(node.op_type, tuple(inputs), tuple(outputs), pushed.attributes))
        return templates

    def _behind(self, names: dict[str, str]) -> list[NodeTemplate]:
        """Transposes of what others read, or Transposes read."""
        templates: list[NodeTemplate] = []
        for value in self._values():
            computed = names[value.name]
            for node in self._leaving(value):
                output, merged = node.outputs[0], self._merged(value, node)
                if output is None or output.name == computed:
                    continue
                if is_identity(merged):
                    templates.append(NodeTemplate("Identity", (computed,), (output.name,)))
                else:
                    templates.append(NodeTemplate("Transpose", (computed,), (output.name,), {"perm": merged}))
            if self._border(value):
                permutation = self.known[value.name]
                templates.append(NodeTemplate("Transpose", (computed,), (value.name,), {"perm": permutation}))
        return templates


_Read = TypeVar("_Read", NodeSpec, NodeTemplate)


def _sorted(nodes: list[_Read]) -> list[_Read]:
    """Nodes or templates, each after those that write its inputs."""
    writers = {name: index for index, node in enumerate(nodes) for name in _names(node.outputs)}
    done: dict[int, None] = {}
    pending = list(reversed(range(len(nodes))))
    while pending:
        index = pending[-1]
        read = [writers[name] for name in _names(nodes[index].inputs) if name in writers]
        missing = [writer for writer in read if writer not in done]
        if missing and index not in done:
            pending += missing
        else:
            done[index] = None
            pending.pop()
    return [nodes[index] for index in done]


def _names(values: Sequence[ValueSpec | str | None]) -> list[str]:
    return [value if isinstance(value, str) else value.name for value in values if value]
