"""The reading half of an editor: records of nodes, writers and readers of a value, constants, and a view of the graph.

`edit` adds the changes. Records are made at the first request and kept until they are outdated. The view becomes
invalid with the next change. It reads the graph itself: a view that copied it would cost as much as the graph has. Does
not depend on templates.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import overload

from ort_py.contracts.graph_view import Array, NodeSpec, ValueSpec
from ort_py.contracts.transform import GraphEditor
from ort_py.errors import EngineError, InvalidGraph, Location
from ort_py.graph.editing.edit_state import EditState
from ort_py.graph.editing.positions import NodeList, owner_in
from ort_py.graph.ir import Graph, Node, Value
from ort_py.graph.view import SpecCache, WholeGraphView


class EditorView(WholeGraphView):
    """A graph while it is edited.

    Args:
        state: Has the records made so far, which the editor keeps true, and knows who returns outer values.
        positions: Positions of the graph's nodes, which the editor keeps true.
    """

    def __init__(
        self, graph: Graph, state: EditState, positions: NodeList, find: Callable[[str], Value | None]
    ) -> None:
        super().__init__(graph, graph.nodes, state.cache)
        self._live: NodeList | None = positions
        self._find = find
        self._state = state
        self._sequence = _Nodes(self, graph, state.cache)

    def expire(self) -> None:
        """Invalidate this view before a change. Later reads of it raise."""
        self._live = None

    @property
    def live(self) -> NodeList:
        """Positions of the nodes.

        Raises:
            EngineError: The graph was changed since the view was taken.
        """
        if self._live is None:
            raise EngineError(
                "The graph was changed after this view was taken.",
                fix="Take `graph.view` again after each change, and look up positions again: they have changed.",
            )
        return self._live

    @property
    def nodes(self) -> Sequence[NodeSpec]:
        return self._sequence

    def ir_value(self, name: str) -> Value | None:
        return self._find(name)

    def _position(self, node: Node) -> int | None:
        return self.live.of(node) if node.graph is self.graph else None

    @property
    def _returned(self) -> dict[Value, dict[Node, None]]:
        holders = {value: self._state.returners(value, self.graph) for value in self._state.returns}
        return {value: dict.fromkeys(nodes) for value, nodes in holders.items() if nodes}


class _Nodes(Sequence[NodeSpec]):
    """Records of the graph's nodes, made when they are asked for."""

    __slots__ = ("_cache", "_graph", "_view")

    def __init__(self, view: EditorView, graph: Graph, cache: SpecCache) -> None:
        self._view = view
        self._graph = graph
        self._cache = cache

    def __len__(self) -> int:
        return len(self._graph.nodes)

    def __iter__(self) -> Iterator[NodeSpec]:
        return iter(self[:])

    @overload
    def __getitem__(self, index: int) -> NodeSpec: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[NodeSpec, ...]: ...

    def __getitem__(self, index: int | slice) -> NodeSpec | tuple[NodeSpec, ...]:
        _ = self._view.live  # raises where the graph has changed since
        nodes = self._graph.nodes
        if isinstance(index, slice):
            return tuple(
                [self._cache.node(nodes[position], position) for position in range(*index.indices(len(nodes)))]
            )
        position = index if index >= 0 else index + len(nodes)
        return self._cache.node(nodes[position], position)


_ANYWHERE = -1
"""`NodeSpec.index` of records that outlive changes."""


class ReadingEditor(GraphEditor):
    """Reads one graph; editors of nested graphs share its state."""

    def __init__(self, graph: Graph, state: EditState | None = None) -> None:
        self.graph = graph
        self.state = state or EditState(graph.model)
        self._view: EditorView | None = None
        self._values: dict[str, Value] | None = None
        self._named: dict[str, Node | None] | None = None
        self._holders: list[Node] | None = None
        self.list = NodeList(graph, self.reading_nodes)

    # For plug-ins -----------------------------------------------------------------------------------------------------

    @property
    def view(self) -> EditorView:
        if self._view is None:
            self._view = EditorView(self.graph, self.state, self.list, self.find)
        return self._view

    @property
    def nodes(self) -> Sequence[NodeSpec]:
        record = self.state.cache.node
        owner = self.graph.owner
        path = () if owner is None else (*owner.path, owner.name)
        return tuple([record(node, _ANYWHERE, path) for node in self.graph.nodes])

    def node(self, node: NodeSpec | str) -> NodeSpec | None:
        found = self.named.get(node if isinstance(node, str) else node.name)
        return None if found is None else self.record(found)

    def value(self, name: str) -> ValueSpec | None:
        found = self.find(name)
        return None if found is None else self.state.cache.value(found)

    def producer(self, value: ValueSpec | str | None) -> NodeSpec | None:
        found = None if value is None else self._lookup(value)
        node = None if found is None or found.graph is not self.graph else found.producer
        return None if node is None or node in self.state.refused else self.record(node)

    def readers(self, value: ValueSpec | str) -> Sequence[NodeSpec]:
        found = self._lookup(value)
        return () if found is None else tuple([self.record(node) for node in self._readers_of(found)])

    def uses(self, value: ValueSpec | str) -> int:
        found = self._lookup(value)
        if found is None:
            return 0
        returned = found.graph.outputs.count(found) if found.is_graph_output else 0
        return len(found.uses) + returned + len(self.state.returns.get(found, ()))

    def is_output(self, value: ValueSpec | str) -> bool:
        found = self._lookup(value)
        return found is not None and found.is_graph_output and found.graph is self.graph

    def constant(self, value: ValueSpec | str | None) -> Array | None:
        if value is None or not (isinstance(value, str) or value.constant):
            return None
        found = self._lookup(value)
        return found.weight.array() if found is not None and found.constant and found.weight is not None else None

    def constant_key(self, value: ValueSpec | str) -> str:
        found = self._lookup(value)
        if found is None or not found.constant or found.weight is None:
            name = value if isinstance(value, str) else value.name
            raise InvalidGraph(
                f"Value '{name}' is not a constant of graph '{self.graph.name}' or of one around it.",
                where=Location(value=name),
                fix="Ask for keys of values whose record says `constant`.",
            )
        return found.weight.key

    def constants(self) -> Sequence[ValueSpec]:
        return tuple([self.state.cache.value(value) for value in self.graph.initializers.values() if value.constant])

    @abstractmethod
    def subgraphs(self) -> Sequence[ReadingEditor]:
        pass

    # For the engine ---------------------------------------------------------------------------------------------------

    def record(self, node: Node) -> NodeSpec:
        cache = self.state.cache
        found = cache.nodes.get(node)  # rules ask for few things as often
        return found if found is not None and found.index == _ANYWHERE else cache.node(node, _ANYWHERE)

    def find(self, name: str) -> Value | None:
        """The value called `name` here or in a graph around."""
        found = self.values.get(name)
        graph = self.graph
        while found is None and graph.owner is not None:
            graph = graph.owner.graph
            found = self._editor(graph).values.get(name)
        return found

    @property
    def values(self) -> dict[str, Value]:
        if self._values is None:
            self._values = {value.name: value for value in self.graph.inputs}
            self._values.update(self.graph.initializers)
            for node in self.graph.nodes:
                self._values.update((value.name, value) for value in node.outputs if value is not None)
        return self._values

    @property
    def named(self) -> dict[str, Node | None]:
        """Nodes by name. A removed node leaves None, since names are never used again."""
        if self._named is None:
            self._named = {node.name: node for node in self.graph.nodes}
        return self._named

    def existing(self, nodes: Sequence[NodeSpec | str]) -> list[Node]:
        """The nodes of these names or records, each once, in order."""
        found: dict[Node, None] = {}
        for one in nodes:
            name = one if isinstance(one, str) else one.name
            node = self.named.get(name)
            if node is None:
                raise InvalidGraph(
                    f"Graph '{self.graph.name}' has no node '{name}'.",
                    where=Location(node=name),
                    why="it was removed earlier" if name in self.named else "",
                    fix="Get nodes from the editor of their graph, and call `node` to check that they still exist.",
                )
            found[node] = None
        return sorted(found, key=self.list.rank)

    def reading_nodes(self, node: Node) -> Iterator[Node]:
        """Nodes of this graph that read what a node of it writes; some perhaps twice."""
        for value in node.outputs:
            if value is not None and (value.uses or value.graph.outputs or self.state.returns):
                yield from self._readers_of(value)

    def _readers_of(self, value: Value) -> list[Node]:
        holders = {
            reader if reader.graph is self.graph else owner_in(self.graph, reader): None for reader, _ in value.uses
        }
        if value in self.state.returns:
            holders.update(dict.fromkeys(self.state.returners(value, self.graph)))
        return [holder for holder in holders if holder is not None]

    def _lookup(self, value: ValueSpec | str) -> Value | None:
        name = value if isinstance(value, str) else value.name
        found = self.values.get(name)
        return self.find(name) if found is None and self.graph.owner is not None else found

    def _known(self, value: ValueSpec | str) -> Value:
        found = self._lookup(value)
        if found is None:
            name = value if isinstance(value, str) else value.name
            raise InvalidGraph(
                f"Graph '{self.graph.name}' has no value '{name}'.",
                where=Location(value=name),
                fix="Use names from the editor's records after the last change.",
            )
        return found

    @abstractmethod
    def _editor(self, graph: Graph) -> ReadingEditor:
        """The editor of another graph of the model."""
