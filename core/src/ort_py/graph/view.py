"""The graph as plug-ins see it: frozen `NodeSpec`s and read-only views over a graph or a part of it.

Comes after `shapes`; providers are asked and regions compiled on these. A view reads the graph when it is first asked
and keeps what it read: make a new one after a change (`edit` does). Nothing here changes a graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ort_py.contracts.graph_view import GraphView, NodeSpec, RegionView, ValueSpec
from ort_py.errors import InvalidArgument
from ort_py.graph.editing.positions import owner_in
from ort_py.graph.ir import Graph, graph_inputs, walk
from ort_py.graph.weights.region_weights import HeldForms, StoredWeight
from ort_py.light_tuple import NamedTuple

if TYPE_CHECKING:
    from ort_py.contracts.graph_view import Array, WeightMode
    from ort_py.contracts.region_weights import PackedForms, RegionWeight
    from ort_py.graph.ir import Node, Value


def returned_by_nested(graph: Graph) -> dict[Value, dict[Node, None]]:
    """Values that graphs nested in `graph` return though they are defined further out, and the nodes of `graph` that
    hold those graphs. Such a return is a read which `Value.uses` does not list."""
    found: dict[Value, dict[Node, None]] = {}
    for node in graph.nodes:
        for nested in node.subgraphs:
            for inner in walk(nested):
                for value in inner.outputs:
                    if value.graph is not inner:
                        found.setdefault(value, {})[node] = None
    return found


class SpecCache:
    """Records of nodes and values, made once each. Code that changes a graph forgets the records concerned."""

    __slots__ = ("_values", "nodes")

    def __init__(self) -> None:
        self.nodes: dict[Node, NodeSpec] = {}
        self._values: dict[Value, ValueSpec] = {}

    def value(self, value: Value) -> ValueSpec:
        found = self._values.get(value)
        if found is None:
            found = self._values[value] = ValueSpec(value.name, value.type, value.constant)
        return found

    def values(self, values: Iterable[Value | None]) -> tuple[ValueSpec | None, ...]:
        return tuple([None if value is None else self.value(value) for value in values])

    def node(self, node: Node, index: int, path: tuple[str, ...] | None = None) -> NodeSpec:
        """The record of a node.

        Args:
            path: `Node.path` where the caller has it already.
        """
        found = self.nodes.get(node)
        if found is not None and found.index == index:
            return found
        spec = NodeSpec(
            index,
            node.name,
            node.op_type,
            node.domain,
            node.since_version,
            self.values(node.inputs),
            self.values(node.outputs),
            self._attributes(node),
            dict(node.type_bindings),
            node.opset_version,
            node.path if path is None else path,
            node.body,
        )
        self.nodes[node] = spec
        return spec

    def _attributes(self, node: Node) -> Mapping[str, Any]:
        attributes = dict(node.attributes)
        for name, value in node.attributes.items():
            if isinstance(value, Graph):
                attributes[name] = ModelGraphView(value, self)
            elif isinstance(value, tuple) and value and isinstance(value[0], Graph):
                attributes[name] = tuple(ModelGraphView(item, self) for item in value)
        return attributes

    def forget_node(self, node: Node) -> None:
        """The node has changed; so have the views of the graphs around it, up to the main graph."""
        current: Node | None = node
        while current is not None:
            self.nodes.pop(current, None)
            current = current.graph.owner

    def forget_value(self, value: Value) -> None:
        """The value has changed, and with it the records of all nodes that name it."""
        self._values.pop(value, None)
        if value.producer is not None:
            self.forget_node(value.producer)
        for node, _ in value.uses:
            self.forget_node(node)


def node_spec(node: Node, index: int = 0) -> NodeSpec:
    """The record of one node, apart from any view."""
    return SpecCache().node(node, index)


class NodesView(GraphView):
    """A view over nodes of one graph; subclasses say what crosses the border."""

    def __init__(self, graph: Graph, members: Sequence[Node], cache: SpecCache) -> None:
        self.graph = graph
        self._members = members
        self._cache = cache
        self._nodes: tuple[NodeSpec, ...] | None = None
        self._index: dict[Node, int] | None = None
        self._names: dict[str, Value] | None = None
        self._nested_returns: dict[Value, dict[Node, None]] | None = None
        self._readers: dict[str, Sequence[int]] = {}
        self._functions: dict[int, GraphView] = {}

    @property
    def name(self) -> str:
        return self.graph.name

    @property
    def nodes(self) -> Sequence[NodeSpec]:
        if self._nodes is None:
            owner = self.graph.owner
            path = () if owner is None else (*owner.path, owner.name)
            make = self._cache.node
            self._nodes = tuple([make(node, index, path) for index, node in enumerate(self._members)])
        return self._nodes

    def ir_value(self, name: str) -> Value | None:
        """The value called `name`, as seen from inside the graph; for the engine."""
        return self._values_by_name.get(name)

    def constant(self, name: str) -> Array | None:
        value = self.ir_value(name)
        if value is None or not value.constant or value.weight is None:
            return None
        return value.weight.array()

    def producer(self, name: str) -> int | None:
        value = self.ir_value(name)
        if value is None or value.producer is None:
            return None
        return self._position(value.producer)

    def consumers(self, name: str) -> Sequence[int]:
        self.graph.model.budget.tick()
        found = self._readers.get(name)  # every provider asks, for every value
        if found is None:
            value = self.ir_value(name)
            found = self._readers[name] = () if value is None else self._consumers(value)
        return found

    def region(self, nodes: Iterable[int]) -> RegionView:
        indices = sorted(set(nodes))
        if indices and not 0 <= indices[0] <= indices[-1] < len(self._members):
            raise InvalidArgument(
                f"The graph '{self.name}' has no node {indices[0] if indices[0] < 0 else indices[-1]}.",
                why=f"its nodes are numbered 0 to {len(self._members) - 1}",
                fix="Name nodes by `NodeSpec.index` of the view they came from.",
            )
        return SubsetView(self.graph, [self._members[index] for index in indices], self._cache)

    def function(self, node: NodeSpec) -> GraphView | None:
        member = self._members[node.index]
        if member.body is None:
            return None
        # Typing a function needs the operators' schemas; a view alone does not.
        from ort_py.graph.editing.function_views import function_view

        found = self._functions.get(node.index)
        if found is None:
            found = self._functions[node.index] = function_view(member, member.body)
        return found

    def _position(self, node: Node) -> int | None:
        if self._index is None:
            self._index = {node: index for index, node in enumerate(self._members)}
        return self._index.get(node)

    @property
    def _returned(self) -> dict[Value, dict[Node, None]]:
        if self._nested_returns is None:
            self._nested_returns = returned_by_nested(self.graph)
        return self._nested_returns

    @property
    def _values_by_name(self) -> dict[str, Value]:
        if self._names is None:
            names = {value.name: value for value in self.graph.inputs}
            names.update(self.graph.initializers)
            for node in self.graph.nodes:
                for value in node.outputs:
                    if value is not None:
                        names[value.name] = value
            if self.graph.owner is not None:
                for value in self.graph.captures():
                    names.setdefault(value.name, value)
            self._names = names
        return self._names

    def _consumers(self, value: Value) -> tuple[int, ...]:
        # Most readers are in this very graph; the others count as the node of this graph that holds them.
        readers = [owner_in(self.graph, reader) for reader, _ in value.uses]
        readers.extend(self._returned.get(value, ()))
        found = {self._position(node) for node in readers if node is not None}
        return tuple(sorted(index for index in found if index is not None))


class WholeGraphView(NodesView):
    """A view over all nodes of a graph: what crosses its border is the graph's own inputs and outputs."""

    @property
    def inputs(self) -> Sequence[ValueSpec]:
        return tuple([self._cache.value(value) for value in graph_inputs(self.graph)])

    @property
    def outputs(self) -> Sequence[ValueSpec]:
        return tuple([self._cache.value(value) for value in self.graph.outputs])


class ModelGraphView(WholeGraphView):
    """A whole graph as it was when the view was made: the main one or a nested one."""

    def __init__(self, graph: Graph, cache: SpecCache | None = None) -> None:
        super().__init__(graph, graph.nodes[:], cache or SpecCache())


class Border(NamedTuple):
    """The values that cross the border of some nodes.

    Attributes:
        outputs: Values that they compute and that are needed outside.
    """

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    constants: tuple[Value, ...]


class SubsetView(NodesView, RegionView):
    """Some nodes of a graph, with the values that cross their border.

    Args:
        forms: Holds what a region packs.
        host: Names of inputs whose values are on the host when the region runs.
    """

    def __init__(
        self,
        graph: Graph,
        members: Sequence[Node],
        cache: SpecCache | None = None,
        forms: PackedForms | None = None,
        host: frozenset[str] = frozenset(),
        border: Border | None = None,
    ) -> None:
        super().__init__(graph, members, cache or SpecCache())
        self._host = host
        self._border = border
        self._forms = forms

    @property
    def inputs(self) -> Sequence[ValueSpec]:
        return tuple([self._cache.value(value) for value in self.border[0]])

    @property
    def outputs(self) -> Sequence[ValueSpec]:
        return tuple([self._cache.value(value) for value in self.border[1]])

    @property
    def initializers(self) -> Sequence[ValueSpec]:
        return tuple([self._cache.value(value) for value in self.border[2]])

    @property
    def host_inputs(self) -> frozenset[str]:
        return self._host

    def weight(self, name: str) -> RegionWeight | None:
        value = self.ir_value(name)
        if value is None or not value.constant or value.weight is None:
            return None
        return StoredWeight(value.weight)

    @property
    def packed_forms(self) -> PackedForms:
        if self._forms is None:
            self._forms = HeldForms()  # belongs to no session and is released with the region
        return self._forms

    def to_model(self, weights: WeightMode = "inline", *, standard: bool = False) -> bytes:
        # serialize needs onnx; a view alone does not.
        from ort_py.graph.writing.serialize import region_to_bytes

        inputs, outputs, initializers = self.border
        return region_to_bytes(self.graph, self._members, inputs, outputs, initializers, weights, standard=standard)

    @property
    def border(self) -> Border:
        """Values read from outside, values needed outside, and constants read; for the engine."""
        if self._border is None:
            self._border = self._find_border()
        return self._border

    def _find_border(self) -> Border:
        members = set(self._members)
        inputs: dict[Value, None] = {}
        outputs: list[Value] = []
        constants: dict[Value, None] = {}
        for node in self._members:
            for value in node.reads():
                if value.constant:
                    constants[value] = None
                elif value.producer is None or value.producer not in members:
                    inputs[value] = None
            outputs.extend(value for value in node.outputs if value is not None and self._leaves(value, members))
        return Border(tuple(inputs), tuple(outputs), tuple(constants))

    def _leaves(self, value: Value, members: set[Node]) -> bool:
        if value.is_graph_output:
            return True
        for reader, _ in value.uses:
            node = owner_in(self.graph, reader)
            if node is not None and node not in members:
                return True
        return any(node not in members for node in self._returned.get(value, ()))
