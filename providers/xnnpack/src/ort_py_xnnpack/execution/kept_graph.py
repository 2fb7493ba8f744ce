"""The parts of a region that describe it to XNNPACK for shapes that come later: its nodes, and ways to its constants.

A view is valid only while a region is compiled, so this is a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ort_py.contracts import GraphView, NodeSpec

__all__ = ["KeptGraph"]

Array = np.ndarray[Any, Any]


class KeptGraph:
    """The nodes of a graph.

    Args:
        view: The graph.
        find: Finds a constant by its name.

    Attributes:
        nodes: Its nodes, in order.
    """

    def __init__(self, view: GraphView, find: Callable[[str], Array | None]) -> None:
        self.nodes: tuple[NodeSpec, ...] = tuple(view.nodes)
        self._find = find
        self._functions: dict[int, KeptGraph] = {}
        for node in self.nodes:
            inner = view.function(node)
            if inner is not None:
                self._functions[node.index] = self._kept(node, inner)

    def constant(self, name: str, /) -> Array | None:
        """A constant; None where the value is none."""
        return self._find(name)

    def function(self, node: NodeSpec) -> KeptGraph | None:
        """The body of a fused node."""
        return self._functions.get(node.index)

    def _kept(self, node: NodeSpec, inner: GraphView) -> KeptGraph:
        body = node.body
        assert body is not None
        given = {own: value.name for own, value in zip(body.inputs, node.inputs, strict=False) if own and value}
        names = {value.name for part in inner.nodes for value in part.inputs if value is not None} - given.keys()
        own = {name: found for name in names if (found := inner.constant(name)) is not None}

        def find(name: str) -> Array | None:
            return self._find(given[name]) if name in given else own.get(name)

        return KeptGraph(inner, find)
