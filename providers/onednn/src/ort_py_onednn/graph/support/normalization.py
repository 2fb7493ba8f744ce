"""Softmax and normalisations."""

from __future__ import annotations

from ort_py.contracts import GraphView, NodeSpec
from ort_py_onednn.graph.support.rule import Rule, Rules, shape_of, used_outputs, value_name

__all__ = ["RULES"]


def _batch_normalization(node: NodeSpec, graph: GraphView) -> str | None:
    if node.attributes.get("training_mode", 0) or len(node.outputs) > 1:
        return "training"
    return "no channels" if len(shape_of(node, 0)) < 2 else None


def _layer_normalization(node: NodeSpec, graph: GraphView) -> str | None:
    if used_outputs(node, 1):
        return "statistics are wanted"
    if node.attributes.get("stash_type", 1) != 1:
        return "its statistics have a different type"
    rank = len(shape_of(node, 0))
    axis = node.attributes.get("axis", -1) % max(rank, 1)
    inner = shape_of(node, 0)[axis:]
    for place in (1, 2):
        if value_name(node, place) and tuple(shape_of(node, place)) != tuple(inner):
            return "its scale or bias is broadcast"
    return None


def _root_mean_square(node: NodeSpec, graph: GraphView) -> str | None:
    return None if shape_of(node, 0) else "a scalar"


def _group_normalization(node: NodeSpec, graph: GraphView) -> str | None:
    shape = shape_of(node, 0)
    if len(shape) < 3:
        return "nothing but channels"
    if node.attributes.get("stash_type", 1) != 1:
        return "its statistics have a different type"
    groups = node.attributes.get("num_groups", 1)
    if not isinstance(shape[1], int) or shape[1] % groups:
        return "its number of channels is not known"
    if node.op_type == "GroupNormalization" and any(tuple(shape_of(node, place)) != (shape[1],) for place in (1, 2)):
        return "its scale or bias is not known to have a number for each channel"  # version 18 has one for each group
    return None


_LEAST_BIAS = 1e-12
"""The cube of smaller numbers is not a normal float32 number; oneDNN computes x ** -0.75 by way of it."""


def _lrn(node: NodeSpec, graph: GraphView) -> str | None:
    if not node.attributes["size"] % 2:
        return "an even size"
    if node.attributes.get("bias", 1.0) < _LEAST_BIAS or node.attributes.get("alpha", 1e-4) < 0:
        return "what it divides by may be so small that its cube is zero"
    return None


def _softmax(node: NodeSpec, graph: GraphView) -> str | None:
    return None if shape_of(node, 0) else "a scalar"


RULES: Rules = {
    ("", "BatchNormalization"): Rule(_batch_normalization, frozenset({1, 2, 3, 4})),
    ("", "GroupNormalization"): Rule(_group_normalization),
    ("", "InstanceNormalization"): Rule(_group_normalization),
    ("", "LRN"): Rule(_lrn),
    ("", "LayerNormalization"): Rule(_layer_normalization),
    ("", "LogSoftmax"): Rule(_softmax),
    ("", "RMSNormalization"): Rule(_root_mean_square),
    ("", "Softmax"): Rule(_softmax),
}
