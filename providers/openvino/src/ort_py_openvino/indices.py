"""Operators with indices as inputs: OpenVINO does not check indices, so a node is refused if its indices cannot be
checked before the run.

An index that the specification forbids gives zeros in OpenVINO, and is an error everywhere else. The core checks
indices that reach a region from outside. Indices that are computed inside a region are not visible: a node is taken
where its indices are constants within range, inputs of the graph, or moved from a constant.
"""

from __future__ import annotations

import numpy as np

from ort_py.contracts import GraphView, NodeSpec, ValueSpec
from ort_py_openvino.graph_walk import MOVES, moved_from

__all__ = ["refusal_of_indices"]

_ALONG_AXIS = frozenset({"Gather", "GatherElements", "ScatterElements"})
_LEADING = frozenset({"GatherND", "ScatterND"})


def refusal_of_indices(node: NodeSpec, graph: GraphView) -> str | None:
    """Explain why a node may be given an index out of range without a check, or return None if that is impossible."""
    if node.domain or node.op_type not in _ALONG_AXIS | _LEADING:
        return None
    data, indices = node.inputs[0], node.inputs[1]
    if data is None or indices is None or data.shape is None:
        return None
    source = _source(indices.name, graph)
    constant = graph.constant(source)
    if constant is None:
        if source in {value.name for value in graph.inputs} and source == indices.name:
            return None
        return "its indices are computed, and OpenVINO gives zeros where one is out of range"
    limits = _limits(node, data, indices)
    array = np.asarray(constant)
    if not array.size:
        return None
    if source != indices.name or node.op_type in _ALONG_AXIS:
        least = min(limits) if limits else 1
        return _out_of_range(int(array.min()), int(array.max()), least)
    columns = array.reshape(-1, array.shape[-1])
    for column, limit in zip(columns.T, limits, strict=False):
        reason = _out_of_range(int(column.min()), int(column.max()), limit)
        if reason is not None:
            return reason
    return None


def _source(name: str, graph: GraphView) -> str:
    """The value that a value's elements were moved from."""
    for node in moved_from(name, graph):
        if node.domain or node.op_type not in MOVES or node.inputs[0] is None:
            break
        name = node.inputs[0].name
    return name


def _limits(node: NodeSpec, data: ValueSpec, indices: ValueSpec) -> list[int]:
    """Sizes of the axes that the indices refer to. An unknown size counts as 1, the smallest possible size."""
    assert data.shape is not None  # the caller has looked
    if node.op_type in _ALONG_AXIS:
        sizes = [data.shape[int(node.attributes.get("axis", 0))]] if data.shape else []
    else:
        depth = indices.shape[-1] if indices.shape else None
        batch = int(node.attributes.get("batch_dims", 0))
        sizes = list(data.shape[batch : batch + depth] if isinstance(depth, int) else data.shape[batch:])
    return [size if isinstance(size, int) else 1 for size in sizes]


def _out_of_range(least: int, largest: int, size: int) -> str | None:
    if -size <= least and largest < size:
        return None
    return f"its indices reach from {least} to {largest}, which may be out of range, and OpenVINO gives zeros there"
