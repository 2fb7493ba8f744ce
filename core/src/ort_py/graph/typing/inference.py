"""ONNX's own shape inference, run on a stand-in for the model that holds no large constant.

`shapes` decides what to tell it and what to believe. Constants become declared values, except for small numbers,
which shapes depend on (a Reshape's target, a Slice's ends). Inference itself recurses over nested graphs; what
is nested too deep for it is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from ort_py.dtypes import TensorType, ValueType, data_type_of
from ort_py.errors import OrtPyError
from ort_py.graph.ir import Graph, Model, Node, Value, walk
from ort_py.graph.typing.contents import SMALL, follows_data
from ort_py.graph.typing.inference_guard import (
    BOUNDED_EXPAND,
    MOST_AXES,
    UNSAFE,
    is_hidden,
    may_be_negative,
    node_fault,
)
from ort_py.graph.typing.inferred import Inferred
from ort_py.graph.typing.misread import is_misread, is_mistaken, keeps_cut_names
from ort_py.graph.typing.native_inference import InferenceError, infer_shapes
from ort_py.graph.writing.protos import fill_tensor, type_from_proto, value_info
from ort_py.graph.writing.serialize import GraphWriter, new_proto
from ort_py.logs import lazy_logger
from ort_py.onnx_parts import onnx

_LOG = lazy_logger(__name__)

_DEEPEST = 28
"""Levels of nested graphs: protobuf reads messages nested up to 100 deep, and each level takes three."""

_FIRST_SLICE_WITH_INPUTS = 10


def _is_computed(node: Node) -> bool:
    """Return whether the second input of a node is present and not a small constant, so that it may have any length."""
    value = node.inputs[1] if len(node.inputs) > 1 else None
    return value is not None and not (value.constant and value.weight is not None and follows_data(value.weight))


class _StandInWriter(GraphWriter):
    """Writes the model with given types only."""

    def __init__(self, model: Model, proto: onnx.ModelProto, given_types: Mapping[Value, ValueType]) -> None:
        super().__init__(model, proto, strict=False)
        self._given_types = given_types
        self.nested: dict[Graph, list[tuple[int, Node]]] = {}
        self.faults: list[str] = []
        self._cut: dict[Node, str] = {}
        self.messages: dict[Node, onnx.NodeProto] = {}
        self._bounds: tuple[str, str] | None = None
        self._opset = model.opset_imports.get("", 0)

    def nodes(
        self, proto: onnx.GraphProto, nodes: Iterable[Node], outputs: Iterable[Value], *, wrap: bool = True
    ) -> None:
        outputs = tuple(outputs)
        self._bounds = None
        kept: list[Node] = []
        nested: list[tuple[int, Node]] = []
        for node in nodes:
            if (node.op_type in UNSAFE or is_misread(node) or keeps_cut_names(node)) and not node.domain:
                self._declare_outputs(proto, node)
                continue
            if node.attributes:
                fault = node_fault(node)
                if fault:
                    self.faults.append(f"{node.location}: {fault}")
                if fault or self._left_out(proto, node):
                    continue
                if node.subgraphs:
                    nested.append((len(proto.node) + len(kept), node))
            elif node.op_type == "Expand" and node.opset_version < BOUNDED_EXPAND and _is_computed(node):
                super().nodes(proto, kept, outputs, wrap=wrap)
                kept = []
                self._cut_target(proto, node)
            kept.append(node)
        if nested:
            self.nested[nested[0][1].graph] = nested
        super().nodes(proto, kept, outputs, wrap=wrap)

    def annotate(self, message: onnx.NodeProto, node: Node) -> None:
        self.messages[node] = message
        if node in self._cut:
            message.input[1] = self._cut[node]

    def _cut_target(self, proto: onnx.GraphProto, node: Node) -> None:
        """Put a Slice in front of an Expand: whatever the length of its target, no result has more than `MOST_AXES`."""
        target = node.inputs[1]
        assert target is not None  # `_is_computed` said so
        name = f"{target.name}/cut for {node.outputs[0].name if node.outputs and node.outputs[0] else node.name}"
        message = proto.node.add(op_type="Slice", input=[target.name], output=[name])
        if self._opset >= _FIRST_SLICE_WITH_INPUTS:
            message.input.extend(self._bounds_in(proto))
        else:
            message.attribute.add(name="starts", type=onnx.AttributeProto.INTS, ints=[0])
            message.attribute.add(name="ends", type=onnx.AttributeProto.INTS, ints=[MOST_AXES])
        self._cut[node] = name

    def _bounds_in(self, proto: onnx.GraphProto) -> tuple[str, str]:
        """Names of the constants 0 and `MOST_AXES` of a graph; inference sees no content of those further out."""
        if self._bounds is None:
            number = len(self._cut)
            self._bounds = (f"ort_py/zero {number}", f"ort_py/most axes {number}")
            for name, content in zip(self._bounds, (0, MOST_AXES), strict=True):
                fill_tensor(proto.initializer.add(), np.array([content], np.int64), name)
        return self._bounds

    def _left_out(self, proto: onnx.GraphProto, node: Node) -> bool:
        if is_hidden(node):
            self._declare_outputs(proto, node)
            return True
        if node.op_type == "Constant" and not node.domain:
            tensor = node.attributes.get("value")
            if tensor is None or tensor.nbytes <= SMALL or not node.outputs or node.outputs[0] is None:
                return False
            known = TensorType(data_type_of(tensor.dtype), tuple(tensor.shape))
            value_info(proto.value_info.add(), node.outputs[0].name, known)
            return True
        if not node.subgraphs or len(node.path) < _DEEPEST:
            return False
        self._declare_outputs(proto, node)
        return True

    def _declare_outputs(self, proto: onnx.GraphProto, node: Node) -> None:
        for value in node.outputs:
            if value is not None:
                self.declare(proto, value)

    def declare(self, proto: onnx.GraphProto, value: Value) -> None:
        known = self._given_types.get(value)
        if known is not None:
            value_info(proto.value_info.add(), value.name, known)

    def type_of_input(self, value: Value) -> ValueType | None:
        return self._given_types.get(value)

    def type_of_output(self, value: Value) -> ValueType | None:
        return self._given_types.get(value)

    def initializer(self, proto: onnx.GraphProto, value: Value) -> None:
        if value.weight is None:
            return
        if value.constant and follows_data(value.weight):
            super().initializer(proto, value)
        elif not value.overridable or value.graph.owner is not None:
            # Overridable ones of the main graph are declared as inputs already.
            value_info(proto.value_info.add(), value.name, TensorType(value.weight.data_type, value.weight.shape))


def run_inference(graph: Graph, given_types: Mapping[Value, ValueType], *, strict: bool) -> Inferred:
    """Infer the types of all values of a graph by ONNX; see `inferred.infer_graph`."""
    model = graph.model
    proto = new_proto(model)
    writer = _StandInWriter(model, proto, given_types)
    writer.graph(proto.graph, graph)
    for value in graph.captures() if graph.owner is not None else ():
        if value.constant:
            writer.initializer(proto.graph, value)
        else:
            value_info(proto.graph.input.add(), value.name, given_types.get(value))
    nodes = [node for one in walk(graph) for node in one.nodes]
    cut = any(node.op_type == "Slice" for node in nodes) and not model.budget.limits.isolated_inference
    risky = [node for node in nodes if cut and may_be_negative(node)]
    data = proto.SerializeToString()
    isolated = bool(risky) and _stays_negative(risky, proto, graph, writer)
    errors: tuple[str, ...] = ()
    # Strict inference says what is wrong but gives no result then.
    for stricter in (True, False) if strict else (False,):
        try:
            found = infer_shapes(data, strict=stricter, budget=model.budget, isolated=isolated)
        except OrtPyError:
            raise  # its time is over, or it ended the process that it ran in
        except InferenceError as error:
            if stricter:
                errors = _contradictions(str(error))
            else:
                _LOG.warning("Shape inference of ONNX failed: %s", error)
        except Exception as error:  # it raises many types, and no shape is better than no model
            _LOG.warning("Shape inference of ONNX failed: %s", error)
        else:
            types = _read(found.graph, graph, writer)
            return Inferred(types, (*writer.faults, *errors))
    return Inferred(dict(given_types), (*writer.faults, *errors))


def _stays_negative(risky: Iterable[Node], proto: onnx.ModelProto, graph: Graph, writer: _StandInWriter) -> bool:
    """Return whether nodes may make a negative size, judged by what is inferred in front of them. Changes the proto."""
    for node in risky:
        if node in writer.messages:
            writer.messages[node].op_type += " that is left out"  # onnx passes over operators that it does not know
    try:
        found = infer_shapes(proto.SerializeToString(), strict=False, budget=graph.model.budget)
    except OrtPyError:
        raise
    except Exception:  # it raises many types
        return True
    types = _read(found.graph, graph, writer)
    return any(may_be_negative(node, *[types.get(value) for value in node.inputs[:1] if value]) for node in risky)


def _contradictions(text: str) -> tuple[str, ...]:
    """Select those complaints of inference that hold for all inputs.

    A `TypeInferenceError` may only say that the type of an input is unknown; types are checked by `schema`.
    """
    lines = text.removeprefix("[ShapeInferenceError] Inference error(s): ").splitlines()
    # Errors inside a nested graph are wrapped in one of the node that holds it: the innermost, the last, counts.
    return tuple(
        line
        for line in lines
        if line.rfind("[ShapeInferenceError]") > line.rfind("[TypeInferenceError]")
        and "MeanVarianceNormalization" not in line
        and not is_mistaken(line)
    )


def _read(proto: onnx.GraphProto, main: Graph, writer: _StandInWriter) -> dict[Value, ValueType]:
    types: dict[Value, ValueType] = {}
    seen: dict[bytes, ValueType | None] = {}
    pending = [(proto, main)]
    while pending:
        message, graph = pending.pop()
        infos = {info.name: info for info in message.value_info}
        _read_values(infos, graph, types, seen)
        for info, value in zip(message.input, graph.inputs, strict=False):
            _note(types, value, type_from_proto(info.type))
        for info, value in zip(message.output, graph.outputs, strict=False):
            if value.graph is graph and value.weight is None:
                _note(types, value, type_from_proto(info.type))
        for index, node in writer.nested.get(graph, ()):
            by_name = {attribute.name: attribute for attribute in message.node[index].attribute}
            for name, held in node.attributes.items():
                if isinstance(held, Graph):
                    pending.append((by_name[name].g, held))
                elif isinstance(held, tuple) and held and isinstance(held[0], Graph):
                    pending.extend(zip(by_name[name].graphs, held, strict=True))
    return types


def _read_values(
    infos: Mapping[str, onnx.ValueInfoProto],
    graph: Graph,
    types: dict[Value, ValueType],
    seen: dict[bytes, ValueType | None],
) -> None:
    for node in graph.nodes:
        for value in node.outputs:
            if value is None:
                continue
            info = infos.get(value.name)
            if info is None:
                continue
            # Most values of a graph share a few types: reading each once saves half of the time.
            data = info.type.SerializeToString()
            if data not in seen:
                seen[data] = type_from_proto(info.type)
            _note(types, value, seen[data])


def _note(types: dict[Value, ValueType], value: Value, found: ValueType | None) -> None:
    if found is not None:
        types[value] = found
