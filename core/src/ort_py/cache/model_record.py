"""A model as plain data and back: columns of numbers and tables of what repeats, so that a large graph is read quickly.

Comes after `constants`, which has the tensors. Reads and writes the graph as it is, at whatever stage; knows nothing of
who runs the nodes. Needs neither onnx nor protobuf. What has no form here raises, and the model is not cached; a record
that does not fit together raises one of `BROKEN`, and counts as damaged.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from ort_py.cache.constants import ConstantReader, ConstantWriter, NotStorableError
from ort_py.contracts.function_body import FunctionBody, NodeTemplate
from ort_py.dtypes import DataType, MapType, OptionalType, SequenceType, SparseTensorType, TensorType, ValueType
from ort_py.graph.ir import Graph, Model, Node, Value, walk
from ort_py.graph.reading.fingerprint import ContentHash
from ort_py.graph.weights.weight_store import process_store

BROKEN = (KeyError, IndexError, TypeError, ValueError, AttributeError, AssertionError, struct.error, RecursionError)
"""Errors of reading a record that other code wrote, or that is damaged in a way that no checksum notices."""

MODEL_FIELDS = (
    "opset_imports",
    "ir_version",
    "producer_name",
    "producer_version",
    "domain",
    "model_version",
    "doc_string",
    "graph_doc_string",
    "metadata",
)
"""Fields of `Model` that are JSON as they are; its fingerprint is text in the record. `source` is where the model is
found now, not where it was."""

_SHAPED: dict[type, str] = {TensorType: "t", SparseTensorType: "s"}
_WRAPPED: dict[type, str] = {SequenceType: "q", OptionalType: "o"}


class ModelWriter:
    """Writes one model.

    Attributes:
        nodes: Number of each node, for who adds columns of their own.
    """

    def __init__(self, model: Model, constants: ConstantWriter) -> None:
        self._model = model
        self._constants = constants
        self._types: dict[ValueType | None, int] = {None: 0}
        self._kinds: dict[tuple[Any, ...], int] = {}
        self._attributes: dict[str, int] = {"{}": 0}
        self._values: dict[Value, int] = {}
        self._bodies: dict[FunctionBody, int] = {}
        self.graphs: dict[Graph, int] = {graph: number for number, graph in enumerate(walk(model.graph))}
        self.nodes: dict[Node, int] = {}

    def record(self) -> dict[str, Any]:
        """The model as JSON holds it.

        Raises:
            NotStorableError: It holds something that has no form here.
        """
        model = self._model
        for graph in self.graphs:
            for node in graph.nodes:
                self.nodes[node] = len(self.nodes)
        values = self._value_columns()
        nodes = self._node_columns()
        graphs = [
            [
                graph.name,
                -1 if graph.owner is None else self.nodes[graph.owner],
                [self._number(value) for value in graph.inputs],
                [self._number(value) for value in graph.outputs],
                [self._number(value) for value in graph.initializers.values()],
                len(graph.nodes),
                [self._type(value_type) for value_type in graph.declared_outputs],
            ]
            for graph in self.graphs
        ]
        return {
            "model": {name: getattr(model, name) for name in MODEL_FIELDS} | {"fingerprint": str(model.fingerprint)},
            "graphs": graphs,
            "values": values,
            "nodes": nodes,
            "kinds": [list(kind) for kind in self._kinds],
            "attributes": [json.loads(text) for text in self._attributes],
            "bodies": [self._body_record(body) for body in self._bodies],
            "types": [_type_record(value_type) for value_type in self._types],
        }

    def _number(self, value: Value) -> int:
        number = self._values.get(value)
        if number is None:
            raise NotStorableError(f"the value '{value.name}' belongs to no graph")
        return number

    def _value_columns(self) -> dict[str, Any]:
        names, types, counts = [], [], []
        weights, overridable = [], []
        for graph in self.graphs:
            before = len(self._values)
            mine = [*graph.inputs, *graph.initializers.values()]
            mine += [value for node in graph.nodes for value in node.outputs if value is not None]
            for value in mine:
                if value in self._values or value.graph is not graph:
                    if value.graph is not graph:
                        raise NotStorableError(f"the value '{value.name}' belongs to another graph")
                    continue
                number = self._values[value] = len(self._values)
                names.append(value.name)
                types.append(self._type(value.type))
                if value.weight is not None:
                    weights += [number, self._constants.weight(value.weight)]
                if value.overridable:
                    overridable.append(number)
            counts.append(len(self._values) - before)
        return {"names": names, "types": types, "counts": counts, "weights": weights, "overridable": overridable}

    def _node_columns(self) -> dict[str, Any]:
        names, kinds, attributes = [], [], []
        inputs, outputs, arity = [], [], []
        bodies, sources = [], []
        number_of = self._number
        for node in self.nodes:
            names.append(node.name)
            bindings = json.dumps(node.type_bindings)
            kind = (node.op_type, node.domain, node.overload, node.since_version, node.opset, node.origin, bindings)
            kinds.append(self._kinds.setdefault(kind, len(self._kinds)))
            attributes.append(self._attribute_row(node) if node.attributes else 0)
            inputs += [-1 if value is None else number_of(value) for value in node.inputs]
            outputs += [-1 if value is None else number_of(value) for value in node.outputs]
            arity += [len(node.inputs), len(node.outputs)]
            if node.body is not None:
                bodies.append([self.nodes[node], self._bodies.setdefault(node.body, len(self._bodies))])
            if node.sources:
                sources.append([self.nodes[node], list(node.sources)])
        return {
            "names": names,
            "kinds": kinds,
            "attributes": attributes,
            "inputs": inputs,
            "outputs": outputs,
            "arity": arity,
            "bodies": bodies,
            "sources": sources,
        }

    def _body_record(self, body: FunctionBody) -> list[Any]:
        constants = {name: self._attribute(np.asarray(array)) for name, array in body.constants.items()}
        nodes = [self._template_record(template) for template in body.nodes]
        return [list(body.inputs), list(body.outputs), nodes, constants, dict(body.opset_imports)]

    def _template_record(self, template: NodeTemplate) -> list[Any]:
        given = template.attributes
        attributes = None if given is None else {name: self._attribute(value) for name, value in given.items()}
        body = None if template.body is None else self._body_record(template.body)
        names = [list(template.inputs), list(template.outputs)]
        return [template.op_type, *names, attributes, template.domain, template.name, body]

    def _attribute_row(self, node: Node) -> int:
        record = {name: self._attribute(value) for name, value in node.attributes.items()}
        return self._attributes.setdefault(json.dumps(record), len(self._attributes))

    def _attribute(self, value: Any) -> Any:
        """Numbers and texts as they are, lists for tuples, an object with one key for everything else."""
        if isinstance(value, str) or type(value) in (int, float, bool):
            return value
        if isinstance(value, tuple | list):
            return [self._attribute(item) for item in value]
        if isinstance(value, np.ndarray):
            return {"tensor": self._constants.weight(process_store().add(value))}
        if isinstance(value, Graph):
            return {"graph": self.graphs[value]}
        if isinstance(value, bytes):
            return {"bytes": list(value)}
        if isinstance(value, np.generic) and value.dtype.kind in "iufb":
            return value.item()
        if isinstance(value, TensorType | SparseTensorType | SequenceType | OptionalType | MapType):
            return {"type": self._type(value)}
        raise NotStorableError(f"an attribute is a {type(value).__name__}")

    def _type(self, value_type: ValueType | None) -> int:
        return self._types.setdefault(value_type, len(self._types))


def _type_record(value_type: ValueType | None) -> Any:
    if value_type is None:
        return None
    if isinstance(value_type, TensorType | SparseTensorType):
        shape = None if value_type.shape is None else list(value_type.shape)
        return [_SHAPED[type(value_type)], int(value_type.data_type), shape]
    if isinstance(value_type, MapType):
        return ["m", int(value_type.key), _type_record(value_type.value)]
    return [_WRAPPED[type(value_type)], _type_record(value_type.element)]


def _read_type(record: Any) -> ValueType | None:
    if record is None:
        return None
    kind, *rest = record
    if kind in ("t", "s"):
        data_type, shape = DataType(rest[0]), None if rest[1] is None else tuple(rest[1])
        return TensorType(data_type, shape) if kind == "t" else SparseTensorType(data_type, shape)
    inner = _read_type(rest[-1])
    assert inner is not None, "either all of it or nothing must be unknown"
    if kind == "m":
        return MapType(DataType(rest[0]), inner)
    return SequenceType(inner) if kind == "q" else OptionalType(inner)


class ModelReader:
    """Reads one record.

    Attributes:
        model: The model; `source` is empty.

    Raises:
        BROKEN: The record does not fit together.
    """

    def __init__(self, record: dict[str, Any], constants: ConstantReader) -> None:
        self._constants = constants
        self._types = [_read_type(one) for one in record["types"]]
        fields = record["model"]
        self.model = model = Model(**{name: fields[name] for name in MODEL_FIELDS})
        model.fingerprint = ContentHash(fields["fingerprint"])
        self.graphs = [Graph(row[0], model) for row in record["graphs"]]
        model.graph = self.graphs[0]
        values = self._read_values(record["values"])
        self.nodes = self._read_nodes(record, values)
        for graph, (_, owner, inputs, outputs, initializers, _, own) in zip(self.graphs, record["graphs"], strict=True):
            graph.owner = None if owner < 0 else self.nodes[owner]
            graph.inputs = [values[number] for number in inputs]
            graph.outputs = [values[number] for number in outputs]
            graph.declared_outputs = [self._types[number] for number in own]
            graph.initializers = {(value := values[number]).name: value for number in initializers}
            for value in graph.outputs:
                value.is_graph_output = True

    def _read_values(self, columns: dict[str, Any]) -> list[Value]:
        types = self._types
        values: list[Value] = []
        rows = zip(columns["names"], columns["types"], strict=True)
        for graph, count in zip(self.graphs, columns["counts"], strict=True):
            values += [Value(name, graph, types[number]) for _, (name, number) in zip(range(count), rows, strict=False)]
        weights, pairs = self._constants.weights, columns["weights"]
        for number, weight in zip(pairs[::2], pairs[1::2], strict=True):
            values[number].weight = weights[weight]
        for number in columns["overridable"]:
            values[number].overridable = True
        return values

    def _read_nodes(self, record: dict[str, Any], values: list[Value]) -> list[Node]:
        columns = record["nodes"]
        kinds = [(*kind[:-1], json.loads(kind[-1])) for kind in record["kinds"]]
        attributes: list[Callable[[], dict[str, Any]]] = [self._attributes(one) for one in record["attributes"]]
        # -1, an absent value, is the last entry.
        named: list[Value | None] = [*values, None]
        inputs, outputs = columns["inputs"], columns["outputs"]
        owners = [graph for graph, row in zip(self.graphs, record["graphs"], strict=True) for _ in range(row[5])]
        arity = columns["arity"]
        nodes: list[Node] = []
        read = written = 0
        for graph, name, kind, attribute, reads, writes in zip(
            owners, columns["names"], columns["kinds"], columns["attributes"], arity[::2], arity[1::2], strict=True
        ):
            op_type, domain, overload, since, opset, origin, bindings = kinds[kind]
            sources = [named[number] for number in inputs[read : read + reads]]
            node = Node(op_type, sources, graph, name=name, domain=domain, overload=overload, origin=origin)
            node.attributes = attributes[attribute]()
            node.since_version, node.opset, node.type_bindings = since, opset, dict(bindings)
            node.outputs = results = [named[number] for number in outputs[written : written + writes]]
            for value in results:
                if value is not None:
                    value.producer = node
            graph.nodes.append(node)
            nodes.append(node)
            read, written = read + reads, written + writes
        bodies = [self._body(one) for one in record["bodies"]]
        for number, body in columns["bodies"]:
            nodes[number].body = bodies[body]
        for number, names in columns["sources"]:
            nodes[number].sources = tuple(names)
        return nodes

    def _body(self, record: Any) -> FunctionBody:
        inputs, outputs, nodes, constants, opsets = record
        arrays = {name: self._attribute(array) for name, array in constants.items()}
        templates = tuple([self._template(one) for one in nodes])
        return FunctionBody(tuple(inputs), tuple(outputs), templates, arrays, opsets)

    def _template(self, record: Any) -> NodeTemplate:
        op_type, inputs, outputs, given, domain, name, inner = record
        attributes = None if given is None else {key: self._attribute(value) for key, value in given.items()}
        body = None if inner is None else self._body(inner)
        return NodeTemplate(op_type, tuple(inputs), tuple(outputs), attributes, domain, name, body)

    def _attributes(self, record: dict[str, Any]) -> Callable[[], dict[str, Any]]:
        """Makes the attributes of one node: a dict of its own for each."""
        return {name: self._attribute(value) for name, value in record.items()}.copy

    def _attribute(self, value: Any) -> Any:
        if isinstance(value, list):
            return tuple([self._attribute(item) for item in value])
        if not isinstance(value, dict):
            return value
        ((kind, content),) = value.items()
        if kind == "tensor":
            return self._constants.weights[content].array()
        if kind == "graph":
            return self.graphs[content]
        if kind == "bytes":
            return bytes(content)
        assert kind == "type", kind
        return self._types[content]
