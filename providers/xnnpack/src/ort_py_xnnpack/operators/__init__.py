"""All families of operators, and the question they answer: why a node cannot be run, if it cannot."""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING

from ort_py.contracts import NodeSpec, ValueSpec
from ort_py.contracts.quantized_expansion import QUANTIZED_RULES
from ort_py.dtypes import DataType
from ort_py_xnnpack.binding.features import has_half_arithmetic
from ort_py_xnnpack.graph.flat_graph import FlatGraph
from ort_py_xnnpack.graph.grids import Grids, grid_of
from ort_py_xnnpack.operators.operator import HALVES, Operator

if TYPE_CHECKING:
    from ort_py_xnnpack.execution.builder import Builder
    from ort_py_xnnpack.operators.integers import Integers

__all__ = ["FAMILIES", "is_heavy", "lower_integers", "operator_of", "refusal"]

_MS = "com.microsoft"

FAMILIES: dict[str, str] = {
    "block_products": f"{_MS}:MatMulNBits",
    "conversions": "Cast DequantizeLinear QuantizeLinear",
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

_SUMS = "XNNPACK gives sums of products as integers of 8 bits or as float32, not as the 32 bits that this node wants"
_REASONS = {
    "ConvInteger": _SUMS,
    "DynamicQuantizeLinear": "XNNPACK finds a scale for each row, ONNX one for all, and zero points differ too",
    "MatMulInteger": _SUMS,
}
"""Why operators are not taken that XNNPACK seems to have."""
_NOT_EXPANDED = (
    "it is no operator between conversions: a scale of a bias is not a constant of float32, scales lie along more than "
    "one axis, or an attribute says alpha or channels_last"
)

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


def refusal(graph: FlatGraph, grids: Grids, place: int) -> str | None:
    """Explain why a node of a graph cannot be run here, or return None.

    Args:
        graph: The graph.
        grids: The grids of its integers.
        place: Where the node is.
    """
    node = graph.nodes[place]
    operator = operator_of(node.domain, node.op_type)
    if operator is None:
        if (node.domain, node.op_type) in QUANTIZED_RULES:
            return _NOT_EXPANDED
        return _REASONS.get(node.op_type, "the XNNPACK provider does not support this operator")
    if node.since_version < operator.since:
        return (
            f"version {node.since_version} of {node.op_type} has a different form; "
            f"versions from {operator.since} on are supported"
        )
    result = node.outputs[0]
    if result is not None and graph.dequantiser(result.name) is node:
        return _refusal_of_weights(graph, grids, result)
    halves = HALVES if operator.half and has_half_arithmetic() else frozenset()
    for index, value in enumerate(node.inputs):
        if value is None:
            continue
        if index in operator.looked_at:
            if not graph.is_known(value.name):
                return f"input {index} is not a constant"
        elif (reason := _unfit(value, operator.takes | halves)) is not None:
            return reason
    for value in node.outputs:
        reason = None if value is None else _unfit(value, operator.gives | halves)
        if reason is not None:
            return reason
    if operator is operator_of("", "DequantizeLinear") or operator is operator_of("", "QuantizeLinear"):
        grid = grid_of(node, graph)
        if isinstance(grid, str):
            return grid
        if grids.differs(place):
            return "the same integers are converted with another scale or zero point elsewhere"
    return operator.check(node, graph)


def lower_integers(builder: Builder, found: Integers) -> None:
    """Describe a node that computes with integers."""
    node = found.node
    operator = operator_of("", node.op_type)
    assert operator is not None
    if found.weights is None:
        found.clamp(builder, lambda one: operator.lower(builder, one))
        return
    from ort_py_xnnpack.operators import convolution, products

    (convolution if node.op_type == "Conv" else products).lower_integers(builder, found)


def is_heavy(node: NodeSpec) -> bool:
    """Return whether a node that can be run pays for a region by itself."""
    operator = operator_of(node.domain, node.op_type)
    return operator is not None and operator.heavy


def _refusal_of_weights(graph: FlatGraph, grids: Grids, weights: ValueSpec) -> str | None:
    """Explain why constants are not dequantised here: somebody else reads them."""
    if weights.data_type is not DataType.FLOAT:
        return "it does not give float32"
    readers = [place for place in graph.readers(weights.name) if not graph.is_dequantiser(place)]
    if any(refusal(graph, grids, place) is None for place in readers):
        return None
    return "no node that XNNPACK runs reads it"


def _unfit(value: ValueSpec, kinds: frozenset[DataType]) -> str | None:
    if value.data_type not in kinds:
        kind = "unknown" if value.data_type is None else value.data_type.onnx_name
        *names, last = sorted("float32" if one is DataType.FLOAT else one.onnx_name for one in kinds)
        listed = f"{', '.join(names)} and {last} are" if names else f"{last} is"
        lacking = " (float16 too, on processors that compute with it)" if value.data_type is DataType.FLOAT16 else ""
        return f"'{value.name}' is {kind}; {listed} supported{lacking}"
    if value.shape is None:
        return f"the rank of '{value.name}' is unknown"
    if len(value.shape) > _MOST_DIMENSIONS:
        return f"'{value.name}' has {len(value.shape)} dimensions; at most {_MOST_DIMENSIONS} are supported"
    if 0 in value.shape:
        return f"'{value.name}' is empty"
    return None
