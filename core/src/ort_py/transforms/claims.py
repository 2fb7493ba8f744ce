"""The provider of each node of a graph: transforms ask before they change a part of the graph for one provider.

The engine's partitioner decides later, on the changed graph; this is its first question only, without regions and
costs. Used by `layout` and `precision`; made by the room that knows the session's providers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

from ort_py.contracts import GraphView, IExecutionProvider

FirstClaims: TypeAlias = Callable[[GraphView, Collection[str]], Mapping[str, IExecutionProvider]]
"""For a graph, the first provider that claims each of some nodes, by the node's name; nodes without a claim are left
out, and others may be there."""
