"""The nodes that can run, decided by their types, known defects of OpenVINO, and then the answer of its reader."""

from __future__ import annotations

from ort_py.contracts import FunctionBody, GraphView, NodeSpec, ValueSpec
from ort_py.dtypes import DataType, TensorType
from ort_py_openvino.defects import defect, defect_of_body
from ort_py_openvino.elements import COMPUTED
from ort_py_openvino.indices import refusal_of_indices
from ort_py_openvino.integers import refusal_of_integers
from ort_py_openvino.not_finite import has, refusal_of_not_finite
from ort_py_openvino.properties import Target
from ort_py_openvino.question import refusal_of_reader
from ort_py_openvino.sizes import refusal_of_sizes

__all__ = ["refusal"]

_MICROSOFT = frozenset({"BiasGelu", "FastGelu", "FusedConv", "FusedMatMul", "Gelu", "QuickGelu"})
"""Operators of com.microsoft whose results were compared; of others a converter's existence says little."""


def refusal(node: NodeSpec, graph: GraphView, target: Target) -> str | None:
    """Explain why OpenVINO cannot run a node, or return None.

    Args:
        node: A node.
        graph: Its graph.
        target: Where the region would run.
    """
    if node.body is not None:
        reason = defect_of_body(node.body, _computed(node))
        if reason is not None:
            return reason
        if _has_nan(node, node.body, graph):
            return "OpenVINO's result would be different: one of its numbers is not-a-number"
    elif node.domain and (node.domain != "com.microsoft" or node.op_type not in _MICROSOFT):
        return f"an operator of {node.domain} that was not compared with OpenVINO's"
    if any(isinstance(value, GraphView) for value in node.attributes.values()):
        return "nested graphs are run by the core, step by step"
    for value in (*node.inputs, *node.outputs):
        if value is None:
            continue
        # Empty constants mean "none": a Resize has them where it has no scales, and integers may be axes or a shape.
        none = node.op_type == "Resize" or value.data_type is DataType.INT64
        reason = _value(value, target, none=none and graph.constant(value.name) is not None)
        if reason is not None:
            return reason
    return (
        refusal_of_sizes(node, graph)
        or (defect(node, graph) if node.body is None or node.op_type == "FusedConv" else None)
        or refusal_of_integers(node, graph)
        or refusal_of_indices(node, graph)
        or (refusal_of_not_finite(node, graph) if node.body is None else None)
        or refusal_of_reader(node, graph)
    )


def _has_nan(node: NodeSpec, body: FunctionBody, graph: GraphView) -> bool:
    """Return whether a single number that a fused node reads, such as a bound of Clip, is not-a-number."""
    given = [graph.constant(value.name) for value in node.inputs if value is not None]
    return any(
        one is not None and one.size == 1 and has(one, infinities=False) for one in (*given, *body.constants.values())
    )


def _computed(node: NodeSpec) -> DataType | None:
    return node.inputs[0].data_type if node.inputs and node.inputs[0] is not None else None


def _value(value: ValueSpec, target: Target, *, none: bool) -> str | None:
    if not isinstance(value.type, TensorType):
        return f"'{value.name}' is not a tensor of a known type"
    if value.data_type not in COMPUTED:
        kind = "unknown" if value.data_type is None else value.data_type.onnx_name
        return f"'{value.name}' is {kind}, which OpenVINO does not compute in its own precision"
    if value.shape is None:
        return f"the rank of '{value.name}' is unknown"
    if 0 in value.shape and not none:
        return f"'{value.name}' is empty"
    if target.static_only and not all(isinstance(dim, int) for dim in value.shape):
        return f"'{value.name}' has sizes that are not known, and disable_dynamic_shapes is set"
    return None
