"""Types of all values of a graph by the rules, as ONNX's inference gives them for whole models.

That makes up a name for each size that a node leaves unknown, so that the nodes behind it see where sizes are equal. It
joins what it finds with types that are given, and looks into the branches of an If. A graph with a node that has no
rule, or that a rule leaves to ONNX, is left to it as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np

from ort_py.dtypes import TensorType, ValueType
from ort_py.graph.ir import Graph, Node, Value
from ort_py.graph.typing.contents import Contents, constant_contents
from ort_py.graph.typing.inference_guard import can_infer, is_hidden, node_fault
from ort_py.graph.typing.misread import is_misread
from ort_py.graph.typing.rules.question import Uncovered, agreed
from ort_py.graph.typing.rules.table import ruled_types
from ort_py.graph.typing.type_merge import dim_names
from ort_py.onnx_operators import find

_FIRST_IF = 11
"""Version of If from which on its results have what both branches agree about."""

_ASKED_ABOUT_BODY = frozenset({"MeanVarianceNormalization"})
"""Operators that ONNX's inference does type in whole models, through their bodies."""

_DEEPEST = 20
"""Levels of nested graphs that are looked into."""


def ruled_graph(graph: Graph, given_types: Mapping[Value, ValueType]) -> dict[Value, ValueType] | None:
    """Types of the inputs of a graph and of all values that it computes, nested graphs included.

    Args:
        graph: The main graph of a model.
        given_types: Types to start from: those of the graph's inputs, and of others that are known.

    Returns:
        The types; None where ONNX's inference has to answer.
    """
    try:
        return _Graphs(graph, given_types).run()
    except Uncovered:
        return None


class _Graphs:
    def __init__(self, graph: Graph, given_types: Mapping[Value, ValueType]) -> None:
        self._main = graph
        self._given = given_types
        self._types: dict[Value, ValueType] = {}
        self._taken = {name for kind in given_types.values() for name in dim_names(kind)}
        self._numbers = count()
        self._check_time = graph.model.budget.check_time

    def run(self) -> dict[Value, ValueType]:
        if self._main.owner is not None:
            raise Uncovered
        self._graph(self._main)
        return self._types

    def _graph(self, graph: Graph) -> None:
        for value in graph.inputs:
            known = self._given.get(value)
            if known is not None:
                self._types[value] = known
        contents = _contents_in(graph)
        for node in graph.nodes:
            self._check_time()
            for result, found in zip(node.outputs, self._types_of(node, contents), strict=True):
                if result is not None:
                    self._note(result, found)

    def _types_of(self, node: Node, contents: Contents) -> list[ValueType | None]:
        if not can_infer(node.op_type, node.domain, node.opset_version) or is_misread(node):
            if node.subgraphs or node.op_type in _ASKED_ABOUT_BODY:
                raise Uncovered
            return [None] * len(node.outputs)  # ONNX's inference is not asked either
        if node.attributes and node_fault(node):
            raise Uncovered
        if node.attributes and is_hidden(node):
            return [None] * len(node.outputs)
        if node.op_type == "If":
            return self._branches(node)
        found = ruled_types(node, self._type_of, contents, partly=True)
        if found is None:
            raise Uncovered
        return found

    def _branches(self, node: Node) -> list[ValueType | None]:
        """Join the types that both branches of an If give."""
        if len(node.path) > _DEEPEST:
            raise Uncovered
        branches = branches_of(node)
        for branch in branches:
            self._graph(branch)
        return joined_types(branches, self._types.get)

    def _type_of(self, value: Value) -> ValueType | None:
        if value.weight is None:
            return self._types.get(value)
        if value.overridable:
            raise Uncovered
        return TensorType(value.weight.data_type, value.weight.shape)

    def _note(self, value: Value, found: ValueType | None) -> None:
        """Keep a type of a node's output, joined with the one that was given."""
        given = self._given.get(value)
        if found is None:
            if given is not None:
                self._types[value] = given
            return
        if not isinstance(found, TensorType):
            raise Uncovered
        shape = found.shape
        if shape is not None and None in shape:
            shape = tuple([self._new_name() if dim is None else dim for dim in shape])
            found = TensorType(found.data_type, shape)
        if given is not None:
            found = _joined(found, given)
        self._types[value] = found

    def _new_name(self) -> str:
        return next(name for number in self._numbers if (name := f"unk__{number}") not in self._taken)


def branches_of(node: Node) -> list[Graph]:
    """The branches of an If, the one for true first.

    Raises:
        Uncovered: Nothing is known of an If of this version, or of such branches.
    """
    operator = find(node.op_type, node.domain, node.opset_version)
    if operator is None or operator.since_version < _FIRST_IF:
        raise Uncovered
    found: list[Graph] = []
    for name in ("then_branch", "else_branch"):
        branch = node.attributes.get(name)
        if not isinstance(branch, Graph) or len(branch.outputs) != len(node.outputs) or branch.inputs:
            raise Uncovered
        if any(value.graph is not branch or value.weight is not None for value in branch.outputs):
            raise Uncovered
        found.append(branch)
    return found


def joined_types(branches: Sequence[Graph], type_of: Callable[[Value], ValueType | None]) -> list[ValueType | None]:
    """Join the types that branches give to each of their results.

    Raises:
        Uncovered: The type of a result is not known, or they contradict each other.
    """
    joined: list[ValueType | None] = []
    for one, other in zip(*[branch.outputs for branch in branches], strict=True):
        types = type_of(one), type_of(other)
        if types[0] is None or types[1] is None:
            raise Uncovered
        joined.append(common_type(types[0], types[1]))
    return joined


def _contents_in(graph: Graph) -> Contents:
    """Contents of constants of one graph: ONNX's inference does not look at those of the graphs around it."""

    def contents(value: Value) -> np.ndarray[Any, Any] | None:
        return constant_contents(value) if value.graph is graph else None

    return contents


def _joined(found: TensorType, given: ValueType) -> TensorType:
    if not isinstance(given, TensorType) or found.data_type is not given.data_type:
        raise Uncovered
    if given.shape is None or found.shape is None:
        return found if given.shape is None else given
    if len(given.shape) != len(found.shape):
        raise Uncovered
    return TensorType(found.data_type, tuple([agreed(*dims) for dims in zip(given.shape, found.shape, strict=True)]))


def common_type(one: ValueType, other: ValueType) -> ValueType:
    """The type of what is one or the other.

    Raises:
        Uncovered: They are not tensors of one element type.
    """
    if not isinstance(one, TensorType) or not isinstance(other, TensorType) or one.data_type is not other.data_type:
        raise Uncovered
    if one.shape is None or other.shape is None:
        if one.shape == () or other.shape == ():
            raise Uncovered  # ONNX takes a shape that is not known for that of a scalar
        return TensorType(one.data_type)
    if len(one.shape) != len(other.shape):
        return TensorType(one.data_type)
    shape = tuple([dim if dim == same else None for dim, same in zip(one.shape, other.shape, strict=True)])
    return TensorType(one.data_type, shape)
