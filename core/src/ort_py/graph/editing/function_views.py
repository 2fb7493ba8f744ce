"""The function of a fused node as a graph whose nodes have versions and whose values have types, and a view of it.

`view` asks for the view when a provider does. It knows no operators that plug-ins define: a node of one has the opset
of its domain as version, and values that depend on it have no type. `fusing` types new nodes with the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from ort_py.contracts.function_body import FunctionBody
from ort_py.contracts.graph_view import GraphView
from ort_py.dtypes import TensorType, ValueType
from ort_py.graph.checking.schema import SchemaRegistry
from ort_py.graph.ir import Graph, Node, Value
from ort_py.graph.typing.inference_gaps import gap_types
from ort_py.graph.typing.inference_guard import can_infer
from ort_py.graph.typing.standard_types import standard_types
from ort_py.graph.view import ModelGraphView
from ort_py.graph.weights.weight_store import WeightStore, process_store


def function_view(node: Node, body: FunctionBody) -> GraphView:
    """A view of what a fused node computes."""
    return ModelGraphView(function_graph(node, body, _schemas(), process_store(), _infer))


@cache
def _schemas() -> SchemaRegistry:
    return SchemaRegistry()


def _infer(node: Node) -> list[ValueType | None]:
    known = can_infer(node.op_type, node.domain, node.opset_version)
    return standard_types(node) if known else gap_types(node)


def function_graph(
    node: Node,
    body: FunctionBody,
    schemas: SchemaRegistry,
    store: WeightStore,
    infer: Callable[[Node], Sequence[ValueType | None]],
) -> Graph:
    """A fused node's function as a graph of its own, with versions and, as far as they can be known, types.

    Its values have the names of the body. Inputs have the types of the node's; constant inputs stay constant.

    Args:
        schemas: The operators; nodes of one that it does not know have no types behind them.
    """
    graph = Graph("body", node.graph.model)
    values: dict[str, Value] = {}
    for name, given in zip(body.inputs, node.inputs, strict=False):
        if name and given is not None:
            values[name] = Value(name, graph, given.type, weight=given.weight if given.constant else None)
    for name, array in body.constants.items():
        weight = store.add(np.asarray(array))
        values[name] = Value(name, graph, TensorType(weight.data_type, weight.shape), weight=weight)
    graph.inputs = [value for value in values.values() if value.weight is None]
    graph.initializers = {name: value for name, value in values.items() if value.weight is not None}
    for number, template in enumerate(body.nodes):
        inner = Node(
            template.op_type,
            [values.get(name) for name in template.inputs],
            graph,
            name=f"{node.name}/{number}",
            domain=template.domain,
            attributes=dict(template.attributes or {}),
        )
        inner.opset, inner.body = body.opset_imports.get(template.domain, 0), template.body
        inner.outputs = [Value(name, graph, producer=inner) if name else None for name in template.outputs]
        values.update((value.name, value) for value in inner.outputs if value is not None)
        _resolve(inner, schemas, store, infer)
        graph.nodes.append(inner)
    graph.outputs = [values[name] for name in body.outputs if name in values]
    return graph


def _resolve(
    node: Node, schemas: SchemaRegistry, store: WeightStore, infer: Callable[[Node], Sequence[ValueType | None]]
) -> None:
    schema = schemas.lookup(node)
    node.since_version = node.opset_version if schema is None else schema.since_version
    if any(value is not None and value.type is None for value in node.inputs):
        return  # nothing follows from what is not known
    found: Sequence[ValueType | None]
    if node.body is not None:
        inner = function_graph(node, node.body, schemas, store, infer)
        known = {value.name: value.type for one in inner.nodes for value in one.outputs if value is not None}
        found = [known.get(name) for name in node.body.outputs]
    else:
        found = infer(node)
    for value, type_ in zip(node.outputs, found, strict=False):
        if value is not None:
            value.type = type_
    if schema is not None:
        node.type_bindings = schema.bind_types(node)
