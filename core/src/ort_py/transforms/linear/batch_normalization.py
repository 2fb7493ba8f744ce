"""BatchNormalization behind an operator with constant weights: one operator with other weights.

Uses `linear_weights`, as `channel_arithmetic` does for Mul and Add.
"""

from __future__ import annotations

import numpy as np

from ort_py.contracts import Array, GraphEditor, NodeSpec, RewriteRule, TransformContext
from ort_py.dtypes import float_attribute
from ort_py.transforms.linear.linear_weights import LINEAR, Linear, linear

_EPSILON = float_attribute(1e-5)


class FoldBatchNormalization(RewriteRule):
    """Scales the weights and moves the bias: ``scale * (conv(x) - mean) / sqrt(var + epsilon) + bias``.

    Behind Conv, ConvTranspose, Gemm and another BatchNormalization.
    """

    name = "ConvBNFusion"
    op_types = frozenset({"BatchNormalization"})

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        front, result = graph.producer(node.inputs[0]), node.outputs[0]
        if node.domain or result is None or front is None or front.domain or front.op_type not in LINEAR - {"MatMul"}:
            return False
        computed = front.outputs[0]
        if computed is None or graph.uses(computed) != 1:
            return f"the result of the {front.op_type} is read elsewhere too"
        own = linear(node, graph)
        one = linear(front, graph) if not isinstance(own, str) else own
        if isinstance(one, str) or isinstance(own, str):
            return str(one)
        factors = _factors(own, graph)
        if factors is None:
            return "a weight is not constant"
        made = one.affine(*factors, graph, result.name)
        if isinstance(made, str):
            return made
        graph.replace_nodes([front, node], [made])
        return True


def _factors(own: Linear, graph: GraphEditor) -> tuple[Array, Array] | None:
    """The factor and the summand of the normalisation, or None if they are not known."""
    mean, variance = (graph.constant(value) for value in own.node.inputs[3:5])
    if mean is None or variance is None or own.bias is None:
        return None
    if not own.weight.shape == own.bias.shape == mean.shape == variance.shape:
        return None  # the node is refused when it runs
    epsilon = own.node.attributes.get("epsilon", _EPSILON)
    with np.errstate(all="ignore"):  # numbers that are not finite are searched for in the weights
        scale = own.weight.astype(np.float64) / np.sqrt(variance.astype(np.float64) + epsilon)
        return scale, own.bias.astype(np.float64) - mean.astype(np.float64) * scale
