"""Nodes made from templates: names looked up, outputs taken over, attributes brought into the graph's form.

Used by `edit`, which checks before that the change is allowed and puts the nodes into the list afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from ort_py.contracts.function_body import NodeTemplate
from ort_py.contracts.graph_view import AttributeValue
from ort_py.errors import InvalidGraph, Location
from ort_py.graph.editing.edit_state import EditState, copy_graph
from ort_py.graph.ir import Graph, Node, Value, connect
from ort_py.graph.view import NodesView
from ort_py.lazy_dataclass import dataclass

_MOST_SOURCES = 64
"""Names a node remembers of the nodes it stands for; what is made of more is known by the first of them."""


def unique_name(wanted: str, taken: dict[str, Node | None]) -> str:
    """`wanted`, with a number behind it where it is taken; takes it."""
    name, number = wanted, 1
    while name in taken:
        name, number = f"{wanted}_{number}", number + 1
    taken[name] = None
    return name


def sources_of(replaced: Sequence[Node]) -> tuple[str, ...]:
    """Names of the model's own nodes that stand behind nodes which are replaced."""
    names = dict.fromkeys(name for node in replaced for name in node.sources or (node.name,))
    return tuple(names)[:_MOST_SOURCES]


@dataclass(slots=True, eq=False)
class NodeMaker:
    """Makes the nodes that one call of `replace_nodes` puts into a graph.

    Attributes:
        _values: Values of the graph by name; gets the new ones.
        _node_names: Names that nodes of the graph have or had; gets the new ones.
        _find: Looks a value up here and in the graphs around.
    """

    _graph: Graph
    _state: EditState
    _values: dict[str, Value]
    _node_names: dict[str, Node | None]
    _find: Callable[[str], Value | None]
    _gone: set[Node]
    _made: dict[str, Value] = field(default_factory=dict, init=False)

    def check(self, templates: Sequence[NodeTemplate]) -> set[str]:
        """Names of existing values that the templates take over.

        Raises:
            InvalidGraph: Two of them write one value, or one writes an input or a constant.
        """
        written: set[str] = set()
        for template in templates:
            for name in filter(None, template.outputs):
                if name in written:
                    raise InvalidGraph(f"Two of the new nodes write '{name}'.", where=Location(value=name))
                written.add(name)
                value = self._values.get(name)
                if value is not None and value.producer is None:
                    raise InvalidGraph(
                        f"A new node would write '{name}', which is an input or a constant of the graph.",
                        where=Location(value=name),
                        fix="Give the output another name and use `replace_uses`.",
                    )
        return written & self._values.keys()

    def make(self, template: NodeTemplate) -> Node:
        """A node of the graph, connected, but not in its list.

        Raises:
            InvalidGraph: It reads a value that does not exist.
        """
        first = next(filter(None, template.outputs), template.op_type)
        wanted = template.name or f"{self._state.origin or template.op_type}/{first}"
        node = Node(
            template.op_type,
            (),
            self._graph,
            name=unique_name(wanted, self._node_names),
            domain=template.domain,
            origin=self._state.origin,
        )
        inputs = [self._input(name, node) if name else None for name in template.inputs]
        while inputs and inputs[-1] is None:
            inputs.pop()
        connect(node, inputs)
        for name, value in (template.attributes or {}).items():
            node.attributes[name] = self._attribute(value, node)
        node.outputs = [self._output(name, node) if name else None for name in template.outputs]
        node.body = template.body
        imports = self._graph.model.opset_imports
        if template.opset and imports.setdefault(node.domain, template.opset) != template.opset:
            node.opset = template.opset
        return node

    def _input(self, name: str, node: Node) -> Value:
        value = self._made.get(name) or self._find(name)
        if value is None or (value.graph is self._graph and value.producer in self._gone):
            raise InvalidGraph(
                f"A new node reads '{name}', which does not exist.",
                where=node.location,
                why="" if value is None else "the node that writes it is removed by the same call",
                fix="Read existing values, or outputs of earlier templates.",
            )
        return value

    def _output(self, name: str, node: Node) -> Value:
        value = self._values.get(name)
        if value is None:
            value = Value(self._state.take_name(name), self._graph, producer=node)
            self._values[value.name] = value
        else:
            writer = value.producer
            assert writer is not None  # `check` has refused the others
            spare = None
            if writer not in self._gone:
                spare = Value(self._state.take_name(name), self._graph, value.type, producer=writer)
                self._values[spare.name] = spare
            writer.outputs = [spare if other is value else other for other in writer.outputs]
            self._state.cache.forget_value(value)
            value.producer = node
            self._state.journal.values[value] = None
        self._made[name] = value
        return value

    def _attribute(self, value: AttributeValue, node: Node) -> Any:
        if isinstance(value, NodesView):
            return self._adopt(value.graph, node)
        if isinstance(value, tuple | list):
            return tuple([self._attribute(item, node) for item in value])
        return plain_attribute(value)

    def _adopt(self, graph: Graph, node: Node) -> Graph:
        """A nested graph for a new node: the graph itself where the node that held it goes, else a copy."""
        old = graph.owner
        if old is None or old not in self._gone or graph not in old.subgraphs:
            return copy_graph(graph, node, self._state)
        old.attributes = {
            name: tuple([item for item in held if item is not graph]) if isinstance(held, tuple) else held
            for name, held in old.attributes.items()
            if held is not graph
        }
        graph.owner = node
        self._state.forget_graph(graph)
        return graph


def plain_attribute(value: AttributeValue) -> AttributeValue:
    """Convert a value to the form that the graph keeps: no NumPy scalars, no booleans, and read-only arrays."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, np.ndarray) and value.flags.writeable:
        value = value.copy()
        value.flags.writeable = False
    return value
