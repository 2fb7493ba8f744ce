"""State shared by the editors of one model: names, records of nodes, changes, and returns of nested graphs.

Used by `edit` alone.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import field
from typing import Any

from ort_py.contracts.function_body import FunctionBody
from ort_py.graph.checking.schema import SchemaRegistry
from ort_py.graph.editing.positions import owner_in
from ort_py.graph.ir import Graph, Model, Node, Value, connect, walk
from ort_py.graph.reading.names import Names
from ort_py.graph.view import SpecCache
from ort_py.graph.weights.weight_store import WeightStore, process_store
from ort_py.lazy_dataclass import dataclass


@dataclass(slots=True)
class Journal:
    """Changes since the last look: the transforms that must see the graph again, and the entries of the report.

    Attributes:
        made: New nodes, as long as they are there.
        removed: Nodes that went and were there when the journal began.
        moved: Nodes that read something else now.
        values: Values that have lost or got a reader.
    """

    made: dict[Node, None] = field(default_factory=dict)
    removed: dict[Node, None] = field(default_factory=dict)
    moved: dict[Node, None] = field(default_factory=dict)
    values: dict[Value, None] = field(default_factory=dict)

    def node_made(self, node: Node) -> None:
        self.made[node] = None
        for value in node.inputs:
            if value is not None:
                self.values[value] = None

    def node_removed(self, node: Node) -> None:
        """A node is about to go, and still reads its inputs."""
        self.moved.pop(node, None)
        if node in self.made:
            del self.made[node]
        else:
            self.removed[node] = None
        for value in node.inputs:
            if value is not None:
                self.values[value] = None


class EditState:
    """Shared by all editors of a model.

    Attributes:
        schemas: Operators new nodes may have.
        store: Keeps new constants.
        cache: Records shown to transforms.
        origin: Name of the running transform; new nodes are tagged with it.
        changes: Number of edits so far.
        editors: The `Editor` of each graph that was asked for; `edit`, which knows this module, puts it there.
        bodies: Functions of fused nodes by content, so that equal ones are one.
        refused: Nodes that no input can satisfy. Rules do not see them, so that their kernels refuse them.
        better: Values whose types became known better than their readers saw; see `retyping`.
    """

    def __init__(self, model: Model, schemas: SchemaRegistry | None = None, store: WeightStore | None = None) -> None:
        self.model = model
        self.schemas = schemas or SchemaRegistry()
        self.store = store or process_store()
        self.cache = SpecCache()
        self.origin = ""
        self.changes = 0
        self.editors: dict[Graph, Any] = {}
        self.bodies: dict[Hashable, FunctionBody] = {}
        self.refused: frozenset[Node] = frozenset()
        self.better: dict[Value, None] = {}
        self.journal = Journal()
        self._names: Names | None = None
        self._returns: dict[Value, dict[tuple[Graph, int], None]] | None = None

    def take_journal(self) -> Journal:
        """Return the changes since the last call."""
        taken, self.journal = self.journal, Journal()
        return taken

    def take_name(self, wanted: str) -> str:
        """A name no value of the model has: `wanted`, or with a number behind it."""
        return self.names.take(wanted)

    @property
    def names(self) -> Names:
        """Names of the model's values. Read before the first change: what is taken out keeps its name."""
        if self._names is None:
            self._names = Names.of(self.model)
        return self._names

    # Returns of outer values ------------------------------------------------------------------------------------------

    @property
    def returns(self) -> dict[Value, dict[tuple[Graph, int], None]]:
        """Graphs that return a value defined further out, with the position among their outputs.

        Such a return is a read that `Value.uses` does not list. The graphs are read once; the methods below report
        changes.
        """
        if self._returns is None:
            self._returns = {}
            self.graph_came(self.model.graph)
        return self._returns

    def graph_came(self, graph: Graph) -> None:
        """A graph, with all in it, is part of the model now."""
        if self._returns is None:
            return  # it will be found with the others
        for inner in walk(graph):
            for position, value in enumerate(inner.outputs):
                if value.graph is not inner:
                    self._returns.setdefault(value, {})[inner, position] = None

    def graph_gone(self, graph: Graph) -> None:
        """Record that a graph was removed from the model. Graphs nested in it are reported one by one."""
        for position, value in enumerate(graph.outputs if self._returns is not None else ()):
            if value.graph is not graph:
                self.return_gone(value, graph, position)
        self.editors.pop(graph, None)

    def return_gone(self, value: Value, graph: Graph, position: int) -> None:
        """A graph returns an outer value no longer."""
        places = self.returns.get(value, {})
        places.pop((graph, position), None)
        if not places:
            self.returns.pop(value, None)

    def returners(self, value: Value, graph: Graph) -> list[Node]:
        """Nodes of `graph` that hold a graph which returns the value from further out."""
        places = self.returns.get(value)
        if not places:
            return []
        holders = {owner_in(graph, nested.owner): None for nested, _ in places}
        return [holder for holder in holders if holder is not None]

    def forget_graph(self, graph: Graph) -> None:
        """A nested graph has moved: the records of all nodes in it say where they were."""
        for inner in walk(graph):
            for node in inner.nodes:
                self.cache.forget_node(node)


def copy_graph(graph: Graph, owner: Node, state: EditState) -> Graph:
    """A copy of a nested graph, with all graphs in it, under another node. Values get new names; captures stay."""
    copies: dict[Value, Value] = {}
    top = Graph(graph.name, graph.model, owner)
    pending = [(graph, top)]
    made: list[tuple[Graph, Graph]] = []
    while pending:
        source, target = pending.pop()
        made.append((source, target))
        for value in source.inputs:
            target.inputs.append(_copy_value(value, target, None, copies, state))
        for value in source.initializers.values():
            copy = _copy_value(value, target, None, copies, state)
            target.initializers[copy.name] = copy
        for node in source.nodes:
            twin = Node(node.op_type, (), target, name=node.name, domain=node.domain, overload=node.overload)
            twin.opset, twin.since_version, twin.origin = node.opset, node.since_version, node.origin
            twin.sources, twin.body = node.sources or (node.name,), node.body
            twin.type_bindings = dict(node.type_bindings)
            twin.outputs = [
                None if value is None else _copy_value(value, target, twin, copies, state) for value in node.outputs
            ]
            for name, held in node.attributes.items():
                if isinstance(held, Graph):
                    held_copy = Graph(held.name, held.model, twin)
                    pending.append((held, held_copy))
                    twin.attributes[name] = held_copy
                elif isinstance(held, tuple) and held and isinstance(held[0], Graph):
                    copied = [Graph(item.name, item.model, twin) for item in held]
                    pending.extend(zip(held, copied, strict=True))
                    twin.attributes[name] = tuple(copied)
                else:
                    twin.attributes[name] = held
            target.nodes.append(twin)
    for source, target in made:
        for node, twin in zip(source.nodes, target.nodes, strict=True):
            connect(twin, [None if value is None else copies.get(value, value) for value in node.inputs])
        target.outputs, target.declared_outputs = [copies.get(v, v) for v in source.outputs], source.declared_outputs
    state.graph_came(top)
    return top


def _copy_value(
    value: Value, graph: Graph, producer: Node | None, copies: dict[Value, Value], state: EditState
) -> Value:
    copy = Value(state.take_name(value.name), graph, value.type, producer=producer, weight=value.weight)
    copy.overridable, copy.is_graph_output = value.overridable, value.is_graph_output
    copies[value] = copy
    return copy
