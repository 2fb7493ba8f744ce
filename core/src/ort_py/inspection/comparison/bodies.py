"""Comparison of the bodies of If and Loop, as separate models.

A body becomes a model whose inputs are the values it captures; they are computed by running the model up to the node
with the providers of `a`, and no optimisation. Of a loop, each iteration is compared until one differs. It is
independent of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ort_py.enums import GraphOptimizationLevel
from ort_py.graph.ir import Graph, Model, Node, Value
from ort_py.graph.view import SubsetView
from ort_py.graph.writing.protos import value_info
from ort_py.graph.writing.serialize import model_to_proto
from ort_py.inspection.comparison.configuration import SessionConfiguration
from ort_py.inspection.comparison.report import ComparisonReport

Compare: TypeAlias = Callable[[bytes, Sequence[Mapping[str, Any]]], ComparisonReport]

_ITERATIONS = 64
"""Iterations of a loop, at most, that are compared."""


def compare_bodies(
    model: Model, value: str, feed: Mapping[str, Any], a: SessionConfiguration, compare: Compare
) -> Iterator[ComparisonReport]:
    """Compare the bodies that a node ran, where it is an If or a Loop; nothing for other nodes."""
    node = next((node for node in model.graph.nodes if any(out and out.name == value for out in node.outputs)), None)
    if node is None or node.domain or node.op_type not in ("If", "Loop"):
        return
    plain = a.at(GraphOptimizationLevel.ORT_DISABLE_ALL)
    captured = [one for body in node.subgraphs for one in body.captures()]
    known = _values_before(model, [*node.inputs, *captured], feed, plain)
    if node.op_type == "If":
        branch = node.attributes["then_branch" if bool(np.asarray(_read(node, 0, known)).all()) else "else_branch"]
        if branch.nodes:
            yield compare(_model_of(branch), [_feed_of(branch, known)])
        return
    yield from _iterations(node, known, plain, compare)


def _iterations(
    node: Node, known: dict[str, Any], plain: SessionConfiguration, compare: Compare
) -> Iterator[ComparisonReport]:
    body: Graph = node.attributes["body"]
    if not body.nodes:
        return
    trips, condition = _read(node, 0, known), _read(node, 1, known)
    carried = [_read(node, position, known) for position in range(2, len(node.inputs))]
    source = _model_of(body)
    limit = _ITERATIONS if trips is None else min(_ITERATIONS, int(np.asarray(trips).item()))
    with plain.open(source) as session:
        outputs = [output.name for output in session.get_outputs()]
        for number in range(limit):
            if condition is not None and not bool(np.asarray(condition).all()):
                return
            state = [np.asarray(number, np.int64), np.asarray(True), *carried]
            values = known | {value.name: one for value, one in zip(body.inputs, state, strict=True)}
            feed = _feed_of(body, values)
            report = compare(source, [feed])
            if not report.equal:
                report.title = f"iteration {number} of {node.op_type} '{node.name}'"
                yield report
                return
            values |= zip(outputs, session.run(None, feed), strict=True)
            condition, *results = [_constant_or(values, value) for value in body.outputs]
            carried = results[: len(carried)]


def _values_before(
    model: Model, wanted: Iterable[Value | None], feed: Mapping[str, Any], plain: SessionConfiguration
) -> dict[str, Any]:
    """Values of the main graph, computed by running only the nodes needed for them."""
    values = {value.name: value for value in wanted if value is not None and value.graph is model.graph}
    known = {name: feed[name] for name in values if name in feed}
    known |= {name: one.weight.array() for name, one in values.items() if name not in known and one.weight is not None}
    missing = [one for name, one in values.items() if name not in known]
    if missing:
        proto = model_to_proto(model)
        del proto.graph.output[:]
        for one in missing:
            value_info(proto.graph.output.add(), one.name, one.type)
        with plain.open(proto) as session:
            known |= zip((one.name for one in missing), session.run(None, feed), strict=True)
    return known


def _model_of(body: Graph) -> bytes:
    return SubsetView(body, body.nodes).to_model()


def _feed_of(body: Graph, known: Mapping[str, Any]) -> dict[str, Any]:
    return {one.name: known[one.name] for one in SubsetView(body, body.nodes).border[0]}


def _read(node: Node, position: int, known: Mapping[str, Any]) -> Any:
    value = node.inputs[position] if position < len(node.inputs) else None
    return None if value is None else known[value.name]


def _constant_or(values: Mapping[str, Any], value: Value) -> Any:
    return values[value.name] if value.name in values or value.weight is None else value.weight.array()
