"""A model file described from what stands in it, without a session: works where no session can be created.

Reads the file through `graph.sources`, as a session does, but neither weights beside it nor schemas decide anything:
a model with a missing weight file, an unknown operator or a cycle can still be described. Graphs are walked from a
work list, never by recursion.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import field
from typing import Any

from ort_py.dtypes import DataType, OptionalType, TensorType, ValueType, nbytes_of
from ort_py.graph.checking.domains import normalised, onnx_domains
from ort_py.graph.reading.sources import read_source
from ort_py.graph.writing.protos import type_from_proto
from ort_py.lazy_dataclass import dataclass
from ort_py.limits import Limits


@dataclass(frozen=True, slots=True)
class ValueDescription:
    """An input or output as the file declares it; `shape` is None where there is none."""

    name: str
    type: str
    shape: list[int | str | None] | None


@dataclass(frozen=True, slots=True)
class OperatorUse:
    """An operator and how often it is used, nested graphs and functions included.

    Attributes:
        domain: Its domain, ``""`` for ``ai.onnx``.
        opset: Opset of the domain the model imports, 0 where it imports none.
        since: Version of the schema in force; None where the installed onnx has no such operator.
        standard: Whether ONNX defines the domain.
    """

    op_type: str
    domain: str
    opset: int
    since: int | None
    function: bool
    standard: bool
    count: int


@dataclass(slots=True)
class Description:
    """The content of a model file.

    Attributes:
        ir_version, producer, graph_name, domain, model_version, description, metadata: As in the file.
        overridable: Inputs with a default, which may be fed.
        operators: Operators, the most used first.
        nodes: Nodes of all graphs and functions as written, before functions are inlined.
        functions: Names of the model's functions with their numbers of nodes.
        weights: Number of initializers and of tensors in attributes, as `Constant` nodes have them.
        weight_bytes: Bytes of them, packed as ONNX stores them.
        external_files: Files beside the model that weights are in, and bytes in each as declared.
    """

    path: str
    size: int
    ir_version: int
    producer: str
    graph_name: str
    domain: str
    model_version: int
    description: str
    metadata: dict[str, str]
    opsets: dict[str, int]
    inputs: list[ValueDescription] = field(default_factory=list)
    overridable: list[ValueDescription] = field(default_factory=list)
    outputs: list[ValueDescription] = field(default_factory=list)
    operators: list[OperatorUse] = field(default_factory=list)
    nodes: int = 0
    nested_graphs: int = 0
    nesting_depth: int = 0
    functions: dict[str, int] = field(default_factory=dict)
    weights: int = 0
    weight_bytes: int = 0
    external_files: dict[str, int] = field(default_factory=dict)


def describe_model(path: str | os.PathLike[str], limits: Limits) -> Description:
    """Describe a model file.

    Raises:
        OrtPyError: The file does not exist, or it is not an ONNX model.
    """
    source = read_source(path, limits, None)
    model = source.proto
    graph = model.graph
    described = Description(
        path=os.fspath(path),
        size=source.size,
        ir_version=model.ir_version,
        producer=" ".join(part for part in (model.producer_name, model.producer_version) if part),
        graph_name=graph.name,
        domain=model.domain,
        model_version=model.model_version or 0,
        description=model.doc_string,
        metadata={entry.key: entry.value for entry in model.metadata_props},
        opsets={normalised(entry.domain): entry.version for entry in model.opset_import},
    )
    defaults = {tensor.name for tensor in graph.initializer} | {
        tensor.values.name for tensor in graph.sparse_initializer
    }
    for value in graph.input:
        (described.overridable if value.name in defaults else described.inputs).append(_value(value))
    described.outputs = [_value(value) for value in graph.output]
    _count(described, model)
    return described


def _value(proto: Any) -> ValueDescription:
    value_type = type_from_proto(proto.type)
    inner: ValueType | None = value_type.element if isinstance(value_type, OptionalType) else value_type
    shape = list(inner.shape) if isinstance(inner, TensorType) and inner.shape is not None else None
    return ValueDescription(proto.name, str(value_type or "unknown"), shape)


def _count(described: Description, model: Any) -> None:
    """Operators, weights and nested graphs of the main graph and of all functions."""
    uses: Counter[tuple[str, str]] = Counter()
    for function in model.functions:
        described.functions[f"{function.domain}.{function.name}"] = len(function.node)
    pending = [(model.graph, 0), *((function, 0) for function in model.functions)]
    while pending:
        graph, depth = pending.pop()
        described.nesting_depth = max(described.nesting_depth, depth)
        described.nodes += len(graph.node)
        # Functions have neither initializers nor a separate list of sparse ones.
        for tensor in getattr(graph, "initializer", ()):
            _add_weight(described, tensor)
        for sparse in getattr(graph, "sparse_initializer", ()):
            _add_weight(described, sparse.values)
            _add_weight(described, sparse.indices)
        for node in graph.node:
            uses[normalised(node.domain), node.op_type] += 1
            for attribute in node.attribute:
                tensors = [attribute.t, *attribute.tensors] if attribute.HasField("t") else attribute.tensors
                for tensor in tensors:
                    _add_weight(described, tensor)
                graphs = [attribute.g, *attribute.graphs] if attribute.HasField("g") else attribute.graphs
                described.nested_graphs += len(graphs)
                pending.extend((nested, depth + 1) for nested in graphs)
    functions = {(normalised(function.domain), function.name) for function in model.functions}
    described.operators = [
        OperatorUse(
            op_type,
            domain,
            described.opsets.get(domain, 0),
            None if (domain, op_type) in functions else _since(op_type, domain, described.opsets.get(domain, 0)),
            (domain, op_type) in functions,
            domain in onnx_domains(),
            count,
        )
        for (domain, op_type), count in sorted(uses.items(), key=lambda item: (-item[1], item[0]))
    ]


def _add_weight(described: Description, tensor: Any) -> None:
    try:
        size = nbytes_of(DataType(tensor.data_type), tuple(max(0, dim) for dim in tensor.dims))
    except ValueError:  # an element type of a newer onnx
        size = len(tensor.raw_data)
    described.weights += 1
    described.weight_bytes += size
    for entry in tensor.external_data:
        if entry.key == "location":
            described.external_files[entry.value] = described.external_files.get(entry.value, 0) + size


def _since(op_type: str, domain: str, opset: int) -> int | None:
    from onnx import defs

    try:
        return int(defs.get_schema(op_type, opset, domain).since_version)
    except defs.SchemaError:
        return None
