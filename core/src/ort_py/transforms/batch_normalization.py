"""BatchNormalization after a Conv, both with constant weights: one Conv with other weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from ort_py.contracts import GraphEditor, NodeSpec, NodeTemplate, RewriteRule, TransformContext
from ort_py.transforms.bypass import is_output

__all__ = ["FoldBatchNormalization"]

_EPSILON = float(np.float32(1e-5))


class FoldBatchNormalization(RewriteRule):
    """Scales the filters and moves the bias: ``scale * (conv(x) - mean) / sqrt(var + epsilon) + bias``.

    The arithmetic is done in float64, so that the new weights are those closest to the exact ones.
    """

    name = "ConvBNFusion"
    op_types = frozenset({"BatchNormalization"})

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        source = node.inputs[0]
        producer = graph.view.producer(source.name) if source is not None else None
        if node.domain or source is None or producer is None:
            return False
        conv = graph.view.nodes[producer]
        if conv.op_type != "Conv" or conv.domain:
            return False
        refusal = _refusal(node, conv, graph)
        if refusal:
            return refusal
        weight, bias = _arrays(conv, graph, 1)
        scale, shift, mean, variance = _arrays(node, graph, 1)
        if weight is None or any(array is None for array in (scale, shift, mean, variance)):
            return "a weight is not constant"
        if (len(conv.inputs) > 2 and conv.inputs[2] is not None) and bias is None:
            return "the bias of the Conv is not constant"
        if weight.dtype not in (np.float32, np.float64):
            return f"its weights are {weight.dtype}: rounding them twice would cost precision"
        epsilon = node.attributes.get("epsilon", _EPSILON)
        with np.errstate(all="ignore"):  # what is not finite is looked for below
            factor = scale.astype(np.float64) / np.sqrt(variance.astype(np.float64) + epsilon)
            before = np.zeros(len(factor)) if bias is None else bias.astype(np.float64)
            new_weight = (weight * factor.reshape(-1, *[1] * (weight.ndim - 1))).astype(weight.dtype)
            new_bias = ((before - mean) * factor + shift).astype(weight.dtype)
        if not (np.isfinite(new_weight).all() and np.isfinite(new_bias).all()):
            return "the new weights would not be finite"
        self._write(conv, node, new_weight, new_bias, graph)
        return True

    @staticmethod
    def _write(conv: NodeSpec, node: NodeSpec, weight: Any, bias: Any, graph: GraphEditor) -> None:
        data, filters = conv.inputs[0], conv.inputs[1]
        result = node.outputs[0]
        assert data is not None
        assert filters is not None
        assert result is not None
        template = NodeTemplate(
            "Conv",
            (
                data.name,
                graph.add_constant(f"{filters.name}/normalized", weight),
                graph.add_constant(f"{filters.name}/normalized_bias", bias),
            ),
            (result.name,),
            conv.attributes,
            name=conv.name,
        )
        graph.replace_nodes([conv.index, node.index], [template])


def _refusal(node: NodeSpec, conv: NodeSpec, graph: GraphEditor) -> str:
    """Why the pair must stay; empty where nothing speaks against folding."""
    if node.since_version >= 14 and node.attributes.get("training_mode", 0):
        return "it is in training mode"
    if node.since_version < 7 and not node.attributes.get("is_test", 0):
        return "it is in training mode"
    if not node.attributes.get("spatial", 1):
        return "it normalises each activation for itself"
    for extra in node.outputs[1:]:
        if extra is not None and (graph.view.consumers(extra.name) or is_output(graph, extra.name)):
            return f"its output '{extra.name}' is read"
    result, filters = conv.outputs[0], conv.inputs[1]
    if result is None or filters is None or node.outputs[0] is None:
        return "an output is absent"
    if len(graph.view.consumers(result.name)) != 1 or is_output(graph, result.name):
        return "the result of the Conv is read elsewhere too"
    if filters.constant and len(graph.view.consumers(filters.name)) != 1:
        return "the filters are shared with another node"
    return ""


def _arrays(node: NodeSpec, graph: GraphEditor, start: int) -> list[Any]:
    """Constant inputs from `start` on; None for those that are absent or not constant."""
    count = 2 if node.op_type == "Conv" else 4
    values = [*node.inputs[start : start + count], *[None] * count][:count]
    return [None if value is None else graph.view.constant(value.name) for value in values]
