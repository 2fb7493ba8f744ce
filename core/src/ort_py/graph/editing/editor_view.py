"""The view of a graph that an editor gives to code that reads graphs; it becomes invalid with the next change.

Used by `reading_editor` alone. It reads the graph itself: a view that copied it would cost as much as the graph has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

from ort_py.contracts.graph_view import NodeSpec
from ort_py.errors import EngineError
from ort_py.graph.editing.edit_state import EditState
from ort_py.graph.editing.positions import NodeList
from ort_py.graph.ir import Graph, Node, Value
from ort_py.graph.view import SpecCache, WholeGraphView

__all__ = ["EditorView"]


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
