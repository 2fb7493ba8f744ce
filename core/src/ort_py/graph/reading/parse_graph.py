"""Conversion of protobuf graphs and functions to `written` records. The protobuf is not needed afterwards.

Tensors go to the weight store while they are met; what is wrong with one is collected as a problem, so that the
reader of the message sees all of them. Graphs wait in a list, so a deeply nested one costs no stack.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ort_py.dtypes import ValueType
from ort_py.errors import InconsistentGraph, InvalidGraph
from ort_py.graph.checking.domains import normalised
from ort_py.graph.checking.problems import EXPORT_AGAIN, INVALID, Problem, raise_problems
from ort_py.graph.ir import Weight
from ort_py.graph.reading.attributes import (
    CONSTANT_ATTRIBUTES,
    GRAPH,
    GRAPHS,
    attribute_kind,
    constant_weight,
    read_attribute,
)
from ort_py.graph.reading.tensors import TensorReader
from ort_py.graph.reading.text import read_opsets, read_type, text, texts, undefined_element
from ort_py.graph.reading.written import WrittenFunction, WrittenGraph, WrittenNode
from ort_py.limits import Budget

_MOST_PROBLEMS = 1000


def as_problem(error: InvalidGraph) -> str:
    return f"{error.what} ({'; '.join(error.why)})" if error.why else error.what


class GraphReader:
    """Reads the graphs of one model.

    Args:
        tensors: Reads its tensors.
        budget: Limits of the load.
        typed: Whether attributes must say their types; IR version 1 wrote none.
        source: Path of the model's file, for errors.

    Attributes:
        problems: Faults, in the order they were found in.
    """

    def __init__(self, tensors: TensorReader, budget: Budget, *, typed: bool = False, source: str = "") -> None:
        self.problems: list[str] = []
        self._source = source
        self._typed = typed
        self._tensors = tensors
        self._budget = budget
        self._pending: list[tuple[Any, WrittenGraph]] = []

    def graph(self, proto: Any) -> WrittenGraph:
        """Read a ``GraphProto`` with all graphs nested in it.

        Raises:
            InvalidProtobuf: A name is not text.
            Fail: External data cannot be used.
            LimitError: Sizes or time exceed the limits.
        """
        written = WrittenGraph()
        self._pending.append((proto, written))
        self._drain()
        self._expect_types(proto, written)
        return written

    def _expect_types(self, proto: Any, written: WrittenGraph) -> None:
        """Note inputs of the model whose type is left open; an initializer of the name tells it as well."""
        open_ones = [info for info, (_, known) in zip(proto.input, written.inputs, strict=True) if known is None]
        if not open_ones:
            return
        weights = {name for name, _ in written.weights}
        for info in open_ones:
            kind = info.type.WhichOneof("value")
            if kind in ("tensor_type", "sparse_tensor_type"):
                known = getattr(info.type, kind).elem_type  # what ONNX does not define is noted elsewhere
            else:
                known = kind is not None
            if not known and info.name not in weights:
                lacks = "element type" if kind else "type"
                self._note(Problem(f"Input '{info.name}' of the model has no {lacks}.", InconsistentGraph))

    def function(self, proto: Any) -> WrittenFunction:
        """Read a ``FunctionProto``. Raises as `graph`."""
        domain, name, overload = texts((proto.domain, proto.name, proto.overload))
        written = WrittenFunction((normalised(domain), name, overload), texts(proto.input), texts(proto.output))
        written.opset_imports = read_opsets(proto.opset_import)
        for side, names in (("input", written.inputs), ("output", written.outputs)):
            if len(set(names)) < len(names):
                self._note(f"Function '{written.title}' has an {side} twice.")
        written.types = dict(self._declared(proto.value_info))
        for attribute in proto.attribute_proto:
            kind = attribute_kind(attribute)
            if kind in (GRAPH, GRAPHS):
                self._note(
                    f"Function '{written.title}' has a graph as the default of its attribute '{attribute.name}', "
                    "which ONNX does not allow."
                )
            else:
                self._read_into(written.defaults, attribute, kind, f"function '{written.title}'")
        written.nodes = self._nodes(proto.node)
        self._drain()
        return written

    def _declared(self, infos: Any) -> list[tuple[str, ValueType | None]]:
        declared = []
        for info in infos:
            self._budget.tick()
            name, known = text(info.name), read_type(info.type) if info.HasField("type") else None
            if known is None and (number := undefined_element(info.type)):
                problem = f"'{name}' is declared with the element type {number}, which ONNX does not define."
                self._note(Problem(problem, InconsistentGraph))
            declared.append((name, known))
        return declared

    def _drain(self) -> None:
        while self._pending:
            proto, written = self._pending.pop()
            written.name = text(proto.name)
            written.inputs = self._declared(proto.input)
            written.outputs = self._declared(proto.output)
            written.types = dict(self._declared(proto.value_info))
            for tensor in proto.initializer:
                self._weight(written, text(tensor.name), partial(self._tensors.weight, tensor))
            for tensor in proto.sparse_initializer:
                self._weight(written, text(tensor.values.name), partial(self._tensors.sparse, tensor))
            written.nodes = self._nodes(proto.node)

    def _weight(self, written: WrittenGraph, name: str, read: Callable[[], Weight]) -> None:
        try:
            weight = read()
        except InvalidGraph as error:
            # onnxruntime looks at initializers when it copies them, and then tells of a general failure.
            self._note(Problem(as_problem(error), InconsistentGraph))
            weight = self._stand_in()
        written.weights.append((name, weight))

    def _note(self, problem: str) -> None:
        """Remember a problem. Where there are more than anybody reads, all of them are raised at once: a small file may
        have millions of malformed parts.
        """
        self.problems.append(problem)
        if len(self.problems) > _MOST_PROBLEMS:
            raise_problems(self.problems, INVALID, self._source, EXPORT_AGAIN)

    def _stand_in(self) -> Weight:
        """Make a placeholder for a malformed tensor, so that its readers are not reported as reading an unknown
        name.
        """
        return self._tensors.store.add(np.zeros(0, np.float32))

    def _nodes(self, protos: Any) -> list[WrittenNode]:
        self._budget.write_nodes(len(protos))
        nodes = []
        for count, proto in enumerate(protos):
            if not count & 1023:
                self._budget.check_time()
            op_type, domain, overload, name = texts((proto.op_type, proto.domain, proto.overload, proto.name))
            node = WrittenNode(op_type, normalised(domain), overload, name, texts(proto.input), texts(proto.output))
            if proto.attribute:
                self._attributes(proto.attribute, node)
            nodes.append(node)
        return nodes

    def _attributes(self, protos: Any, node: WrittenNode) -> None:
        constant = node.op_type == "Constant" and not node.domain
        for proto in protos:
            self._budget.tick()
            name = text(proto.name)
            if self._typed and not proto.type and not proto.ref_attr_name:
                self._note(f"{_title(node)}: attribute '{name}' has no type.")
            if name in node.attributes:
                self._note(f"{_title(node)} has the attribute '{name}' twice.")
            elif proto.ref_attr_name:
                node.references += ((name, text(proto.ref_attr_name)),)
            elif constant and len(protos) == 1:
                self._constant(proto, node)
            else:
                kind = attribute_kind(proto)
                if kind == GRAPH:
                    node.attributes[name] = self._later(proto.g)
                    node.nested = True
                elif kind == GRAPHS:
                    node.attributes[name] = tuple([self._later(graph) for graph in proto.graphs])
                    node.nested = True
                else:
                    self._read_into(node.attributes, proto, kind, _title(node))

    def _later(self, proto: Any) -> WrittenGraph:
        written = WrittenGraph()
        self._pending.append((proto, written))
        return written

    def _read_into(self, attributes: dict[str, Any], proto: Any, kind: int, title: str) -> None:
        try:
            attributes[proto.name] = read_attribute(proto, kind, self._tensors)
        except InvalidGraph as error:
            self._note(f"{title}: {as_problem(error)}")

    def _constant(self, proto: Any, node: WrittenNode) -> None:
        """The tensor goes straight to the store; as an attribute value it would be hashed again for each reader."""
        fallback = node.outputs[0] if node.outputs else ""
        try:
            if proto.name == "value" and proto.HasField("t"):
                node.weight = self._tensors.weight(proto.t, fallback)
            elif proto.name == "sparse_value" and proto.HasField("sparse_tensor"):
                node.weight = self._tensors.sparse(proto.sparse_tensor, fallback)
            else:
                node.attributes[proto.name] = read_attribute(proto, attribute_kind(proto), self._tensors)
                if proto.name in CONSTANT_ATTRIBUTES:
                    node.weight = constant_weight(node.attributes, self._tensors.store)
        except InvalidGraph as error:
            self._note(f"{_title(node)}: {as_problem(error)}")
            node.weight = self._stand_in()


def _title(node: WrittenNode) -> str:
    name = node.name or next(filter(None, node.outputs), "")
    return f"node '{name}' ({node.op_type})"
