"""The model as it runs, where each node carries its provider and the reason in its ``metadata_props``.

Comes after `islands`, works on the written model: the writer knows nothing of providers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import onnx
from google.protobuf.message import EncodeError

from ort_py.errors import LimitError
from ort_py.graph.ir import Graph, Model
from ort_py.graph.writing.serialize import PROTOBUF_LIMIT, model_to_proto
from ort_py.inspection.placement.islands import Island
from ort_py.partition.assignment import Assignment

if TYPE_CHECKING:
    from ort_py.inspection.placement.facts import NodePlacement

PREFIX = "ort_py."
"""Begins every key."""


def annotated_model(
    model: Model, assignment: Assignment, nodes: Sequence[NodePlacement], islands: Iterable[Island]
) -> bytes:
    """The model as bytes of an ONNX file.

    Keys of each node: ``ort_py.provider``, ``ort_py.runner``, ``ort_py.reason``, ``ort_py.island``, and where there is
    something to say ``ort_py.region`` and ``ort_py.refusals`` (JSON: provider and reason). The model has the number of
    nodes of each provider under ``ort_py.placement`` (JSON).

    Args:
        nodes: The records of the nodes, in the order of the assignment.

    Raises:
        LimitError: The model passes protobuf's 2 GiB.
    """
    proto = model_to_proto(model)
    island_of = {number: island.number for island in islands for number in island.nodes}
    numbers = {node: number for number, node in enumerate(assignment.nodes)}
    pending: list[tuple[Graph, onnx.GraphProto]] = [(model.graph, proto.graph)]
    while pending:
        graph, written = pending.pop()
        # Nodes are written in order; what the writer adds of its own comes after them.
        for node, message in zip(graph.nodes, written.node, strict=False):
            number = numbers.get(node)
            if number is not None:
                _annotate(message, nodes[number], island_of.get(number))
            nested = [one for attribute in message.attribute for one in _graphs(attribute)]
            pending.extend(zip(node.subgraphs, nested, strict=False))
    proto.metadata_props.add(key=f"{PREFIX}placement", value=json.dumps(dict(assignment.counts().most_common())))
    try:
        data: bytes = proto.SerializeToString()
    except (ValueError, EncodeError) as error:
        raise LimitError(
            f"The annotated model exceeds the {PROTOBUF_LIMIT:,} bytes that protobuf can hold.",
            why=str(error),
            fix="Write the placement as a page or as JSON instead.",
        ) from error
    return data


def _annotate(message: onnx.NodeProto, node: NodePlacement, island: int | None) -> None:
    said = {"provider": node.provider, "runner": node.runner, "reason": node.reason, "region": node.region}
    if island is not None:
        said["island"] = str(island)
    if node.refusals:
        said["refusals"] = json.dumps([{"provider": name, "reason": reason} for name, reason in node.refusals])
    for key, text in said.items():
        if text:
            message.metadata_props.add(key=PREFIX + key, value=text)


def _graphs(attribute: onnx.AttributeProto) -> list[onnx.GraphProto]:
    return [attribute.g] if attribute.HasField("g") else list(attribute.graphs)
