"""What the editors of one model share: names, records of nodes, who made what, and returns of nested graphs.

Used by `edit` alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ort_py.graph.checking.schema import SchemaRegistry
from ort_py.graph.editing.positions import owner_in
from ort_py.graph.ir import Graph, Model, Node, Value, connect, walk
from ort_py.graph.reading.names import Names
from ort_py.graph.view import SpecCache
from ort_py.graph.weights.weight_store import WeightStore, process_store

if TYPE_CHECKING:
    from ort_py.graph.editing.edit import Editor

__all__ = ["EditState", "copy_graph"]


class EditState:
    """Shared by all editors of a model.

    Attributes:
        model: The model.
        schemas: Operators new nodes may have.
        store: Keeps new constants.
        cache: Records shown to transforms.
        origin: Name of the running transform; new nodes are tagged with it.
        changes: How many edits there have been.
        editors: The editor of each graph that was asked for.
    """

    def __init__(self, model: Model, schemas: SchemaRegistry | None = None, store: WeightStore | None = None) -> None:
        self.model = model
        self.schemas = schemas or SchemaRegistry()
        self.store = store or process_store()
        self.cache = SpecCache()
        self.origin = ""
        self.changes = 0
        self.editors: dict[Graph, Editor] = {}
        self._names: Names | None = None
        self._returns: dict[Value, list[tuple[Graph, int]]] | None = None
        self._returned_in: dict[Graph, dict[Value, dict[Node, None]]] = {}

    def take_name(self, wanted: str) -> str:
        """A name no value of the model has: `wanted`, or with a number behind it."""
        return self.names.take(wanted)

    @property
    def names(self) -> Names:
        """Names of the model's values. Read before the first change: what is taken out keeps its name."""
        if self._names is None:
            self._names = Names.of(self.model)
        return self._names

    @property
    def returns(self) -> dict[Value, list[tuple[Graph, int]]]:
        """Graphs that return a value defined further out, with the position among their outputs.

        Such a return is a read that `Value.uses` does not list.
        """
        if self._returns is None:
            self._returns = {}
            for graph in walk(self.model.graph):
                for position, value in enumerate(graph.outputs):
                    if value.graph is not graph:
                        self._returns.setdefault(value, []).append((graph, position))
        return self._returns

    def returned_in(self, graph: Graph) -> dict[Value, dict[Node, None]]:
        """Values that graphs nested in `graph` return from further out, with the nodes of `graph` that hold those."""
        if graph not in self._returned_in:
            found = self._returned_in[graph] = {}
            for value, places in self.returns.items():
                for nested, _ in places:
                    holder = owner_in(graph, nested.owner)
                    if holder is not None:
                        found.setdefault(value, {})[holder] = None
        return self._returned_in[graph]

    def forget_graph(self, graph: Graph) -> None:
        """A nested graph has moved: the records of all nodes in it say where they were."""
        for inner in walk(graph):
            for node in inner.nodes:
                self.cache.forget_node(node)

    def nesting_changed(self) -> None:
        """Graphs have come, gone or moved, or return something else."""
        self._returns = None
        self._returned_in = {}


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
        target.outputs = [copies.get(value, value) for value in source.outputs]
    return top


def _copy_value(
    value: Value, graph: Graph, producer: Node | None, copies: dict[Value, Value], state: EditState
) -> Value:
    copy = Value(state.take_name(value.name), graph, value.type, producer=producer, weight=value.weight)
    copy.overridable, copy.is_graph_output = value.overridable, value.is_graph_output
    copies[value] = copy
    return copy
