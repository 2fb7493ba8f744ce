"""Types of one node's outputs from its inputs' types, for any operator that somebody can type.

Used by `shapes` for nodes one by one, and by `edit` for new nodes. ONNX's own operators are asked through onnx,
contributed ones through their schema, the few that are left through `inference_gaps`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx

from ort_py.contracts.schema import TypeFunction
from ort_py.dtypes import ValueType
from ort_py.errors import InvalidGraph, OrtPyError, PluginError
from ort_py.graph.checking.schema import SchemaRegistry
from ort_py.graph.ir import Node, Value
from ort_py.graph.typing.inference import can_infer, follows_data
from ort_py.graph.typing.inference_gaps import gap_types
from ort_py.graph.typing.inference_guard import has_long_target, is_hidden, node_fault
from ort_py.graph.typing.misread import is_misread
from ort_py.graph.typing.native_inference import InferenceUnavailable, infer_shapes
from ort_py.graph.view import node_spec
from ort_py.graph.writing.protos import fill_tensor, fill_type, type_from_proto
from ort_py.graph.writing.serialize import GraphWriter, new_proto
from ort_py.limits import Budget

__all__ = ["Contents", "contributed_types", "infer_node", "type_function"]

Contents = Callable[[Value], "np.ndarray[Any, Any] | None"]
"""Gives the content of a value that shapes may depend on, where it is known."""


def type_function(node: Node, schemas: SchemaRegistry | None) -> TypeFunction | None:
    """The type function that a plug-in contributed for a node, or None."""
    schema = schemas.lookup(node) if schemas is not None else None
    return schema.infer if schema is not None else None


def contributed_types(node: Node, infer: TypeFunction) -> list[ValueType | None]:
    """Types that a contributed function returns.

    Raises:
        PluginError: It broke.
    """
    try:
        return list(infer(node_spec(node)))
    except OrtPyError:
        raise
    except Exception as error:  # a plug-in's code
        raise PluginError(
            f"The type inference of a contributed operator raised {type(error).__name__}: {error}",
            where=node.location,
            fix="Report this to the author of the plug-in that contributes the operator.",
        ) from error


def constant_contents(value: Value) -> np.ndarray[Any, Any] | None:
    """The content of a small constant."""
    if value.constant and value.weight is not None and follows_data(value.weight):
        return value.weight.array()
    return None


def infer_node(
    node: Node, schemas: SchemaRegistry | None = None, contents: Contents = constant_contents
) -> list[ValueType | None]:
    """Types of one node's outputs from its inputs' types; None for unknown types.

    Args:
        node: The node, in its graph.
        schemas: Where contributed operators are looked up.
        contents: Gives the content of an input that shapes may depend on, where it is known.

    Raises:
        InvalidGraph: Its inputs contradict the operator.
        PluginError: The `infer` of a contributed schema broke.
    """
    opset = node.opset_version
    if not can_infer(node.op_type, node.domain, opset):
        infer = type_function(node, schemas)
        return contributed_types(node, infer) if infer is not None else gap_types(node)
    if is_hidden(node) or has_long_target(node) or is_misread(node):
        return gap_types(node)
    fault = node_fault(node)
    if fault:
        raise InvalidGraph(
            "A node contradicts its operator.",
            where=node.location,
            why=fault,
            fix="A transform must check the inputs and attributes before it creates such a node.",
        )
    types: dict[str, onnx.TypeProto] = {}
    data: dict[str, onnx.TensorProto] = {}
    captured = [value for nested in node.subgraphs for value in nested.captures()]
    for value in (*node.inputs, *captured):
        if value is None:
            continue
        types[value.name] = onnx.TypeProto()
        if value.type is not None:
            fill_type(types[value.name], value.type)
        content = contents(value)
        if content is not None:
            data[value.name] = onnx.TensorProto()
            fill_tensor(data[value.name], content, value.name)
    written = new_proto(node.graph.model)
    writer = GraphWriter(node.graph.model, written, strict=False)
    writer.nodes(written.graph, [node], [value for value in node.outputs if value is not None], wrap=False)
    writer.finish()
    try:
        if node.graph.model.budget.limits.isolated_inference:
            found = _infer_as_model(written, types, data, node.graph.model.budget)
        else:
            found = onnx.shape_inference.infer_node_outputs(
                onnx.defs.get_schema(node.op_type, opset, node.domain),
                written.graph.node[0],
                types,
                data,
                opset_imports=list(written.opset_import),
            )
    except InferenceUnavailable:
        return gap_types(node)
    except OrtPyError:
        raise  # the time for loading is over, or inference ended the process that it ran in
    except Exception as error:  # onnx raises many types here
        raise InvalidGraph(
            "The inputs of a node contradict its operator.",
            where=node.location,
            why=str(error),
            fix="A transform must check shapes and types before it creates such a node.",
        ) from error
    results = [found.get(value.name) if value is not None else None for value in node.outputs]
    return [type_from_proto(proto) if proto is not None else None for proto in results]


def _infer_as_model(
    written: onnx.ModelProto, types: dict[str, onnx.TypeProto], data: dict[str, onnx.TensorProto], budget: Budget
) -> dict[str, onnx.TypeProto]:
    """Types of the outputs of a model of one node, as `onnx.shape_inference.infer_node_outputs` gives them."""
    graph = written.graph
    graph.name = "node"
    for name, known in types.items():
        graph.input.add(name=name, type=known)
    graph.initializer.extend(data.values())
    declared = {value.name for value in graph.value_info}
    graph.output.extend(
        onnx.ValueInfoProto(name=name) for name in graph.node[0].output if name and name not in declared
    )
    found = infer_shapes(written.SerializeToString(), strict=True, budget=budget).graph
    return {value.name: value.type for value in (*found.output, *found.value_info) if value.HasField("type")}
