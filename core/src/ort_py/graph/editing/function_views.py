"""The function of a fused node as providers see it: a graph whose nodes have versions and whose values have types.

Comes after `fusing`, which types it; `view` asks for it when a provider does. Operators that plug-ins define are not
known here: a node of one has the opset of its domain as version, and what follows from it has no type.
"""

from __future__ import annotations

from functools import cache

from ort_py.contracts.function_body import FunctionBody
from ort_py.contracts.graph_view import GraphView
from ort_py.graph.checking.schema import SchemaRegistry
from ort_py.graph.editing.fusing import function_graph
from ort_py.graph.ir import Node
from ort_py.graph.view import ModelGraphView
from ort_py.graph.weights.weight_store import process_store

__all__ = ["function_view"]


def function_view(node: Node, body: FunctionBody) -> GraphView:
    """A view of what a fused node computes.

    Args:
        node: The fused node.
        body: Its function.
    """
    return ModelGraphView(function_graph(node, body, _schemas(), process_store()))


@cache
def _schemas() -> SchemaRegistry:
    return SchemaRegistry()
