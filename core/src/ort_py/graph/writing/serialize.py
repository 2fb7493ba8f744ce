"""The in-memory graph written back to ONNX: whole models, and regions for a vendor's compiler.

Comes after every stage: a model can be written at any time. It does not depend on files; `weights="external"` refers to
files that the constants came from. Nested graphs are written from a work list, not by recursion.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from google.protobuf.message import EncodeError

from ort_py.contracts.graph_view import WeightMode
from ort_py.dtypes import ValueType, nbytes_of
from ort_py.errors import InvalidArgument, LimitError, Location
from ort_py.graph.ir import Graph, Model, Node, Value, Weight
from ort_py.graph.weights.weights import MappedWeight
from ort_py.graph.writing.node_versions import FunctionWriter, list_type
from ort_py.graph.writing.protos import fill_attribute, fill_tensor, value_info
from ort_py.onnx_parts import onnx

PROTOBUF_LIMIT = 2**31 - 1
"""Bytes one protobuf message can have."""

SMALL = 1024
"""Constants up to this size are always written inline: shapes and scales, which readers want to look at."""


class GraphWriter:
    """Writes graphs into messages. `inference` overrides the recorded types of values.

    Args:
        proto: The message that gets the functions for nodes with an opset of their own.
        strict: Refuse nodes whose opset cannot be written, rather than write them as if they had the model's.
        standard: Write all nodes that carry a function as calls of it.
    """

    def __init__(self, model: Model, proto: onnx.ModelProto, *, strict: bool = True, standard: bool = False) -> None:
        self._functions = FunctionWriter(model, proto, strict=strict, standard=standard)
        self._pending: list[tuple[onnx.GraphProto, Graph]] = []

    def graph(self, proto: onnx.GraphProto, graph: Graph) -> None:
        """Write a graph and all graphs nested in it into an empty message."""
        self._pending.append((proto, graph))
        self.finish()

    def finish(self) -> None:
        """Write the nested graphs that `nodes` has met."""
        while self._pending:
            proto, graph = self._pending.pop()
            self._graph(proto, graph)

    def nodes(
        self, proto: onnx.GraphProto, nodes: Iterable[Node], outputs: Iterable[Value], *, wrap: bool = True
    ) -> None:
        """Write nodes, and declare what they compute unless it is among `outputs`, which the caller declares.

        Nested graphs wait for `finish`. With `wrap`, nodes with an opset of their own, and fused ones that
        no other runtime knows, become calls of functions.
        """
        returned = set(outputs)
        add = proto.node.add
        for node in nodes:
            message = add(
                op_type=node.op_type,
                name=node.name,
                input=[value.name if value is not None else "" for value in node.inputs],
                output=[value.name if value is not None else "" for value in node.outputs],
            )
            if node.domain:
                message.domain = node.domain
            if node.overload:
                message.overload = node.overload
            if node.attributes:
                self._attributes(message, node)
            if wrap:
                self.annotate(message, node)
                self._functions.wrap(message, node)
            for value in node.outputs:
                if value is not None and value not in returned:
                    self.declare(proto, value)

    def annotate(self, message: onnx.NodeProto, node: Node) -> None:
        """Add annotations to a node, unless the message is for a machine."""

    def declare(self, proto: onnx.GraphProto, value: Value) -> None:
        """Write what is known of an inner value."""
        if value.type is not None:
            value_info(proto.value_info.add(), value.name, value.type)

    def type_of_input(self, value: Value) -> ValueType | None:
        return value.type

    def type_of_output(self, value: Value) -> ValueType | None:
        return value.type

    def initializer(self, proto: onnx.GraphProto, value: Value) -> None:
        assert value.weight is not None  # what an initializer is
        fill_tensor(proto.initializer.add(), value.weight.array(), value.name)

    def _graph(self, proto: onnx.GraphProto, graph: Graph) -> None:
        proto.name = graph.name or "graph"
        overridable = [value for value in graph.initializers.values() if value.overridable]
        for value in graph.inputs + overridable:
            graph.model.budget.tick()
            value_info(proto.input.add(), value.name, self.type_of_input(value))
        for value in graph.initializers.values():
            self.initializer(proto, value)
        self.nodes(proto, graph.nodes, graph.outputs)
        for position, value in enumerate(graph.outputs):
            name = value.name
            if value.graph is not graph:
                # A nested graph may not return a value of a graph around it by name.
                name = f"{value.name}/returned_{position}"
                proto.node.add(op_type="Identity", name=name, input=[value.name], output=[name])
            value_info(proto.output.add(), name, self.type_of_output(value))

    def _attributes(self, message: onnx.NodeProto, node: Node) -> None:
        for name, value in node.attributes.items():
            attribute = message.attribute.add()
            if isinstance(value, Graph):
                attribute.name, attribute.type = name, onnx.AttributeProto.GRAPH
                attribute.g.SetInParent()
                self._pending.append((attribute.g, value))
            elif isinstance(value, tuple) and value and isinstance(value[0], Graph):
                attribute.name, attribute.type = name, onnx.AttributeProto.GRAPHS
                self._pending.extend((attribute.graphs.add(), item) for item in value)
            else:
                is_empty = isinstance(value, tuple) and not value
                fill_attribute(attribute, name, value, empty=list_type(node, name) if is_empty else 0)


class _WeightWriter(GraphWriter):
    """Writes constants in one of the three ways, and adds up what goes inline."""

    def __init__(self, model: Model, proto: onnx.ModelProto, weights: WeightMode, *, standard: bool = False) -> None:
        super().__init__(model, proto, standard=standard)
        self._weights = weights
        self._source = model.source
        self._inline = 0

    def annotate(self, message: onnx.NodeProto, node: Node) -> None:
        # Who made a node, and of which: so that a profile of the written model leads back to the one it came from.
        if node.origin:
            message.metadata_props.add(key="ort_py.origin", value=node.origin)
        if node.sources:
            import json  # few models are written

            message.metadata_props.add(key="ort_py.sources", value=json.dumps(node.sources))

    def initializer(self, proto: onnx.GraphProto, value: Value) -> None:
        weight = value.weight
        assert weight is not None  # what an initializer is
        size = nbytes_of(weight.data_type, weight.shape)
        if self._weights == "external" and size > SMALL:
            self._external(proto.initializer.add(), value, weight)
            return
        self._inline += size
        if self._inline > PROTOBUF_LIMIT:
            raise _too_large(self._inline)
        super().initializer(proto, value)

    def _external(self, proto: onnx.TensorProto, value: Value, weight: Weight) -> None:
        # A constant from the cache has no file that a model could refer to: entries come and go.
        if not isinstance(weight, MappedWeight) or not weight.file.path:
            raise InvalidArgument(
                "A constant that was not read from a file cannot be written as external data.",
                where=Location(value=value.name),
                why=f"its {weight.nbytes:,} bytes were inside the model or were computed by a transform",
                fix="Ask for the model with weights='inline' or weights='reference'.",
            )
        proto.name, proto.data_type = value.name, int(weight.data_type)
        proto.dims.extend(weight.shape)
        proto.data_location = onnx.TensorProto.EXTERNAL
        entries = {
            "location": _relative(weight.file.path, self._source),
            "offset": str(weight.offset),
            "length": str(weight.length),
        }
        for key, text in entries.items():
            proto.external_data.add(key=key, value=text)


def _relative(file: str, source: str) -> str:
    from pathlib import PurePath  # few models are written

    path, folder = PurePath(file), PurePath(source).parent
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.as_posix()


def _too_large(size: int) -> LimitError:
    return LimitError(
        f"The model would have {size:,} bytes; protobuf cannot hold more than {PROTOBUF_LIMIT:,}.",
        fix="Write it with weights='external' (constants stay in their files) or weights='reference'.",
    )


def new_proto(model: Model) -> onnx.ModelProto:
    """A message with the model's versions and an empty graph."""
    # IR version 4 is the first in which an initializer need not be an input as well.
    proto = onnx.ModelProto(ir_version=max(model.ir_version, 4))
    for domain, version in model.opset_imports.items():
        proto.opset_import.add(domain=domain, version=version)
    return proto


def model_to_proto(model: Model, weights: WeightMode = "inline") -> onnx.ModelProto:
    """The model as an ONNX message, with the types that are known.

    Args:
        weights: Place of the constants; see `RegionView.to_model`. Constants of nested graphs are always written, since
            a nested graph has no inputs of its own choice; so are external ones up to 1 KiB.

    Raises:
        InvalidArgument: ``external`` where a constant has no file.
        LimitError: The message would pass protobuf's 2 GiB.
    """
    proto = new_proto(model)
    proto.producer_name, proto.producer_version = model.producer_name, model.producer_version
    proto.domain, proto.doc_string = model.domain, model.doc_string
    if model.model_version is not None:
        proto.model_version = model.model_version
    proto.graph.doc_string = model.graph_doc_string
    for key, text in model.metadata.items():
        proto.metadata_props.add(key=key, value=text)
    writer = _WeightWriter(model, proto, weights)
    if weights == "reference":
        _write_by_reference(writer, proto.graph, model.graph)
    else:
        writer.graph(proto.graph, model.graph)
    return proto


def _write_by_reference(writer: _WeightWriter, proto: onnx.GraphProto, graph: Graph) -> None:
    inputs = list(graph.inputs)
    for value in graph.initializers.values():
        if _is_large(value):
            inputs.append(value)
        else:
            writer.initializer(proto, value)
    _write_region(writer, proto, graph, graph.nodes, inputs, graph.outputs)


def _is_large(value: Value) -> bool:
    """Return whether a constant becomes an input when weights are written by reference. Parsers read small ones."""
    weight = value.weight
    assert weight is not None  # what an initializer is
    return nbytes_of(weight.data_type, weight.shape) > SMALL


def region_to_bytes(
    graph: Graph,
    nodes: Sequence[Node],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    initializers: Sequence[Value],
    weights: WeightMode = "inline",
    *,
    standard: bool = False,
) -> bytes:
    """Some nodes of a graph as a serialised model of their own.

    Args:
        inputs: Values they read from outside, constants excepted.
        initializers: Constants they read, those of the graphs around included.
        weights: ``inline``, ``external`` or ``reference``: where `initializers` go.
        standard: Write nodes that carry a function as its nodes.

    Raises:
        InvalidArgument: ``external`` where a constant has no file.
        LimitError: The message would pass protobuf's 2 GiB.
    """
    proto = new_proto(graph.model)
    writer = _WeightWriter(graph.model, proto, weights, standard=standard)
    for value in initializers:
        if weights == "reference" and _is_large(value):
            inputs = [*inputs, value]
        else:
            writer.initializer(proto.graph, value)
    _write_region(writer, proto.graph, graph, nodes, inputs, outputs)
    if standard and proto.functions:
        from onnx import inliner  # few models need it

        proto = inliner.inline_local_functions(proto)
    return _serialize(proto)


def _write_region(
    writer: GraphWriter,
    proto: onnx.GraphProto,
    graph: Graph,
    nodes: Sequence[Node],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
) -> None:
    proto.name = graph.name or "graph"
    for value in inputs:
        value_info(proto.input.add(), value.name, value.type)
    writer.nodes(proto, nodes, outputs)
    writer.finish()
    for value in outputs:
        value_info(proto.output.add(), value.name, value.type)


def _serialize(proto: onnx.ModelProto) -> bytes:
    try:
        size = proto.ByteSize()
        if size <= PROTOBUF_LIMIT:
            data: bytes = proto.SerializeToString()
            return data
    except (ValueError, EncodeError) as error:
        raise _too_large(PROTOBUF_LIMIT + 1) from error
    raise _too_large(size)
