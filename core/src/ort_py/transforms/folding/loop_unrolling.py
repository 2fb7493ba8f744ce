"""Loops that run a few times, known beforehand: their bodies one behind the other.

What a step computes of the number of the iteration is constant then, and what comes out of one iteration is seen by the
rules that look at the next. Bodies that hold graphs themselves stay: they are unrolled first, or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ort_py.contracts import GraphEditor, GraphView, NodeSpec, NodeTemplate, RewriteRule, TransformContext, ValueSpec
from ort_py.dtypes import TensorType
from ort_py.transforms.folding.repeatable import holds_graphs

_MOST_ITERATIONS = 8
_MOST_NODES = 64
"""New nodes of one loop: beyond, the program grows more than a loop costs."""


class UnrollLoops(RewriteRule):
    """A Loop with a constant trip count and a condition that never becomes false."""

    name = "LoopUnrolling"
    op_types = frozenset({"Loop"})

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        body = node.attributes.get("body")
        count = graph.constant(node.inputs[0])
        if node.domain or not isinstance(body, GraphView) or count is None or count.size != 1:
            return False
        iterations = int(np.reshape(count, ()))
        reason = _unfit(node, body, iterations, graph)
        if reason:
            return reason
        unrolled = _Unrolled(node, body, iterations, graph)
        templates = unrolled.templates()
        reason = graph.contradiction(templates, unrolled.constants)
        if reason:  # a body may declare other shapes than it is given: the run decides what becomes of it
            return f"its body contradicts itself: {reason}"
        for name, array in unrolled.constants.items():
            graph.add_constant(name, array)
        graph.replace_nodes([node], templates)
        return True


def _unfit(node: NodeSpec, body: GraphView, iterations: int, graph: GraphEditor) -> str:
    """Explain why a loop must stay; empty if it may be unrolled."""
    if not 1 <= iterations <= _MOST_ITERATIONS:
        return f"it runs {iterations} times, not 1 to {_MOST_ITERATIONS}"
    if len(body.nodes) * iterations > _MOST_NODES:
        return f"{iterations} times {len(body.nodes)} nodes are more than {_MOST_NODES}"
    condition = node.inputs[1] if len(node.inputs) > 1 else None
    if condition is not None and not _true(graph.constant(condition)):
        return "its condition is not known to be true at the beginning"
    if not _goes_on(body):
        return "its condition may become false"
    if any(holds_graphs(inner) for inner in body.nodes):
        return "its body holds graphs"
    if any(inner.opset_version != node.opset_version for inner in body.nodes if not inner.domain):
        return "its body is written for another opset"
    if any(
        given is not None and given.data_type is not declared.data_type
        for given, declared in zip(node.inputs[2:], body.inputs[2:], strict=False)
    ):
        return "its body declares another type for a value that it is given"
    if not all(value is None or isinstance(value.type, TensorType) for value in node.outputs):
        return "it returns something else than tensors"
    return ""


def _true(array: Any) -> bool:
    return array is not None and array.size == 1 and bool(np.reshape(array, ()))


def _goes_on(body: GraphView) -> bool:
    """Return whether the condition that a body returns is its input condition, or true."""
    name = body.outputs[0].name
    producers = {value.name: inner for inner in body.nodes for value in inner.outputs if value is not None}
    while name in producers and producers[name].op_type in ("Cast", "Identity") and not producers[name].domain:
        source = producers[name].inputs[0]
        if source is None:
            return False
        name = source.name
    if name in producers:
        array = producers[name].attributes.get("value") if producers[name].op_type == "Constant" else None
        return _true(array)
    return name == body.inputs[1].name or _true(body.constant(name))


class _Unrolled:
    """The nodes that do what a loop does.

    Attributes:
        constants: What they read and the graph does not have yet, by name.
    """

    def __init__(self, node: NodeSpec, body: GraphView, iterations: int, graph: GraphEditor) -> None:
        self._node = node
        self._body = body
        self._iterations = iterations
        self._graph = graph
        self.constants: dict[str, Any] = {}
        self._constants: dict[str, str] = {}
        self._taken: set[str] = set()
        self._made: list[NodeTemplate] = []

    def templates(self) -> list[NodeTemplate]:
        """All of them; the results are Identities, or put together of all iterations."""
        node, body = self._node, self._body
        carried = [value.name for value in node.inputs[2:] if value is not None]
        scanned: list[list[str]] = [[] for _ in body.outputs[1 + len(carried) :]]
        for iteration in range(self._iterations):
            results = self._iteration(iteration, carried)
            carried = results[: len(carried)]
            for column, name in zip(scanned, results[len(carried) :], strict=True):
                column.append(name)
        for value, name in zip(node.outputs, carried, strict=False):
            if value is not None:
                self._made.append(NodeTemplate("Identity", (name,), (value.name,)))
        for value, column in zip(node.outputs[len(carried) :], scanned, strict=False):
            if value is not None:
                self._stack(value, column)
        return self._made

    def _iteration(self, iteration: int, carried: list[str]) -> list[str]:
        """Write the body's nodes once. Returns the names of its outputs without the condition."""
        counter, condition = self._body.inputs[:2]
        number = np.array(iteration, np.int64).reshape((1,) * len(counter.shape or ()))
        names = {
            counter.name: self._constant(f"{iteration}", number),
            condition.name: self._constant("condition", np.ones((1,) * len(condition.shape or ()), np.bool_)),
            **dict(zip([value.name for value in self._body.inputs[2:]], carried, strict=True)),
        }
        for inner in self._body.nodes:
            inputs = tuple([self._read(value, names) for value in inner.inputs])
            for value in inner.outputs:
                if value is not None:
                    names[value.name] = self._fresh(f"{self._node.name}/{iteration}/{value.name}")
            outputs = tuple(["" if value is None else names[value.name] for value in inner.outputs])
            template = NodeTemplate(
                inner.op_type, inputs, outputs, inner.attributes, inner.domain, f"{inner.name}/{iteration}", inner.body
            )
            self._made.append(template)
        return [self._read(value, names) for value in self._body.outputs[1:]]

    def _read(self, value: ValueSpec | None, names: Mapping[str, str]) -> str:
        """The value of a name in this iteration: a result, an input, a constant of the body, or an outer value."""
        if value is None:
            return ""
        if value.name in names:
            return names[value.name]
        if self._graph.value(value.name) is not None:
            return value.name
        return self._constant(value.name, self._body.constant(value.name))

    def _constant(self, name: str, array: Any) -> str:
        if name not in self._constants:
            self._constants[name] = fresh = self._fresh(f"{self._node.name}/{name}")
            self.constants[fresh] = array
        return self._constants[name]

    def _stack(self, value: ValueSpec, column: list[str]) -> None:
        """Stack the results of the iterations along a new first axis."""
        rows: list[str] = []
        for name in column:
            row = value.name if len(column) == 1 else self._fresh(f"{value.name}/{len(rows)}")
            if self._node.opset_version < 13:
                self._made.append(NodeTemplate("Unsqueeze", (name,), (row,), {"axes": (0,)}))
            else:
                axes = self._constant("axes", np.array([0], np.int64))
                self._made.append(NodeTemplate("Unsqueeze", (name, axes), (row,)))
            rows.append(row)
        if len(rows) > 1:
            self._made.append(NodeTemplate("Concat", tuple(rows), (value.name,), {"axis": 0}))

    def _fresh(self, wanted: str) -> str:
        name, number = self._graph.free_name(wanted), 1
        while name in self._taken:
            name, number = self._graph.free_name(f"{wanted}_{number}"), number + 1
        self._taken.add(name)
        return name
