"""The function of a fused node: made of the nodes it replaces, and turned into nodes again.

Used by `edit`, and by `view` to show a function as a graph. Names inside are numbered from the inputs on, so that equal
computations give equal bodies, which are then one object. It does not depend on providers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ort_py.contracts.function_body import FunctionBody, NodeTemplate
from ort_py.contracts.graph_view import Array
from ort_py.dtypes import ValueType
from ort_py.errors import InvalidGraph, Location
from ort_py.graph.editing.edit_state import EditState
from ort_py.graph.ir import Node, Value
from ort_py.graph.typing.node_types import infer_node

_SMALL = 1024
"""Bytes of a constant that goes into a body: scalars, shapes, axes. A weight held there would be held twice."""


def body_of(
    removed: Sequence[Node],
    template: NodeTemplate,
    find: Callable[[str], Value | None],
    known: dict[Hashable, FunctionBody],
) -> FunctionBody:
    """The function that some nodes compute, with the interface of the node that replaces them.

    Args:
        known: Bodies made before, by content; gets the new one.

    Raises:
        InvalidGraph: The new node lacks an input that the nodes read or writes what they do not, or a nested graph is
            in them, or they were written for two opsets of one domain.
    """
    return _Capture(removed, template, find).body(known)


class _Capture:
    def __init__(self, removed: Sequence[Node], template: NodeTemplate, find: Callable[[str], Value | None]) -> None:
        self._removed = removed
        self._template = template
        self._names: dict[Value, str] = {}
        self._constants: dict[str, Any] = {}
        self._keys: list[Hashable] = []
        self._inputs: list[str] = []
        for position, name in enumerate(template.inputs):
            value = find(name) if name else None
            self._inputs.append(f"i{position}" if name else "")
            if value is not None:
                self._names.setdefault(value, f"i{position}")
        self._results = {value.name: value for node in removed for value in node.outputs if value is not None}

    def body(self, known: dict[Hashable, FunctionBody]) -> FunctionBody:
        nodes = tuple([self._node(node) for node in self._removed])
        opsets = self._opsets()
        body = FunctionBody(
            tuple(self._inputs),
            tuple([self._result(name) if name else "" for name in self._template.outputs]),
            nodes,
            self._constants,
            opsets,
        )
        key = (
            body.inputs,
            body.outputs,
            tuple([_node_key(node) for node in nodes]),
            tuple(self._keys),
            tuple(opsets.items()),
        )
        return known.setdefault(key, body)

    def _node(self, node: Node) -> NodeTemplate:
        if node.subgraphs:
            raise self._refusal(f"node '{node.name}' holds a nested graph")
        inputs = tuple(["" if value is None else self._read(value) for value in node.inputs])
        for value in node.outputs:
            if value is not None:
                self._names[value] = f"v{len(self._names)}"
        outputs = tuple(["" if value is None else self._names[value] for value in node.outputs])
        return NodeTemplate(node.op_type, inputs, outputs, dict(node.attributes), node.domain, body=node.body)

    def _read(self, value: Value) -> str:
        name = self._names.get(value)
        if name is not None:
            return name
        weight = value.weight if value.constant else None
        if weight is None:
            raise self._refusal(f"the replaced nodes read '{value.name}', but the new node does not")
        if weight.nbytes > _SMALL:
            raise self._refusal(
                f"what is replaced reads the constant '{value.name}' of {weight.nbytes:,} bytes, and the new node does "
                "not: both would be kept"
            )
        name = self._names[value] = f"c{len(self._constants)}"
        self._constants[name] = weight.array()
        self._keys.append((name, _plain_key(weight.array())))
        return name

    def _result(self, name: str) -> str:
        value = self._results.get(name)
        if value is None:
            raise self._refusal(f"none of the nodes it replaces writes its output '{name}'")
        return self._names[value]

    def _opsets(self) -> dict[str, int]:
        opsets: dict[str, int] = {}
        for node in self._removed:
            if opsets.setdefault(node.domain, node.opset_version) != node.opset_version:
                raise self._refusal(f"the nodes use two opsets of domain '{node.domain or 'ai.onnx'}'")
        return opsets

    def _refusal(self, why: str) -> InvalidGraph:
        title = f"{self._template.domain}.{self._template.op_type}" if self._template.domain else self._template.op_type
        return InvalidGraph(
            f"The nodes that {title} replaces cannot become its function.",
            where=self._removed[0].location if self._removed else Location(op_type=self._template.op_type),
            why=why,
            fix="Make the new node read and write the same values, or use `replace_nodes`.",
        )


def _node_key(node: NodeTemplate) -> Hashable:
    attributes = tuple([(name, _plain_key(value)) for name, value in sorted((node.attributes or {}).items())])
    return node.op_type, node.domain, node.inputs, node.outputs, attributes, node.body


def _plain_key(value: Any) -> Hashable:
    if isinstance(value, np.ndarray):
        content: Hashable = tuple(value.ravel().tolist()) if value.dtype.hasobject else value.tobytes()
        return str(value.dtype), value.shape, content
    if isinstance(value, tuple):
        return tuple([_plain_key(item) for item in value])
    return type(value).__name__, repr(value)


def templates_of(
    node: Node, body: FunctionBody, add_constant: Callable[[str, Array], str], free_name: Callable[[str], str]
) -> list[NodeTemplate]:
    """The nodes that stand for a fused node, in the names of the graph it is in.

    Args:
        add_constant: Adds a constant to the graph, returns its name.
    """
    names = {"": ""}
    for inner, value in zip(body.inputs, node.inputs, strict=False):
        if inner and value is not None:
            names[inner] = value.name
    results = {inner: value.name for inner, value in zip(body.outputs, node.outputs, strict=False) if value is not None}
    names.update({name: add_constant(f"{node.name}/{name}", array) for name, array in body.constants.items()})
    templates: list[NodeTemplate] = []
    for inner_node in body.nodes:
        for name in filter(None, inner_node.outputs):
            names[name] = results.get(name) or free_name(f"{node.name}/{name}")
        templates.append(
            replace(
                inner_node,
                inputs=tuple([names.get(name, "") for name in inner_node.inputs]),
                outputs=tuple([names[name] for name in inner_node.outputs]),
                name=f"{node.name}/{inner_node.op_type}",
            )
        )
    return templates


def types_of(node: Node, body: FunctionBody, state: EditState) -> list[ValueType | None]:
    """Types of a fused node's outputs, inferred through its function; None for unknown types.

    Args:
        state: Provides the operators and keeps constants.
    """
    from ort_py.graph.editing.function_views import function_graph  # only such nodes need it

    graph = function_graph(node, body, state.schemas, state.store, partial(infer_node, schemas=state.schemas))
    known = {value.name: value.type for inner in graph.nodes for value in inner.outputs if value is not None}
    return [known.get(name) for name in body.outputs]
