"""The functions by which ONNX defines operators, in the place of nodes that have no kernel.

It comes after a model was read, and must not know which nodes these are. Few models need it.
"""

from __future__ import annotations

from typing import Any

from ort_py.dtypes import ValueType
from ort_py.graph.checking.resolved_schema import from_onnx
from ort_py.graph.checking.schema import SchemaRegistry
from ort_py.graph.ir import Graph, Node
from ort_py.graph.reading.build import ModelBuilder
from ort_py.graph.reading.external_data import ExternalFiles
from ort_py.graph.reading.names import Names
from ort_py.graph.reading.parse_graph import GraphReader
from ort_py.graph.reading.tensors import TensorReader
from ort_py.graph.reading.written import WrittenFunction
from ort_py.graph.weights.weight_store import WeightStore, process_store
from ort_py.graph.writing.protos import fill_attribute, fill_type
from ort_py.limits import Budget, Limits
from ort_py.onnx_parts import onnx


def expand_schema_function(
    node: Node,
    schemas: SchemaRegistry | None = None,
    *,
    store: WeightStore | None = None,
    names: Names | None = None,
    limits: Limits | None = None,
) -> list[Node] | None:
    """Replace a node by the function that ONNX defines for its operator.

    The new nodes stand where the node stood, in order, read what it read and write the values it wrote. They carry
    the operator's name as `origin`, and the function's opset where it is another than the model's.

    Args:
        node: The node; for operators whose body depends on types, its inputs must be typed.
        schemas: Gives the opset of domains that the model does not import; without it these have no function.
        names: Names taken in the model, where the caller expands many nodes; else they are gathered again.

    Returns:
        The new nodes, or None where ONNX defines the operator by no function, or not for these types.
    """
    store, budget = store or process_store(), Budget(limits or Limits())
    function = _schema_function(node, schemas.opset(node) if schemas is not None else node.opset_version, store, budget)
    if function is None:
        return None
    graph = node.graph
    before = len(graph.nodes)
    builder = ModelBuilder(graph.model, {}, budget, store, names or Names.of(graph.model))
    builder.expand(node, function)
    made = graph.nodes[before:]
    place = graph.nodes.index(node)
    graph.nodes[before:] = []
    graph.nodes[place : place + 1] = made
    return made


def _schema_function(node: Node, opset: int, store: WeightStore, budget: Budget) -> WrittenFunction | None:
    proto = _function_proto(node, opset)
    if proto is None:
        return None
    reader = GraphReader(TensorReader(store, budget, ExternalFiles(None, store, budget)), budget)
    function = reader.function(proto)
    function.key = (node.domain, node.op_type, "")
    schema = from_onnx(node.op_type, node.domain, opset)
    if schema is not None:
        # A default that the schema gives counts for references in the body as if the node had it.
        defaults = {name: spec.default for name, spec in schema.attributes.items() if spec.default is not None}
        function.defaults = defaults | function.defaults
    return function


def _function_proto(node: Node, opset: int) -> onnx.FunctionProto | None:
    try:
        schema: Any = onnx.defs.get_schema(node.op_type, opset, node.domain)
    except onnx.defs.SchemaError:
        return None
    fitting = [version for version in schema.function_opset_versions if version <= opset]
    if fitting:
        return onnx.FunctionProto.FromString(schema.get_function_with_opset_version(max(fitting)))
    fitting = [version for version in schema.context_dependent_function_opset_versions if version <= opset]
    if not fitting or any(isinstance(value, Graph) for value in node.attributes.values()):
        return None
    types: list[bytes] = []
    for value in node.inputs:
        text = _type_bytes(value.type) if value is not None else b""
        if text is None:
            return None
        types.append(text)
    content = schema.get_context_dependent_function_with_opset_version(
        max(fitting), _node_proto(node).SerializeToString(), types
    )
    found = onnx.FunctionProto.FromString(content)
    return found if found.node else None


def _type_bytes(value_type: ValueType | None) -> bytes | None:
    if value_type is None:
        return None
    proto = onnx.TypeProto()
    fill_type(proto, value_type)
    return proto.SerializeToString()


def _node_proto(node: Node) -> onnx.NodeProto:
    """The node alone, as functions that depend on it want to see it."""
    proto = onnx.NodeProto(op_type=node.op_type, domain=node.domain, name=node.name)
    proto.input.extend(value.name if value is not None else "" for value in node.inputs)
    proto.output.extend(value.name if value is not None else "" for value in node.outputs)
    for name, value in node.attributes.items():
        fill_attribute(proto.attribute.add(), name, value)
    return proto
