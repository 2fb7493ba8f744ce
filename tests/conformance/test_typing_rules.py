"""Our rules for types against ONNX's inference, on all nodes and graphs of ONNX's backend suite.

A rule may leave a node to ONNX, but must not say anything else. Each node is also asked about with other types,
contents and attributes, most of which contradict its operator.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from ort_py.dtypes import DataType, TensorType, ValueType, numpy_dtype
from ort_py.errors import OrtPyError
from ort_py.graph.checking.schema import SchemaRegistry
from ort_py.graph.checking.validate import validate
from ort_py.graph.ir import Graph, Model, Node, Value, walk
from ort_py.graph.reading.loader import load_model
from ort_py.graph.typing import inferred, shapes
from ort_py.graph.typing.contents import Contents, constant_contents
from ort_py.graph.typing.inference import run_inference
from ort_py.graph.typing.onnx_types import infer_onnx_node
from ort_py.graph.typing.rules.graphs import ruled_graph
from ort_py.graph.typing.rules.table import rule_of, ruled_types
from ort_py_kit.backend_cases import suite_cases

pytestmark = pytest.mark.slow  # two thousand models are read

_PIECES = 4
"""Parts of the suite, so that two processes share it."""

_CHANGES = 3
"""Changed nodes for each node."""

_SIZES = (0, 1, 2, 3, 5, 7, 16, "N", "M", None)


def _models(piece: int) -> list[Model]:
    found = []
    for case in suite_cases()[piece::_PIECES]:
        try:
            model = load_model(case.model)
            validate(model, SchemaRegistry())
        except OrtPyError:
            continue  # operators that a test of the suite defines
        found.append(model)
    return found


@pytest.mark.parametrize("piece", range(_PIECES))
def test_graphs_are_typed_as_onnx_types_them(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds of inference are compared, with the names that ONNX makes up for unknown sizes."""
    covered = 0

    def both(graph: Graph, given: Mapping[Value, ValueType], *, strict: bool) -> inferred.Inferred:
        nonlocal covered
        found, expected = ruled_graph(graph, given), run_inference(graph, given, strict=strict)
        if found is not None:
            covered += 1
            assert not expected.errors
            assert found == expected.types
        return expected

    monkeypatch.setattr(shapes, "infer_graph", both)
    for model in _models(piece):
        try:
            shapes.infer_types(model)
        except OrtPyError:
            continue
    assert covered > 200


@pytest.mark.parametrize("piece", range(_PIECES))
def test_rules_say_what_onnx_says_or_nothing(piece: int) -> None:
    draw = random.Random(piece)
    for model in _models(piece):
        try:
            shapes.infer_types(model)
        except OrtPyError:
            continue
        for graph in walk(model.graph):
            for node in graph.nodes:
                if rule_of(node.op_type, node.domain, node.opset_version) is not None:
                    _compare(node, draw)


def _compare(node: Node, draw: random.Random) -> None:
    types = {value: value.type for value in node.inputs if value is not None}
    attributes = node.attributes
    _expect_the_same(node, constant_contents)
    for _ in range(_CHANGES):
        for value, known in types.items():
            value.type = _other_type(known, draw)
        node.attributes = _other_attributes(attributes, draw)
        _expect_the_same(node, _other_contents(draw.randrange(1 << 16)))
    for value, known in types.items():
        value.type = known
    node.attributes = attributes


def _expect_the_same(node: Node, contents: Contents) -> None:
    found = ruled_types(node, lambda value: value.type, contents)
    if found is None:
        return
    node.graph.model.node_types.clear()
    expected = infer_onnx_node(node, contents)  # what it refuses, a rule must not type
    assert found == expected, (node.op_type, node.attributes, [value and value.type for value in node.inputs])


def _other_type(known: ValueType | None, draw: random.Random) -> ValueType | None:
    if not isinstance(known, TensorType) or known.shape is None or draw.random() < 0.4:
        return known
    if draw.random() < 0.15:
        return TensorType(known.data_type)
    sizes = [draw.choice(_SIZES) if draw.random() < 0.3 else size for size in known.shape]
    if sizes and draw.random() < 0.1:
        sizes.pop()
    elif draw.random() < 0.1:
        sizes.insert(0, draw.choice(_SIZES))
    return TensorType(known.data_type, tuple(sizes))


def _other_attributes(attributes: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    changed = dict(attributes)
    if not attributes or draw.random() < 0.5:
        return changed
    name = draw.choice(list(attributes))
    value = attributes[name]
    if isinstance(value, int) and name != "to":
        changed[name] = draw.choice([value + 1, value - 1, -value, 0, 1, 2])
    elif isinstance(value, tuple) and value and isinstance(value[0], int):
        place = draw.randrange(len(value))
        changed[name] = (*value[:place], draw.choice([value[place] + 1, value[place] - 1, 0, 2]), *value[place + 1 :])
    elif draw.random() < 0.3:
        del changed[name]
    return changed


def _other_contents(seed: int) -> Contents:
    """Contents of constants as long as their types allow, and of short lists that are none."""

    def contents(value: Value) -> np.ndarray[Any, Any] | None:
        known = value.type
        if value.weight is not None:
            same = known == TensorType(value.weight.data_type, value.weight.shape)
            return constant_contents(value) if same else None
        if not isinstance(known, TensorType) or known.data_type not in (DataType.INT64, DataType.INT32):
            return None
        shape = tuple([size for size in known.shape or (None,) if isinstance(size, int)])
        if known.shape is None or len(shape) < len(known.shape) or len(shape) > 1 or sum(shape) > 8:
            return None
        numbers = np.random.default_rng([seed, len(value.name)]).integers(-2, 5, shape)
        return np.asarray(numbers, numpy_dtype(known.data_type))

    return contents
