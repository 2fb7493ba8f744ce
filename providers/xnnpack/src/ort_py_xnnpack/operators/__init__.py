"""All families of operators, and the question they answer: why a node cannot be run, if it cannot."""

from __future__ import annotations

import importlib
from functools import cache

from ort_py.contracts import GraphView, NodeSpec, ValueSpec
from ort_py.dtypes import DataType
from ort_py_xnnpack.operators.operator import Operator

__all__ = ["FAMILIES", "is_heavy", "operator_of", "refusal"]

_MS = "com.microsoft"

FAMILIES: dict[str, str] = {
    "block_products": f"{_MS}:MatMulNBits",
    "convolution": "Conv ConvTranspose",
    "elementwise": (
        "Abs Add Clip Div Elu Gelu HardSigmoid HardSwish Identity LeakyRelu Max Min Mul Neg PRelu Relu "
        "Round Sigmoid Sub Sum Tanh"
    ),
    "movement": "Concat DepthToSpace Flatten Pad Reshape Slice SpaceToDepth Split Squeeze Transpose Unsqueeze",
    "normalization": (
        "BatchNormalization RMSNormalization SimplifiedLayerNormalization Softmax "
        f"{_MS}:SkipSimplifiedLayerNormalization"
    ),
    "pooling": ("AveragePool GlobalAveragePool GlobalMaxPool MaxPool ReduceMax ReduceMean ReduceMin ReduceSum"),
    "products": "Gemm MatMul",
    "resizing": "Resize",
}
"""Operators of each family, with the domains of those that are not in ONNX. A family is a module of this package,
imported when one of its operators is met."""

_HOMES = {name: family for family, words in FAMILIES.items() for name in words.split()}
_MOST_DIMENSIONS = 6


@cache
def operator_of(domain: str, name: str) -> Operator | None:
    """Return the description of an operator; None where there is none."""
    family = _HOMES.get(f"{domain}:{name}" if domain else name)
    if family is None:
        return None
    operators: dict[str, Operator] = importlib.import_module(f"{__package__}.{family}").OPERATORS
    return operators[name]


def refusal(node: NodeSpec, graph: GraphView) -> str | None:
    """Explain why a node cannot be run here, or return None."""
    inner = graph.function(node)
    if inner is not None:
        return next((reason for part in inner.nodes if (reason := refusal(part, inner)) is not None), None)
    operator = operator_of(node.domain, node.op_type)
    if operator is None:
        return "the XNNPACK provider does not support this operator"
    if node.since_version < operator.since:
        return (
            f"version {node.since_version} of {node.op_type} has a different form; "
            f"versions from {operator.since} on are supported"
        )
    for place, value in enumerate(node.inputs):
        if value is None:
            continue
        if place in operator.looked_at:
            if graph.constant(value.name) is None:
                return f"input {place} is not a constant"
        elif (reason := _unfit(value)) is not None:
            return reason
    for value in node.outputs:
        reason = None if value is None else _unfit(value)
        if reason is not None:
            return reason
    return operator.check(node, graph)


def is_heavy(node: NodeSpec, graph: GraphView) -> bool:
    """Return whether a node that can be run pays for a region by itself."""
    inner = graph.function(node)
    if inner is not None:
        return any(is_heavy(part, inner) for part in inner.nodes)
    operator = operator_of(node.domain, node.op_type)
    return operator is not None and operator.heavy


def _unfit(value: ValueSpec) -> str | None:
    if value.data_type is not DataType.FLOAT:
        kind = "unknown" if value.data_type is None else value.data_type.onnx_name
        return f"'{value.name}' is {kind}; float32 is supported"
    if value.shape is None:
        return f"the rank of '{value.name}' is unknown"
    if len(value.shape) > _MOST_DIMENSIONS:
        return f"'{value.name}' has {len(value.shape)} dimensions; at most {_MOST_DIMENSIONS} are supported"
    if 0 in value.shape:
        return f"'{value.name}' is empty"
    return None
