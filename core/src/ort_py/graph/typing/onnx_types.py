"""Types of one node's outputs from its inputs' types, as ONNX's own inference gives them.

Used by `standard_types`. Operators that inference cannot be trusted with go to `inference_gaps`. Each kind of
node is inferred once for a model, however often that repeats it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from ort_py.dtypes import ValueType
from ort_py.errors import InvalidGraph, OrtPyError
from ort_py.graph.ir import Node, Value
from ort_py.graph.typing.contents import Contents, constant_contents
from ort_py.graph.typing.inference_gaps import gap_types
from ort_py.graph.typing.inference_guard import has_long_target, is_hidden, node_fault
from ort_py.graph.typing.misread import is_misread, is_mistaken
from ort_py.graph.typing.native_inference import InferenceUnavailable, infer_shapes
from ort_py.graph.writing.protos import fill_tensor, fill_type, type_from_proto
from ort_py.graph.writing.serialize import GraphWriter, new_proto
from ort_py.limits import Budget
from ort_py.onnx_parts import onnx


def infer_onnx_node(node: Node, contents: Contents = constant_contents) -> list[ValueType | None]:
    """Types of the outputs of a node that `can_infer` accepts; None for unknown types.

    Args:
        contents: Gives the content of an input that shapes may depend on, where it is known.

    Raises:
        InvalidGraph: Its inputs contradict the operator.
    """
    known = {value: contents(value) for value in node.reads()}
    signature = _signature(node, known)
    found = node.graph.model.node_types.get(signature) if signature is not None else None
    if found is not None:
        return list(found)
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
    found = _infer(node, known)
    if found is None:
        return gap_types(node)
    if signature is not None:
        node.graph.model.node_types[signature] = found
    return list(found)


def _signature(node: Node, known: Mapping[Value, np.ndarray[Any, Any] | None]) -> Hashable | None:
    """All that the types of a node's outputs depend on; None where that is more than it is worth to compare.

    Names are no part of it: inference returns sizes and the names of sizes that its inputs have.
    """
    attributes: list[Hashable] = []
    for name, attribute in node.attributes.items():
        if isinstance(attribute, tuple):
            if not all(isinstance(one, int | float | str | bytes) for one in attribute):
                return None
            attributes.append((name, attribute, tuple(map(type, attribute))))  # 1 and 1.0 are equal
        elif isinstance(attribute, int | float | str | bytes):
            attributes.append((name, attribute, type(attribute)))
        else:
            return None  # a tensor or a graph
    read: list[Hashable] = []
    for value in node.inputs:
        content = known[value] if value is not None else None
        if content is not None and content.dtype.hasobject:
            return None
        seen = (content.dtype, content.shape, content.tobytes()) if content is not None else None
        read.append((value.type, seen) if value is not None else None)
    written = tuple([value is not None for value in node.outputs])
    imports = tuple(node.graph.model.opset_imports.items())
    return node.op_type, node.domain, node.opset_version, tuple(attributes), tuple(read), written, imports


def _infer(node: Node, known: Mapping[Value, np.ndarray[Any, Any] | None]) -> tuple[ValueType | None, ...] | None:
    """Ask ONNX; None where it cannot be asked.

    Args:
        known: Values that the node reads, with their contents.
    """
    types: dict[str, onnx.TypeProto] = {}
    data: dict[str, onnx.TensorProto] = {}
    for value, content in known.items():
        types[value.name] = onnx.TypeProto()
        if value.type is not None:
            fill_type(types[value.name], value.type)
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
            schema: Any = onnx.defs.get_schema(node.op_type, node.opset_version, node.domain)
            inferred = schema._infer_node_outputs(
                written.graph.node[0].SerializeToString(),
                {name: proto.SerializeToString() for name, proto in types.items()},
                {name: proto.SerializeToString() for name, proto in data.items()},
                {},
                {opset.domain: opset.version for opset in written.opset_import},
                onnx.IR_VERSION,
            )
            found = {name: onnx.TypeProto.FromString(content) for name, content in inferred.items()}
    except InferenceUnavailable:
        return None
    except OrtPyError:
        raise  # the time for loading is over, or inference ended the process that it ran in
    except Exception as error:  # onnx raises many types here
        if is_mistaken(str(error)):
            return None
        raise InvalidGraph(
            "The inputs of a node contradict its operator.",
            where=node.location,
            why=str(error),
            fix="A transform must check shapes and types before it creates such a node.",
        ) from error
    results = [found.get(value.name) if value is not None else None for value in node.outputs]
    return tuple([type_from_proto(proto) if proto is not None else None for proto in results])


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
