"""Types of one node's outputs from its inputs' types, as ONNX's own inference gives them.

Used by `node_types`, which also asks plug-ins, and by `function_views`, which does not. Operators that inference cannot
be trusted with go to `inference_gaps`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx

from ort_py.dtypes import ValueType
from ort_py.errors import InvalidGraph, OrtPyError
from ort_py.graph.ir import Node, Value
from ort_py.graph.typing.inference import follows_data
from ort_py.graph.typing.inference_gaps import gap_types
from ort_py.graph.typing.inference_guard import has_long_target, is_hidden, node_fault
from ort_py.graph.typing.misread import is_misread
from ort_py.graph.typing.native_inference import InferenceUnavailable, infer_shapes
from ort_py.graph.writing.protos import fill_tensor, fill_type, type_from_proto
from ort_py.graph.writing.serialize import GraphWriter, new_proto
from ort_py.limits import Budget

Contents = Callable[[Value], "np.ndarray[Any, Any] | None"]
"""Gives the content of a value that shapes may depend on, where it is known."""


def constant_contents(value: Value) -> np.ndarray[Any, Any] | None:
    if value.constant and value.weight is not None and follows_data(value.weight):
        return value.weight.array()
    return None


def infer_onnx_node(node: Node, contents: Contents = constant_contents) -> list[ValueType | None]:
    """Types of the outputs of a node that `can_infer` accepts; None for unknown types.

    Args:
        contents: Gives the content of an input that shapes may depend on, where it is known.

    Raises:
        InvalidGraph: Its inputs contradict the operator.
    """
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
    for value in node.reads():
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
                onnx.defs.get_schema(node.op_type, node.opset_version, node.domain),
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
