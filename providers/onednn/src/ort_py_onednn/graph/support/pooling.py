"""Pooling over windows and over everything, and reductions."""

from __future__ import annotations

from ort_py.contracts import GraphView, NodeSpec
from ort_py_onednn.graph.support.rule import Rule, Rules, only_moved, shape_of, used_outputs

__all__ = ["RULES"]


_LEAST_CHANNELS = 4
"""Pictures of one channel in a batch from which on they are pooled as channels of one picture."""


def _pool(node: NodeSpec, graph: GraphView) -> str | None:
    shape = shape_of(node, 0)
    rank = len(shape) - 2
    if not 1 <= rank <= 3:
        return f"it is pooling over {rank} dimensions; 1 to 3 are supported"
    if used_outputs(node, 1):
        return "the indices of the maxima are an output"
    if shape[1] == 1 and not (isinstance(shape[0], int) and shape[0] >= _LEAST_CHANNELS):
        return "it has one channel: oneDNN has fast code for several only"
    attributes = node.attributes
    if any(dilation != 1 for dilation in attributes.get("dilations") or ()):
        return "its windows are dilated, for which oneDNN has only reference code"
    if attributes.get("storage_order", 0):
        return "column-major storage order"
    if attributes.get("ceil_mode", 0) and attributes.get("count_include_pad", 0):
        return "its averages count the padding, and ceil_mode is set"
    pads = attributes.get("pads") or ()
    kernel = attributes["kernel_shape"]
    if any(width >= kernel[place % rank] for place, width in enumerate(pads)):
        return "its padding is as wide as the window"
    return None


def _global_pool(node: NodeSpec, graph: GraphView) -> str | None:
    rank = len(shape_of(node, 0)) - 2
    return None if 1 <= rank <= 3 else f"it is pooling over {rank} dimensions; 1 to 3 are supported"


def _reduction(node: NodeSpec, graph: GraphView) -> str | None:
    return "a scalar" if not shape_of(node, 0) else None


_AXES = frozenset({1})

RULES: Rules = {
    ("", "AveragePool"): Rule(_pool),
    ("", "GlobalAveragePool"): Rule(_global_pool),
    ("", "GlobalMaxPool"): Rule(_global_pool),
    ("", "MaxPool"): Rule(_pool, types=only_moved),
    ("", "ReduceMax"): Rule(_reduction, _AXES),
    ("", "ReduceMean"): Rule(_reduction, _AXES),
    ("", "ReduceMin"): Rule(_reduction, _AXES),
    ("", "ReduceSum"): Rule(_reduction, _AXES),
}
